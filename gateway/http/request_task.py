"""The application's task for one request, and the ASGI messages between it and Hypercorn.

Hypercorn calls `put` with messages of the client; the application calls `receive` and `send`:

    client -> Hypercorn -> put -> (queue) -> receive -> application -> send -> Hypercorn -> client

1. Every `send` but the last has a checkpoint. Hypercorn drops messages to a disconnected client without one,
   so an application that only sends would starve all other tasks.
2. The task is cancelled when its client disconnects, unless the answer is complete. With Hypercorn alone, the
   application would have to watch for the disconnect.
3. An answer that starts before the request's body has arrived waits for the body, at most `BODY_GRACE`
   seconds and `MAX_UNWANTED` bytes. Hypercorn would close the connection, and the next request would fail.
4. The task of a websocket is also cancelled when the server stops. The close frame then says so (`STOPS`).
5. If the process is cancelled (a second signal) before an answer has begun, the client gets `STOPPED`.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Awaitable, Callable, Iterable
from contextlib import AbstractContextManager, suppress
from typing import Protocol

import trio
from hypercorn.typing import (
    ASGIFramework,
    ASGIReceiveEvent,
    ASGISendEvent,
    HTTPResponseStartEvent,
    HTTPScope,
    WebsocketScope,
)

from .access_log import SENT_STATUS, log_request
from .errors import STOPPED, bare_error
from .http_protocol import CLOSE_GRACE, HEARTBEAT_INTERVAL
from .web_socket import STOPS

log = logging.getLogger(__name__)

BODY_TIMEOUT = 60.0
"""Seconds for a request's body to arrive, if the application reads it."""
BODY_GRACE = 5.0
"""Seconds that an answer waits for the rest of a body that the application did not read."""
MAX_UNWANTED = 2**24
"""Bytes of that rest after which the answer no longer waits."""
BODY_GIVEN_UP = (408, 413)
"""Statuses of answers that do not wait for the rest of the body."""
PIECE = 2**15
"""Bytes of an answer that are given to Hypercorn at once, so that an answer which many clients do not read is
in memory once, and each connection has only some pieces of it."""
MAX_QUEUED = 10
"""Maximum number of messages that wait for the application."""


class RequestConnection(Protocol):
    """The part of a connection that a request uses."""

    beats_at: float
    """When the websocket's next heartbeat is due (trio's time)."""

    @property
    def draining(self) -> bool:
        """Whether the server is stopping."""
        ...

    def waiting(self) -> AbstractContextManager[None]:
        """Say that the connection waits for its client within the block."""
        ...

    def delay_next(self) -> None:
        """Delay the next bytes and send them together with those that follow."""

    def write_last(self, data: bytes) -> None:
        """Write as much as is possible without waiting, because the process is stopping."""


class RequestTask:
    """One request or websocket."""

    def __init__(
        self,
        connection: RequestConnection,
        scope: HTTPScope | WebsocketScope,
        send: Callable[[ASGISendEvent | None], Awaitable[None]],
    ) -> None:
        self._connection = connection
        self._scope = scope
        self._send = send
        self._client = trio.CancelScope()
        """Cancelled when the client disconnects before its answer is complete."""
        self._queue, self._messages = trio.open_memory_channel[ASGIReceiveEvent](MAX_QUEUED)
        self._arrived = trio.Event()
        """The request's body has arrived, or will not arrive."""
        self._began = trio.current_time()
        self._status = 0
        self._head: HTTPResponseStartEvent | None = None
        """The answer's head, kept until the first bytes of its body, so that both are sent together."""
        self._missing = -1
        """Bytes of the answer's body that have not been sent; negative without a Content-Length."""
        self._complete = False
        self._goodbye = False
        """A close frame with `STOPS` is due."""
        self._unwanted = 0
        """Bytes of the request's body that have arrived since the answer began."""

    async def run(self, app: ASGIFramework) -> None:
        try:
            with self._client:
                await app(self._scope, self.receive, self.send)
        except* Exception as errors:
            log.error("the application failed", exc_info=errors)
        finally:
            self._messages.close()
            if trio.current_effective_deadline() == -math.inf:
                self._stopped()
        if self._goodbye and not self._complete:
            with trio.move_on_after(CLOSE_GRACE):  # the client may not read
                code, reason = STOPS
                await self._send({"type": "websocket.close", "code": code, "reason": reason})
        await self._send(None)
        del self._send  # breaks a reference cycle

    def stop(self) -> None:
        """Close the websocket because the server stops. A pending handshake is answered first."""
        self._goodbye = True
        if self._status:
            self._client.cancel()

    def _stopped(self) -> None:
        """Answer a waiting client with `STOPPED`, and log the request."""
        unsent = not self._status or self._head is not None
        if self._scope["type"] == "http":
            if unsent:
                self._connection.write_last(bare_error(*STOPPED))
            status = STOPPED[0] if unsent else self._status
            log_request(self._scope, status, trio.current_time() - self._began)

    async def put(self, message: ASGIReceiveEvent) -> None:
        """Pass a message of the client to the application."""
        if message["type"] in ("http.disconnect", "websocket.disconnect"):
            self._arrived.set()
            if message["type"] == "websocket.disconnect" or not self._complete:
                self._goodbye = False
                self._client.cancel()
            return
        if message["type"] == "http.request":
            if not message["more_body"]:
                self._arrived.set()
            if self._status:  # the application no longer reads the body
                self._unwanted += len(message["body"])
                if self._unwanted > MAX_UNWANTED:
                    self._arrived.set()
                return
        with suppress(trio.BrokenResourceError):  # the application has ended
            try:
                self._queue.send_nowait(message)
            except trio.WouldBlock:
                await self._queue.send(message)

    async def receive(self) -> ASGIReceiveEvent:
        """The next message of the client. Raises `trio.TooSlowError` if the body does not arrive in time."""
        try:
            return self._messages.receive_nowait()
        except trio.WouldBlock:
            pass
        body = self._scope["type"] == "http" and not self._arrived.is_set()
        if not body:
            return await self._messages.receive()
        with trio.fail_at(self._began + BODY_TIMEOUT), self._connection.waiting():
            return await self._messages.receive()

    async def send(self, message: ASGISendEvent) -> None:
        if message["type"] == "http.response.start":
            await self._start(message)
        elif message["type"] == "http.response.body":
            data, more = message.get("body", b""), message.get("more_body", False)
            last = max(len(data) - 1, 0) // PIECE * PIECE
            for at in range(0, last, PIECE):
                await self._body(data[at : at + PIECE], True)
            await self._body(data[last:], more)
        else:
            await self._send_frames(message)

    async def _send_frames(self, message: ASGISendEvent) -> None:
        """Send a message of a websocket, or the refusal of its handshake."""
        await self._send(message)
        if message["type"] == "websocket.accept":
            self._status = 101
            self._connection.beats_at = trio.current_time() + HEARTBEAT_INTERVAL
            if self._connection.draining:
                self.stop()
        elif message["type"] == "websocket.close":
            self._complete = True
        await trio.lowlevel.checkpoint()

    async def _start(self, head: HTTPResponseStartEvent) -> None:
        self._head = head
        self._status, self._missing = head["status"], _content_length(head["headers"])
        if self._status not in BODY_GIVEN_UP and not self._arrived.is_set():
            self._forget_queue()
            with trio.move_on_after(BODY_GRACE), self._connection.waiting():
                await self._arrived.wait()

    def _forget_queue(self) -> None:
        with suppress(trio.WouldBlock):
            while True:
                self._messages.receive_nowait()

    async def _body(self, data: bytes, more: bool) -> None:
        if self._complete:
            return
        self._missing -= len(data)
        # The client may disconnect after the last byte, before the application ends the body.
        if self._missing == 0 or not more:
            self._complete = True
            self._scope["state"][SENT_STATUS] = self._status
        if self._head is not None:
            self._connection.delay_next()
            await self._send(self._head)
            self._head = None
        await self._send({"type": "http.response.body", "body": data, "more_body": not self._complete})
        if not self._complete:
            await trio.lowlevel.checkpoint()


def _content_length(headers: Iterable[tuple[bytes, bytes]]) -> int:
    """The Content-Length; -1 if absent."""
    return next((int(value) for name, value in headers if name.lower() == b"content-length"), -1)
