"""Hypercorn's connections inside our own nursery.

Hypercorn speaks HTTP; listening, stopping and what a connection may hold up are ours. Six guards:

1. Its sends are shielded without a deadline, so one client that stops reading keeps the server from ever
   stopping, and no cancellation helps. Ours are bounded, and end with their connection.
2. What an application sends to a client that left is dropped without a checkpoint, so an application that
   only sends starves every other task of the process. Ours yields after every send but the last.
3. When an answer is complete it tells the application that the client has left; Quart-Trio then cancels the
   task of that very answer, before Hypercorn has closed the connection or begun its idle time. Such a
   connection stays for ever. Ours is told nothing any more.
4. A request that is answered before its body has come costs the connection, and its client finds out with
   the next request. Ours waits for the body a while.
5. A connection that its client closes while it is idle stays until the idle time is over. Ours ends at once.
6. A connection that fails in an unforeseen way takes the whole server down. Ours is logged.
"""

from __future__ import annotations

import json
import logging
import socket
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import Any, cast

import trio
from hypercorn.config import Config
from hypercorn.events import Closed, Event, RawData
from hypercorn.trio.tcp_server import TCPServer
from hypercorn.trio.worker_context import WorkerContext
from hypercorn.typing import (
    AppWrapper,
    ASGIFramework,
    ASGIReceiveCallable,
    ASGIReceiveEvent,
    ASGISendCallable,
    ASGISendEvent,
    ConnectionState,
    Scope,
)

from stopgo.gateway.errors import RETRY_AFTER, RequestError
from stopgo.gateway.log import ANSWERED, ServerLog

log = logging.getLogger(__name__)

SEND_TIMEOUT = 30.0
"""Seconds a client may leave bytes unread before its connection is closed."""
BODY_GRACE = 5.0
"""Seconds an answer waits for the rest of a request's body that nobody has asked for."""
BODY_GIVEN_UP = (408, 413)
"""Answers that say that the rest of the body is not wanted any more."""
KEEP_ALIVE = 60.0
"""Seconds an idle connection is kept."""
MAX_CONNECTIONS = 1000
"""Connections at the same time, followers of streams included; one more is turned away."""
BACKLOG = 256


class BindError(Exception):
    """The address cannot be listened on; the text says why."""


def bind(host: str, port: int) -> tuple[socket.socket, ...]:
    """Sockets for every address of `host`, not listening yet; port 0 picks one port for all of them.

    Raises `BindError`.
    """
    sockets: list[socket.socket] = []
    try:
        for family, kind, protocol, _, address in dict.fromkeys(
            socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
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
        reason = getattr(error, "strerror", None) or error
        raise BindError(f"cannot listen on {host}:{port}: {reason}") from error
    return tuple(sockets)


class Connection(TCPServer):
    """One client. Its sends are bounded and can be cancelled; it ends when its client has left."""

    async def _read_data(self) -> None:
        await super()._read_data()
        await self.idle_task.stop()

    async def protocol_send(self, event: Event) -> None:
        if not isinstance(event, RawData):
            await super().protocol_send(event)
            return
        if not event.data:  # the end of an answer whose length was told
            return
        async with self.send_lock:
            sent = await self._send(event.data)
        if not sent:
            await self.protocol.handle(Closed())

    async def _send(self, data: bytes) -> bool:
        sent = False
        try:
            with trio.move_on_after(SEND_TIMEOUT):
                await self.stream.send_all(data)
                sent = True
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            pass
        finally:
            if not sent:
                # Part of it may have left, so nothing that follows would make sense to the client.
                await trio.aclose_forcefully(self.stream)
        return sent


class Server:
    """Accepts connections from when it is opened until it drains."""

    def __init__(self, app: ASGIFramework, sockets: Sequence[socket.socket]) -> None:
        self._app = _guarded(app)
        self._listeners = [_listener(sock) for sock in sockets]
        self._config = _config()
        self._context = WorkerContext(None)
        self._accepting = trio.CancelScope()
        self._done = trio.Event()
        self._open = 0
        self.host, self.port = sockets[0].getsockname()[:2]

    @property
    def url(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.port}"

    async def drain(self) -> None:
        """Accept nothing more, close idle connections, and return when the others have their answers.

        How long that may take is the caller's to bound.
        """
        self._accepting.cancel()
        await self._context.terminated.set()
        await self._done.wait()

    async def serve(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        async with trio.open_nursery() as connections:
            with self._accepting:
                task_status.started()
                await trio.serve_listeners(self._connection, self._listeners, handler_nursery=connections)
        self._done.set()

    async def _connection(self, stream: trio.SocketStream) -> None:
        if self._open >= MAX_CONNECTIONS:
            await _turn_away(stream)
            return
        self._open += 1
        try:
            await self._converse(stream)
        finally:
            self._open -= 1

    async def _converse(self, stream: trio.SocketStream) -> None:
        # Annotated for TLS only, a connection takes any stream.
        connection = Connection(
            self._app, self._config, self._context, ConnectionState({}), cast(Any, stream)
        )
        try:
            await connection.run()
        except Exception as error:
            log.error("a connection failed", exc_info=error)


async def _turn_away(stream: trio.SocketStream) -> None:
    """Say that there are too many connections, without waiting for a word from the other side."""
    refusal = RequestError(503, "too_many_connections", "too many connections are open")
    body = json.dumps({"error": refusal.message, "code": refusal.code}).encode()
    head = (
        f"HTTP/1.1 {refusal.status} Service Unavailable\r\nContent-Type: application/json\r\n"
        f"Retry-After: {RETRY_AFTER[refusal.code]}\r\n"
        f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    )
    with trio.move_on_after(1.0):
        try:
            await stream.send_all(head.encode() + body)
            await stream.send_eof()
        except trio.BrokenResourceError:
            pass  # it left first
    await trio.aclose_forcefully(stream)


@asynccontextmanager
async def open_server(app: ASGIFramework, sockets: Sequence[socket.socket]) -> AsyncIterator[Server]:
    """Serve `app` on `sockets` of `bind`. Leaving closes every connection at once; drain first.

    Raises `BindError`.
    """
    try:
        server = Server(app, sockets)
    except OSError as error:
        host, port = sockets[0].getsockname()[:2]
        raise BindError(f"cannot listen on {host}:{port}: {error.strerror}") from error
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


def _config() -> Config:
    config = Config()
    config.keep_alive_timeout = KEEP_ALIVE
    config.include_server_header = False
    config.errorlog = logging.getLogger("stopgo.server")
    config.logger_class = ServerLog
    return config


def _content_length(headers: Iterable[tuple[bytes, bytes]]) -> int:
    """-1 when it is not said."""
    return next((int(value) for name, value in headers if name.lower() == b"content-length"), -1)


def _guarded(app: ASGIFramework) -> AppWrapper:
    """The same application behind the second, third and fourth guard of this module."""

    async def guarded(
        scope: Scope,
        receive: ASGIReceiveCallable,
        send: ASGISendCallable,
        sync_spawn: object,
        call_soon: object,
    ) -> None:
        arrived = trio.Event()
        answered = False
        status, missing = 0, -1

        async def receive_until_answered() -> ASGIReceiveEvent:
            message = await receive()
            if message["type"] != "http.request" or not message.get("more_body"):
                arrived.set()
            if answered and message["type"] == "http.disconnect":
                await trio.sleep_forever()
            return message

        async def send_and_yield(message: ASGISendEvent) -> None:
            nonlocal answered, status, missing
            if message["type"] == "http.response.start":
                if message["status"] not in BODY_GIVEN_UP:
                    with trio.move_on_after(BODY_GRACE):
                        await arrived.wait()
                status, missing = message["status"], _content_length(message["headers"])
            elif message["type"] == "http.response.body":
                missing -= len(message.get("body", b""))
                # With its last byte the client may leave, though the application has not said yet that it is.
                if missing == 0 or not message.get("more_body"):
                    answered = True
                    scope["state"][ANSWERED] = status
            await send(message)
            if not answered:
                await trio.lowlevel.checkpoint()

        await app(scope, receive_until_answered, send_and_yield)

    return guarded
