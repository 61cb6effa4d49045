"""One client's connection: Hypercorn's HTTP/1 protocol on a socket, with deadlines for the client.

Per connection there are a reader (`_read`, which feeds the protocol) and a task per request (`RequestTask`).
The protocol calls `_send` with bytes to write and with changes between idle and busy.

| state | deadline | then |
|---|---|---|
| no request begun | `HEAD_TIMEOUT` after the connection opened, `KEEP_ALIVE` after an answer | closed |
| head of a request incomplete | `HEAD_TIMEOUT` | closed |
| request in progress | none here; see `request_task` for its body | |
| unread bytes of an answer | `SEND_TIMEOUT` per `MAX_SENT` bytes | closed |
| silent websocket | `HEARTBEAT_INTERVAL` | heartbeat |

It replaces Hypercorn's own connection, which starts and ends a timer task for each request, takes uncontended
locks, sends head and body separately, and:

1. shields its sends without a deadline, so one client that stops reading prevents the server from stopping.
   Here sends have a deadline, and end with their connection;
2. keeps a connection that the client closed while idle until its idle time is over. Here it is closed at
   once, and an idle connection can be closed in favour of a new one (`http_server`);
3. speaks HTTP/2, in which a client that grants no window makes the server keep whole answers and tasks that
   wait for ever. Here only HTTP/1 is spoken; a proxy may speak HTTP/2 to clients.
"""

from __future__ import annotations

import logging
import math
import os
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
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

KEEP_ALIVE = 75.0
"""Seconds that an idle connection is kept after an answer, unless the server says otherwise."""
HEAD_TIMEOUT = 10.0
"""Seconds for the head of a request to arrive, from when the connection opens or the head begins."""
SEND_TIMEOUT = 30.0
"""Seconds that a client may leave bytes unread before its connection is closed."""
MAX_RECEIVED = 2**16
"""Bytes per read."""
MAX_SENT = 2**16
"""Bytes of an answer per `SEND_TIMEOUT`."""


class ClientConnection:
    """One client's connection, from its first byte until it is closed."""

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
        """When it became idle (trio's time). Infinite from the end of a request's head until its answer."""
        self.ends_at = math.inf
        """When it is closed, if it is still idle."""
        self.waits_since = math.inf
        """Since when it has waited for its client to read an answer, or to send the rest of a body."""
        self.beats_at = math.inf
        """When the websocket's next heartbeat is due; infinite without a websocket."""
        self._socket: RequestTask | None = None
        """The task of a websocket."""
        self._ended = False
        """The nursery accepts no more tasks."""
        self._delays = False
        self._delayed = b""

    async def run(self) -> None:
        sock = self._stream.socket
        try:
            client = parse_socket_addr(sock.family, sock.getpeername())
            server = parse_socket_addr(sock.family, sock.getsockname())
        except OSError:
            return  # the client disconnected first
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

    def end(self) -> None:
        """Close the connection at once, in the middle of a request or an answer."""
        self.waits_since = math.inf
        self._stream.socket.close()
        self._reading.cancel()

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """See `RequestConnection`."""
        self.waits_since = trio.current_time()
        try:
            yield
        finally:
            self.waits_since = math.inf

    def drain(self) -> None:
        """Close the connection after the current answer; close a websocket with a close frame."""
        self.end_if_idle()
        if self._socket is not None:
            self._socket.stop()

    def beat(self) -> None:
        """Send a heartbeat."""
        self.beats_at = math.inf if self._ended else trio.current_time() + HEARTBEAT_INTERVAL
        if not self._ended:
            self._nursery.start_soon(self._protocol.beat)

    def delay_next(self) -> None:
        """See `RequestConnection`."""
        self._delays = True

    async def spawn_app(
        self,
        app: ASGIFramework,
        config: Config,
        scope: HTTPScope | WebsocketScope,
        send: Callable[[ASGISendEvent | None], Awaitable[None]],
    ) -> Callable[[ASGIReceiveEvent], Awaitable[None]]:
        """Start the application for a request. Hypercorn passes further messages to the returned function."""
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
                head_begun = self._protocol.connection.trailing_data[0]
                if self.idle_since < math.inf and head_begun:
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
        """Handle an event of the protocol: bytes to write, idle or busy, closed."""
        if isinstance(event, RawData):
            if self._delays:
                self._delayed, self._delays = event.data, False
                return
            data, self._delayed = self._delayed + event.data, b""
            if data:  # empty at the end of an answer with a Content-Length
                await self._write(data)
        elif isinstance(event, Updated):
            if event.idle:
                self._rest(self._config.keep_alive_timeout)
            else:
                self.idle_since = self.ends_at = math.inf
        elif isinstance(event, Closed):
            await self._close()
            self._reading.cancel()

    async def _write(self, data: bytes) -> None:
        """Write all of the data, or close the connection."""
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
                # A part may have been sent, so further bytes would make no sense to the client. The reader
                # may wait for this answer before it handles the next request, so cancel it.
                self._reading.cancel()
                await trio.aclose_forcefully(self._stream)

    def _write_now(self, data: bytes) -> bytes:
        """Write without waiting, which succeeds for nearly every answer. Returns the data that is left."""
        try:
            return data[os.write(self._stream.socket.fileno(), data) :]
        except BlockingIOError:
            return data

    async def _write_on(self, data: bytes) -> None:
        """Write the data as the client reads it. Raises `trio.TooSlowError` if the client stops reading."""
        for at in range(0, len(data), MAX_SENT):
            with trio.fail_after(SEND_TIMEOUT), self.waiting():
                await self._stream.send_all(data[at : at + MAX_SENT])

    async def _close(self) -> None:
        with suppress(trio.BrokenResourceError, trio.BusyResourceError, trio.ClosedResourceError):
            await self._stream.send_eof()
        await self._stream.aclose()
