"""The server: listens, limits the number of connections, and drains.

It replaces Hypercorn's own server, which stops when a connection raises an unexpected exception. Here the
exception is logged and the other connections continue.
"""

from __future__ import annotations

import errno
import logging
import math
import resource
import socket
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import trio
from hypercorn.config import Config
from hypercorn.trio.worker_context import WorkerContext
from hypercorn.typing import ASGIFramework

from .access_log import ServerLog
from .errors import bare_error
from .http_connection import HEAD_TIMEOUT, KEEP_ALIVE, ClientConnection

log = logging.getLogger(__name__)

MAX_CONNECTIONS = 2000
"""Default maximum of concurrent connections. A further one replaces an idle one or one whose client is slow,
or is answered with 503."""
PATIENCE = 1.0
"""Seconds that a connection may wait for its client before a new one may take its place."""
BACKLOG = 256
MAX_HEAD = 2**16
"""Maximum size of a request's head in bytes."""


class BindError(Exception):
    """The server cannot listen on an address; the text says why."""


def bind(host: str, port: int, *, any_port: str = "port 0") -> tuple[socket.socket, ...]:
    """Bind a socket to every address of `host`, not listening yet; port 0 picks one port for all of them.

    `::` is every address of this machine, also those of IPv4, as for other servers.

    Raises `BindError`. If the port is taken, its text names `any_port`, which a person enters for a free one.
    """
    sockets: list[socket.socket] = []
    try:
        for family, kind, protocol, _, address in dict.fromkeys(
            found
            for each in ((host, "0.0.0.0") if host == "::" else (host,))
            for found in socket.getaddrinfo(each, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        ):
            sock = socket.socket(family, kind, protocol)
            sockets.append(sock)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            sock.bind((address[0], port or sockets[0].getsockname()[1], *address[2:]))
    except (OSError, UnicodeError) as error:
        for sock in sockets:
            sock.close()
        raise _refused(host, port, error, any_port) from error
    return tuple(sockets)


def _refused(host: str, port: int, error: OSError | UnicodeError, any_port: str = "port 0") -> BindError:
    reason = getattr(error, "strerror", None) or error
    taken = getattr(error, "errno", None) == errno.EADDRINUSE
    hint = f" (another process has this port; {any_port} takes a free one)" if taken else ""
    return BindError(f"cannot listen on {host}:{port}: {reason}{hint}")


class HttpServer:
    """Accepts connections until it drains."""

    def __init__(
        self, app: ASGIFramework, sockets: Sequence[socket.socket], max_connections: int, keep_alive: float
    ) -> None:
        self._app = app
        self._listeners = [_listener(sock) for sock in sockets]
        self._config = _config(keep_alive)
        self._context = WorkerContext(None)
        self._accepting = trio.CancelScope()
        self._done = trio.Event()
        self._open: set[ClientConnection] = set()
        self.max_connections = min(max_connections, _allowed_files(4 * max_connections) // 2)
        """Maximum number of concurrent connections: at most half of the files that the process may open, so
        that as many remain for tools and models."""
        self.host, self.port = sockets[0].getsockname()[:2]

    @property
    def connections(self) -> int:
        """The number of open connections."""
        return len(self._open)

    @property
    def url(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.port}"

    async def drain(self) -> None:
        """Stop accepting, close idle connections and websockets, and wait until the other connections are
        answered. There is no deadline; the caller sets one.
        """
        self._accepting.cancel()
        await self._context.terminated.set()
        for connection in self._open:
            connection.drain()
        await self._done.wait()

    async def serve(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        async with trio.open_nursery() as connections:
            with self._accepting:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(self._keep_time)
                    task_status.started()
                    await trio.serve_listeners(self._accept, self._listeners, handler_nursery=connections)
        self._done.set()

    async def _keep_time(self) -> None:
        """One timer for all connections; a timer for each would have to be set with every request."""
        while True:
            now = trio.current_time()
            for connection in self._open:
                if connection.ends_at <= now:
                    connection.end_if_idle()
                if connection.beats_at <= now:
                    connection.beat()
            # A deadline set during the sleep is at least `HEAD_TIMEOUT` away, so no sleep lasts longer.
            # Heartbeats that are due within a second are sent together.
            beats_at = max(now + 1.0, min([math.inf, *(each.beats_at for each in self._open)]))
            await trio.sleep_until(
                min([now + HEAD_TIMEOUT, beats_at, *(each.ends_at for each in self._open)])
            )

    def _make_room(self) -> bool:
        """Close the connection that has been idle longest, else the one that has waited longest for its
        client, for at least `PATIENCE`; False if there is neither.

        Clients that send no request, never finish it, or do not read the answer can therefore not block
        other clients for long, such as the one that halts the agent.
        """
        oldest = min(self._open, key=lambda each: each.idle_since)
        if oldest.idle_since < math.inf:
            oldest.end_if_idle()
            return True
        slowest = min(self._open, key=lambda each: each.waits_since)
        if slowest.waits_since > trio.current_time() - PATIENCE:
            return False
        slowest.end()
        return True

    async def _accept(self, stream: trio.SocketStream) -> None:
        if len(self._open) >= self.max_connections and not self._make_room():
            await _turn_away(stream)
            return
        connection = ClientConnection(self._app, self._config, self._context, stream)
        self._open.add(connection)
        try:
            await connection.run()
        except Exception as error:
            log.error("a connection failed", exc_info=error)
        finally:
            self._open.remove(connection)


def _allowed_files(wanted: int) -> int:
    """Raise the process's limit of open files to `wanted`, if permitted. The files it may now open."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return wanted
    allowed = wanted if hard == resource.RLIM_INFINITY else min(hard, wanted)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
    except ValueError:  # macOS reports no hard limit, but has one
        return soft
    return allowed


async def _turn_away(stream: trio.SocketStream) -> None:
    """Answer 503 without reading the request."""
    with trio.move_on_after(1.0):
        try:
            await stream.send_all(bare_error(503, "too_many_connections", "too many connections are open"))
            await stream.send_eof()
        except trio.BrokenResourceError:
            pass  # the client disconnected first
    await trio.aclose_forcefully(stream)


@asynccontextmanager
async def open_server(
    app: ASGIFramework,
    sockets: Sequence[socket.socket],
    max_connections: int = MAX_CONNECTIONS,
    keep_alive: float = KEEP_ALIVE,
) -> AsyncIterator[HttpServer]:
    """Serve `app` on the `sockets` of `bind`. The exit closes every connection at once; drain first.

    Raises `BindError`.
    """
    try:
        server = HttpServer(app, sockets, max_connections, keep_alive)
    except OSError as error:
        host, port = sockets[0].getsockname()[:2]
        raise _refused(host, port, error) from error
    async with trio.open_nursery() as nursery:
        await nursery.start(server.serve)
        try:
            yield server
        finally:
            nursery.cancel_scope.cancel()


def _listener(sock: socket.socket) -> trio.SocketListener:
    sock.setblocking(False)
    sock.listen(BACKLOG)
    return trio.SocketListener(trio.socket.from_stdlib_socket(sock))


def _config(keep_alive: float) -> Config:
    config = Config()
    config.keep_alive_timeout = keep_alive
    config.include_server_header = False
    config.h11_max_incomplete_size = MAX_HEAD
    config.errorlog = logging.getLogger("stopgo.server")
    config.logger_class = ServerLog
    return config
