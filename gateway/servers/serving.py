"""Serves an MCP server of the SDK on trio, over stdio or over HTTP."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING, Any, cast

import anyio
import trio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream

from ...actors.mcp.transports.lines import LineFramer
from ...actors.mcp.wire.sdk import (
    JSONRPCError,
    JSONRPCNotification,
    JSONRPCRequest,
    JSONRPCResponse,
    Server,
    SessionMessage,
    jsonrpc_message_adapter,
)

if TYPE_CHECKING:
    from hypercorn.typing import ASGIFramework

MAX_MESSAGE = 4 * 1024 * 1024
"""Bytes of a message; the same limit as the SDK's over HTTP."""

SHUTDOWN_GRACE = 5.0
"""Seconds for open requests to finish."""


async def serve_stdio(server: Server[Any]) -> None:
    """Serve stdin and stdout until stdin ends, a message is too long, or SIGINT or SIGTERM arrives.

    Requests that are open when stdin ends are still answered, because a client may pipe requests in.
    """
    incoming, reads = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    writes, outgoing = anyio.create_memory_object_stream[SessionMessage](0)
    stdin, stdout = _take_standard_streams()
    with trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        async with stdin, stdout, incoming, reads, writes, outgoing, trio.open_nursery() as nursery:
            nursery.start_soon(_cancel_on_signal, signals, nursery.cancel_scope)
            unanswered = _Unanswered()
            nursery.start_soon(_read, stdin, incoming, unanswered)
            nursery.start_soon(_write, outgoing, stdout, unanswered)
            await server.run(reads, writes, server.create_initialization_options())
            nursery.cancel_scope.cancel()


async def _cancel_on_signal(signals: AsyncIterator[int], scope: trio.CancelScope) -> None:
    await anext(signals)
    scope.cancel()


def _take_standard_streams() -> tuple[trio.lowlevel.FdStream, trio.lowlevel.FdStream]:
    """Return stdin and stdout for messages only; anything that is printed goes to stderr."""
    stdin, stdout = os.dup(0), os.dup(1)
    sys.stdout.flush()
    os.dup2(2, 1)
    return trio.lowlevel.FdStream(stdin), trio.lowlevel.FdStream(stdout)


class _Unanswered:
    """The requests that have no answer so far."""

    def __init__(self) -> None:
        self._ids: set[object] = set()
        self._none = trio.Event()

    def note_request(self, message: SessionMessage | Exception) -> None:
        if isinstance(message, Exception):
            return
        match message.message:
            case JSONRPCRequest(id=id):
                self._ids.add(id)
            case JSONRPCNotification(method="notifications/cancelled", params={"requestId": id}):
                self._forget(id)
            case _:
                pass

    def note_answer(self, message: SessionMessage) -> None:
        match message.message:
            case JSONRPCResponse(id=id) | JSONRPCError(id=id):
                self._forget(id)
            case _:
                pass

    async def wait_until_none(self) -> None:
        while self._ids:
            await self._none.wait()

    def _forget(self, id: object) -> None:
        self._ids.discard(id)
        self._none.set()
        self._none = trio.Event()


async def _read(
    stdin: trio.lowlevel.FdStream,
    incoming: MemoryObjectSendStream[SessionMessage | Exception],
    unanswered: _Unanswered,
) -> None:
    framer = LineFramer()
    async with incoming:
        # The session may have ended.
        with suppress(anyio.BrokenResourceError):
            async for chunk in stdin:
                for line in framer.feed(chunk):
                    if line.strip():
                        message = _parse(line)
                        unanswered.note_request(message)
                        await incoming.send(message)
                if framer.pending > MAX_MESSAGE:
                    print(f"a message is longer than {MAX_MESSAGE} bytes", file=sys.stderr)
                    break
            with trio.move_on_after(SHUTDOWN_GRACE):
                await unanswered.wait_until_none()


def _parse(line: bytes) -> SessionMessage | Exception:

    try:
        return SessionMessage(jsonrpc_message_adapter.validate_json(line, by_name=False))
    except ValueError as error:
        return error


async def _write(
    outgoing: MemoryObjectReceiveStream[SessionMessage],
    stdout: trio.lowlevel.FdStream,
    unanswered: _Unanswered,
) -> None:
    async for item in outgoing:
        body = item.message.model_dump_json(by_alias=True, exclude_unset=True)
        # A client that is gone has closed our stdin, too, which ends the session.
        with suppress(trio.BrokenResourceError):
            await stdout.send_all(body.encode() + b"\n")
        unanswered.note_answer(item)


async def serve_http(
    server: Server[Any], address: tuple[str, int], on_listening: Callable[[str], None]
) -> None:
    """Serve `/mcp` and `/health` until SIGINT or SIGTERM arrives; a second one stops at once (`distinct`).

    `on_listening` is called with the URL. Raises `BindError`, perhaps in a group.
    """
    from starlette.requests import Request
    from starlette.responses import PlainTextResponse
    from starlette.routing import Route

    from ..http.http_server import bind, open_server
    from ..signals import distinct

    async def health(_request: Request) -> PlainTextResponse:
        return PlainTextResponse("ok")

    sockets = bind(*address, any_port="`--http 127.0.0.1:0`")
    # No sessions, because requests need no state in memory; so a restart loses nothing.
    app = server.streamable_http_app(
        host=sockets[0].getsockname()[0],
        stateless_http=True,
        json_response=True,
        custom_starlette_routes=[Route("/health", health)],
    )
    with ExitStack() as stack, trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        for sock in sockets:
            stack.enter_context(sock)
        async with (
            trio.open_nursery() as nursery,
            server.session_manager.run(),
            open_server(cast("ASGIFramework", app), sockets) as http,
        ):
            on_listening(http.url)
            wanted = distinct(signals)
            await anext(wanted)
            nursery.start_soon(_cancel_on_signal, wanted, nursery.cancel_scope)
            with trio.move_on_after(SHUTDOWN_GRACE):
                await http.drain()
            nursery.cancel_scope.cancel()
