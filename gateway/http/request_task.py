"""The application's task for one request, and what passes between it and Hypercorn.

1. An application that only sends to a client that left would starve every other task of the process, because
   Hypercorn drops what is sent without a checkpoint. Every send but the last yields here.
2. Hypercorn leaves it to the application to watch for its client. Here the task is cancelled when its client
   leaves, unless its answer is complete.
3. Hypercorn closes a connection whose request is answered before its body has arrived, and the client notices
   with the next request. Here the answer waits for the body a while.
4. The task of a websocket is cancelled when the server stops, too, and the close frame says so.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
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

from .access_log import ANSWERED, log_request
from .errors import STOPPED, bare_error
from .http_protocol import CLOSE_GRACE, HEARTBEAT_INTERVAL
from .web_socket import STOPS

log = logging.getLogger(__name__)

BODY_TIMEOUT = 60.0
"""Seconds a request's body may take to arrive, for an application that asks for it."""
BODY_GRACE = 5.0
"""Seconds an answer waits for the rest of a request's body that the application did not read."""
MAX_UNWANTED = 2**24
"""Maximum number of bytes of it to wait for."""
BODY_GIVEN_UP = (408, 413)
"""Answers that say that the rest of the body is not wanted any more."""
MAX_QUEUED = 10
"""Pieces of a body that wait for the application."""


class RequestConnection(Protocol):
    """The connection, as far as a request needs it."""

    beats_at: float
    """When a websocket sends a heartbeat unless it sends something else (trio's time)."""

    @property
    def draining(self) -> bool:
        """The server stops."""
        ...

    def hold(self) -> None:
        """The bytes sent next leave together with those that follow."""

    def write_last(self, data: bytes) -> None:
        """Write what the system takes at once, for there is no time for more."""


class RequestTask:
    """One request: the application's task, and what passes between it and Hypercorn."""

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
        """Cancelled when the client leaves before its answer is complete."""
        self._queue, self._messages = trio.open_memory_channel[ASGIReceiveEvent](MAX_QUEUED)
        self._arrived = trio.Event()
        """The body of the request is here, or will not come."""
        self._began = trio.current_time()
        self._status = 0
        self._head: HTTPResponseStartEvent | None = None
        """Kept until there is something of the body: then both leave together."""
        self._missing = -1
        """Bytes of the answer's body that have not been sent; negative when its length is not told."""
        self._answered = False
        self._goodbye = False
        """A close frame has to say that the server stops."""
        self._unwanted = 0
        """Bytes of the request's body that have come since it is answered."""

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
        if self._goodbye and not self._answered:
            with trio.move_on_after(CLOSE_GRACE):  # a client that does not read is cut off
                code, reason = STOPS
                await self._send({"type": "websocket.close", "code": code, "reason": reason})
        await self._send(None)
        del self._send  # breaks a reference cycle

    def stop(self) -> None:
        """End a websocket because the server stops. A handshake under way is answered first."""
        self._goodbye = True
        if self._status:
            self._client.cancel()

    def _stopped(self) -> None:
        """Tell a client that waits, for there will be no answer any more."""
        nothing_left = not self._status or self._head is not None
        if self._scope["type"] == "http":
            if nothing_left:
                self._connection.write_last(bare_error(*STOPPED))
            status = STOPPED[0] if nothing_left else self._status
            log_request(self._scope, status, trio.current_time() - self._began)

    async def put(self, message: ASGIReceiveEvent) -> None:
        """Take what comes from the client."""
        if message["type"] in ("http.disconnect", "websocket.disconnect"):
            self._arrived.set()
            if message["type"] == "websocket.disconnect" or not self._answered:
                self._goodbye = False
                self._client.cancel()
            return
        if message["type"] == "http.request":
            if not message["more_body"]:
                self._arrived.set()
            if self._status:  # the application does not read it any more
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
        """Raises `trio.TooSlowError` for a body that does not come in time."""
        try:
            return self._messages.receive_nowait()
        except trio.WouldBlock:
            pass
        body = self._scope["type"] == "http" and not self._arrived.is_set()
        with trio.fail_at(self._began + BODY_TIMEOUT if body else math.inf):
            return await self._messages.receive()

    async def send(self, message: ASGISendEvent) -> None:
        if message["type"] == "http.response.start":
            await self._start(message)
        elif message["type"] == "http.response.body":
            await self._body(message.get("body", b""), message.get("more_body", False))
        else:
            await self._send_frames(message)

    async def _send_frames(self, message: ASGISendEvent) -> None:
        """Pass on a message of a websocket, or the refusal of its handshake."""
        await self._send(message)
        if message["type"] == "websocket.accept":
            self._status = 101
            self._connection.beats_at = trio.current_time() + HEARTBEAT_INTERVAL
            if self._connection.draining:
                self.stop()
        elif message["type"] == "websocket.close":
            self._answered = True
        await trio.lowlevel.checkpoint()

    async def _start(self, head: HTTPResponseStartEvent) -> None:
        self._head = head
        self._status, self._missing = head["status"], _content_length(head["headers"])
        if self._status not in BODY_GIVEN_UP and not self._arrived.is_set():
            self._forget_queue()
            with trio.move_on_after(BODY_GRACE):
                await self._arrived.wait()

    def _forget_queue(self) -> None:
        with suppress(trio.WouldBlock):
            while True:
                self._messages.receive_nowait()

    async def _body(self, data: bytes, more: bool) -> None:
        if self._answered:
            return
        self._missing -= len(data)
        # With its last byte the client may leave, though the application has not said yet that it is.
        if self._missing == 0 or not more:
            self._answered = True
            self._scope["state"][ANSWERED] = self._status
        if self._head is not None:
            self._connection.hold()
            await self._send(self._head)
            self._head = None
        await self._send({"type": "http.response.body", "body": data, "more_body": not self._answered})
        if not self._answered:
            await trio.lowlevel.checkpoint()


def _content_length(headers: Iterable[tuple[bytes, bytes]]) -> int:
    """-1 when it is not said."""
    return next((int(value) for name, value in headers if name.lower() == b"content-length"), -1)
