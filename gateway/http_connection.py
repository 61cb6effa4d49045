"""One client's connection: Hypercorn speaks HTTP on it, what it may hold up is ours.

Hypercorn's own connection costs more than it does: for each request it starts and ends a timer's task, waits
for locks nobody holds, and sends head and body apart. And it has to be guarded:

1. Its sends are shielded without a deadline, so one client that stops reading keeps the server from ever
   stopping, and no cancellation helps. Ours are bounded, and end with their connection.
2. What an application sends to a client that left is dropped without a checkpoint, so an application that
   only sends starves every other task of the process. Ours yields after every send but the last.
3. An application has to watch for its client while it works, and is told that the client has left when an
   answer is complete. Ours ends with its client, unless its answer is complete.
4. A request that is answered before its body has come costs the connection, and its client finds out with
   the next request. Ours waits for the body a while.
5. A connection that its client closes while it is idle stays until the idle time is over. Ours ends at once.
   The head of a request has a deadline, and an idle connection makes room for a new one (`http_server`).
6. In HTTP/2 a client that lets nothing through has whole answers kept for it, however long, and tasks that
   wait for ever. Ours speaks HTTP/1 alone; a proxy speaks the other better.
"""

from __future__ import annotations

import logging
import math
import os
import re
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, cast

import trio
from hypercorn.config import Config
from hypercorn.events import Closed, Event, RawData, Updated
from hypercorn.protocol.events import EndBody
from hypercorn.protocol.events import Event as StreamEvent
from hypercorn.protocol.h11 import H11Protocol
from hypercorn.protocol.ws_stream import WSStream
from hypercorn.trio.worker_context import WorkerContext
from hypercorn.typing import (
    ASGIFramework,
    ASGIReceiveEvent,
    ASGISendEvent,
    ConnectionState,
    HTTPResponseStartEvent,
    HTTPScope,
    WebsocketScope,
)
from hypercorn.utils import parse_socket_addr

from .errors import STOPPED, bare_error, bare_refusal
from .log_lines import ANSWERED, log_request

if TYPE_CHECKING:
    import h11

log = logging.getLogger(__name__)

KEEP_ALIVE = 60.0
"""Seconds that a connection is kept after an answer, until the next request begins."""
HEAD_TIMEOUT = 10.0
"""Seconds that the head of a request may take to arrive, from when the connection or the request begins."""
SEND_TIMEOUT = 30.0
"""Seconds a client may leave bytes unread before its connection is closed."""
BODY_TIMEOUT = 60.0
"""Seconds a request's body may take to arrive, for an application that asks for it."""
BODY_GRACE = 5.0
"""Seconds an answer waits for the rest of a request's body that nobody has asked for."""
MAX_UNWANTED = 2**24
"""Bytes of it that it waits for at most."""
BODY_GIVEN_UP = (408, 413)
"""Answers that say that the rest of the body is not wanted any more."""
MAX_RECEIVED = 2**16
"""Bytes that are read at once."""
MAX_SENT = 2**16
"""Bytes of an answer that a client has `SEND_TIMEOUT` for."""
MAX_QUEUED = 10
"""Pieces of a body, or messages of a websocket, that wait for the application."""

_FRAMINGS = {b"content-length", b"transfer-encoding"}
_TARGET = re.compile(rb"(https?://[\w.:-]+)?/", re.IGNORECASE)
"""How a request names what it is about: by a path, maybe behind a host as one asks a proxy."""


class Connection:
    """One client. Its sends are bounded and can be cancelled; it ends when its client has left."""

    def __init__(
        self, app: ASGIFramework, config: Config, context: WorkerContext, stream: trio.SocketStream
    ) -> None:
        self._app = app
        self._config = config
        self._context = context
        self._stream = stream
        self._nursery: trio.Nursery
        self._protocol: HTTP1
        self._sending = trio.Lock()
        self._reading = trio.CancelScope()
        self.idle_since = math.inf
        """trio's time; never, from when the head of a request is complete until it is answered."""
        self.ends_at = math.inf
        """When it is closed if it is idle until then."""
        self._holding = False
        self._held = b""

    async def run(self) -> None:
        sock = self._stream.socket
        try:
            client = parse_socket_addr(sock.family, sock.getpeername())
            server = parse_socket_addr(sock.family, sock.getsockname())
        except OSError:
            return  # it left first
        try:
            async with trio.open_nursery() as self._nursery:
                self._protocol = HTTP1(
                    cast(Any, self._app),
                    self._config,
                    self._context,
                    cast(Any, self),
                    ConnectionState({}),
                    False,
                    client,
                    server,
                    self._send,
                )
                self._rest(HEAD_TIMEOUT)
                await self._read()
            del self._protocol  # it sends by us: both would be left to the garbage collector
        finally:
            await self._close()

    def end_if_idle(self) -> None:
        if self.idle_since < math.inf:
            self.idle_since = self.ends_at = math.inf
            self._reading.cancel()

    def hold(self) -> None:
        """The bytes sent next leave together with those that follow."""
        self._holding = True

    async def spawn_app(
        self,
        app: ASGIFramework,
        config: Config,
        scope: HTTPScope | WebsocketScope,
        send: Callable[[ASGISendEvent | None], Awaitable[None]],
    ) -> Callable[[ASGIReceiveEvent], Awaitable[None]]:
        """Hypercorn has a request; what it returns is where the rest of it goes."""
        request = RequestTask(self, scope, send)
        self._nursery.start_soon(request.run, app)
        return request.put

    def write_last(self, data: bytes) -> None:
        """Write what the system takes at once, for there is no time for more."""
        with suppress(OSError):
            self._write_now(data)

    async def _read(self) -> None:
        with self._reading:
            while self._stream.socket.fileno() >= 0:
                try:
                    await trio.lowlevel.wait_readable(self._stream.socket)
                    data = os.read(self._stream.socket.fileno(), MAX_RECEIVED)
                except BlockingIOError:
                    continue
                except (trio.ClosedResourceError, OSError):
                    break
                await self._protocol.handle(RawData(data))
                if (
                    self.idle_since < math.inf and self._protocol.connection.trailing_data[0]
                ):  # part of a head
                    self.ends_at = min(self.ends_at, trio.current_time() + HEAD_TIMEOUT)
                if not data:
                    break
        await self._protocol.handle(Closed())

    def _rest(self, seconds: float) -> None:
        self.idle_since = trio.current_time()
        self.ends_at = self.idle_since + seconds
        if self._context.terminated.is_set():
            self._reading.cancel()

    async def _send(self, event: Event) -> None:
        """What Hypercorn wants to be done."""
        if isinstance(event, RawData):
            if self._holding:
                self._held, self._holding = event.data, False
                return
            data, self._held = self._held + event.data, b""
            if data:  # nothing is the end of an answer whose length was told
                await self._write(data)
        elif isinstance(event, Updated):
            if event.idle:
                self._rest(KEEP_ALIVE)
            else:
                self.idle_since = self.ends_at = math.inf
        elif isinstance(event, Closed):
            await self._close()
            self._reading.cancel()

    async def _write(self, data: bytes) -> None:
        """Write all of it, or end the connection."""
        written = False
        try:
            if not self._sending.locked():
                data = self._write_now(data)
            if data:
                async with self._sending:
                    await self._write_on(data)
            written = True
        except (trio.BrokenResourceError, trio.ClosedResourceError, trio.TooSlowError, OSError):
            pass
        finally:
            if not written:
                # Part of it may have left, so nothing that follows would make sense to the client. The reader
                # may wait for this very answer before it goes on with what the client sent after its request.
                self._reading.cancel()
                await trio.aclose_forcefully(self._stream)

    def _write_now(self, data: bytes) -> bytes:
        """Write what the system takes at once, as it does with nearly every answer; the rest of it."""
        try:
            return data[os.write(self._stream.socket.fileno(), data) :]
        except BlockingIOError:
            return data

    async def _write_on(self, data: bytes) -> None:
        """Write it as fast as the client reads. Raises `trio.TooSlowError` when it does not."""
        for at in range(0, len(data), MAX_SENT):
            with trio.fail_after(SEND_TIMEOUT):
                await self._stream.send_all(data[at : at + MAX_SENT])

    async def _close(self) -> None:
        with suppress(trio.BrokenResourceError, trio.BusyResourceError, trio.ClosedResourceError):
            await self._stream.send_eof()
        await self._stream.aclose()


class HTTP1(H11Protocol):
    """Hypercorn's, where no client can make it another, nor say twice how long its body is."""

    async def _check_protocol(self, event: h11.Request) -> None:
        """Heed no wish for HTTP/2."""

    async def _create_stream(self, request: h11.Request) -> None:
        if not request.http_version.startswith(b"1."):
            await self._refuse(HTTPStatus.HTTP_VERSION_NOT_SUPPORTED)
        elif {name for name, _ in request.headers} >= _FRAMINGS or not _TARGET.match(request.target):
            # Of two framings a proxy may go by the other one, and would take for its next client's what is
            # this one's (RFC 9112, section 6.1).
            await self._refuse(HTTPStatus.BAD_REQUEST)
        elif _head_size(request) > self.config.h11_max_incomplete_size:
            # h11 looks only at what is not complete: a head that came in few pieces would pass.
            await self._refuse(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)
        else:
            await super()._create_stream(request)

    async def _refuse(self, status: HTTPStatus) -> None:
        await self._send_error_response(status)
        await self.send(Closed())

    async def _send_error_response(self, status_code: int) -> None:
        cast("h11.Connection", self.connection).send_failed()  # what is sent is the last, and none of its
        await self.send(RawData(bare_refusal(status_code)))

    async def stream_send(self, event: StreamEvent) -> None:
        await super().stream_send(event)
        if isinstance(event, EndBody) and isinstance(self.stream, WSStream):
            # A handshake was refused: Hypercorn would keep the connection for as long as its client does.
            await self.send(Closed())


class RequestTask:
    """One request: the application's task, and what passes between it and Hypercorn."""

    def __init__(
        self,
        connection: Connection,
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
        await self._send(None)
        del self._send  # Hypercorn's stream has our `put`: both would be left to the garbage collector

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
        if message["type"] == "http.disconnect":
            self._arrived.set()
            if not self._answered:
                self._client.cancel()
            return
        if message["type"] == "http.request":
            if not message["more_body"]:
                self._arrived.set()
            if self._status:  # nobody reads it any more
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
            await self._send(message)
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


def _head_size(request: h11.Request) -> int:
    """Bytes of the first line and the headers, each with its line's end."""
    first = len(request.method) + len(request.target) + len(b"  HTTP/1.1\r\n")
    return first + sum(len(name) + len(value) + len(b": \r\n") for name, value in request.headers)


def _content_length(headers: Iterable[tuple[bytes, bytes]]) -> int:
    """-1 when it is not said."""
    return next((int(value) for name, value in headers if name.lower() == b"content-length"), -1)
