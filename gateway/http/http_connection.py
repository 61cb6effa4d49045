"""One client's connection: Hypercorn speaks HTTP on it, with bounds on all that a client can hold up.

Hypercorn's own connection starts and ends a timer's task for each request, takes locks that are free, and
sends head and body apart. Beside that cost:

1. Its sends are shielded without a deadline, so one client that stops reading keeps the server from ever
   stopping, and no cancellation helps. Sends are bounded here, and end with their connection.
2. A connection that its client closes while it is idle stays open until the idle time is over. Here it ends
   at once. The head of a request has a deadline, and an idle connection makes room for a new one
   (`http_server`).
3. In HTTP/2 a client that lets nothing through makes the server keep whole answers, and tasks that wait for
   ever. Only HTTP/1 is spoken here; a proxy may speak HTTP/2 to clients.
"""

from __future__ import annotations

import logging
import math
import os
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, cast

import trio
from hypercorn.config import Config
from hypercorn.events import Closed, Event, RawData, Updated
from hypercorn.trio.worker_context import WorkerContext
from hypercorn.typing import (
    ASGIFramework,
    ASGIReceiveEvent,
    ASGISendEvent,
    ConnectionState,
    HTTPScope,
    WebsocketScope,
)
from hypercorn.utils import parse_socket_addr

from .http_protocol import HEARTBEAT_INTERVAL, HTTP1
from .request_task import RequestTask

log = logging.getLogger(__name__)

KEEP_ALIVE = 60.0
"""Seconds that a connection is kept after an answer, until the next request begins."""
HEAD_TIMEOUT = 10.0
"""Seconds that the head of a request may take to arrive, from when the connection or the request begins."""
SEND_TIMEOUT = 30.0
"""Seconds a client may leave bytes unread before its connection is closed."""
MAX_RECEIVED = 2**16
"""Bytes that are read at once."""
MAX_SENT = 2**16
"""Bytes of an answer that a client has `SEND_TIMEOUT` for."""


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
        self.beats_at = math.inf
        """When it sends a heartbeat unless it sends something else; never, if it is no websocket."""
        self._socket: RequestTask | None = None
        """The task of a websocket."""
        self._ended = False
        """No task may be started any more."""
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
                try:
                    await self._read()
                finally:
                    self._socket, self._ended = None, True
            del self._protocol  # breaks a reference cycle
        finally:
            await self._close()

    def end_if_idle(self) -> None:
        if self.idle_since < math.inf:
            self.idle_since = self.ends_at = math.inf
            self._reading.cancel()

    def drain(self) -> None:
        """End when the answer under way is complete; a websocket ends with a close frame."""
        self.end_if_idle()
        if self._socket is not None:
            self._socket.stop()

    def beat(self) -> None:
        """Send a heartbeat."""
        self.beats_at = math.inf if self._ended else trio.current_time() + HEARTBEAT_INTERVAL
        if not self._ended:
            self._nursery.start_soon(self._protocol.beat)

    def hold(self) -> None:
        """See `RequestConnection`."""
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
        if scope["type"] == "websocket":
            self._socket = request
        self._nursery.start_soon(request.run, app)
        return request.put

    @property
    def draining(self) -> bool:
        """See `RequestConnection`."""
        return self._context.terminated.is_set()

    def write_last(self, data: bytes) -> None:
        """See `RequestConnection`."""
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
        if self.draining:
            self._reading.cancel()

    async def _send(self, event: Event) -> None:
        """Carry out an event of Hypercorn."""
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
        if self.beats_at < math.inf:
            self.beats_at = trio.current_time() + HEARTBEAT_INTERVAL
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
