"""Forwarding of a websocket of the agent: its frames, its refusal and its close code."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import TypeAlias, TypeVar, cast

import attrs
import h11
import trio
import trio_websocket
import wsproto.utilities
from trio_websocket import CloseReason, WebSocketConnection

from ...runtime.json_text import load
from ..http.errors import RequestError
from ..http.web_socket import Socket
from .agent_address import AgentAddress
from .passed_headers import to_agent
from .upstream import CONNECT_TIMEOUT, SILENCE, Upstream, unreachable

HANDSHAKE_TIMEOUT = 10.0
"""Seconds for the agent to accept or refuse the websocket."""
MAX_FRAME = 64 * 2**20
"""Bytes."""
QUEUE = 4
"""Frames that are read ahead of a slow client. Further frames wait in the agent, which may replace them by a
Gap."""
LOST = 1012, "the connection to the agent was lost"
"""Code and reason of the close frame if the agent did not send one."""
_MAY_BE_SENT = frozenset({*range(1000, 1004), *range(1007, 1014), *range(3000, 5000)})
"""Close codes that may be sent (RFC 6455, section 7.4); the others mean that no code was received."""

_BROKEN = (h11.ProtocolError, wsproto.utilities.ProtocolError)
"""Errors of the library during the handshake, if the other side does not speak HTTP."""

UpstreamStream: TypeAlias = trio.SocketStream | trio.SSLStream[trio.SocketStream]
E = TypeVar("E", bound=BaseException)


async def pass_on(upstream: Upstream, socket: Socket, path: str, query: str) -> None:
    """Forward a websocket. Raises `RequestError` if the agent refuses it or cannot be reached."""
    address = upstream.address
    refusal: RequestError | None = None
    closed = LOST
    try:
        async with await _connect(upstream) as stream, trio.open_nursery() as nursery:
            frames = await _handshake(
                nursery, stream, address, socket, f"{path}{f'?{query}' if query else ''}"
            )
            await socket.accept()
            while True:
                with trio.fail_after(SILENCE):
                    message = await frames.get_message()
                await socket.send(message.encode() if isinstance(message, str) else message)
    except* trio_websocket.ConnectionClosed as group:
        closed = _close_frame(_first(group).reason)
        refusal = unreachable(address, group)
    except* trio_websocket.ConnectionRejected as group:
        refusal = _refused(address, _first(group))
    except* (*_BROKEN, trio.TooSlowError, OSError, trio.BrokenResourceError) as group:
        refusal = unreachable(address, _first(group))
    if socket.accepted:
        await socket.close(*closed)
    elif refusal is not None:
        raise refusal


async def _connect(upstream: Upstream) -> UpstreamStream:
    host, port = upstream.address.host, upstream.address.port
    with trio.fail_after(CONNECT_TIMEOUT):
        if upstream.tls is None:
            return await trio.open_tcp_stream(host, port)
        stream = await trio.open_ssl_over_tcp_stream(
            host, port, ssl_context=upstream.tls, https_compatible=True
        )
        try:
            await stream.do_handshake()  # here, because the library would hide the cause of a failure
        except BaseException:
            await trio.aclose_forcefully(stream)
            raise
        return stream


async def _handshake(
    nursery: trio.Nursery, stream: UpstreamStream, address: AgentAddress, socket: Socket, path: str
) -> WebSocketConnection:
    # Not `open_websocket`, which leaks the connection when the server closes it or refuses.
    with trio.fail_after(HANDSHAKE_TIMEOUT), trio.CancelScope() as wait:
        return await trio_websocket.wrap_client_stream(
            cast("trio.Nursery", _Reader(nursery, wait)),
            stream,
            address.host_header,
            address.target(path),
            extra_headers=to_agent(socket.request.headers, address),
            message_queue_size=QUEUE,
            max_message_size=MAX_FRAME,
        )
    raise trio.BrokenResourceError


@attrs.frozen
class _Reader:
    """The nursery for the library's reader task. If the agent closes the connection without an answer, the
    reader ends, but the library would keep waiting; so the end of the reader cancels the handshake."""

    _nursery: trio.Nursery
    _wait: trio.CancelScope
    """Contains the handshake."""

    def start_soon(self, read: Callable[[], Awaitable[None]]) -> None:
        self._nursery.start_soon(self._run, read)

    async def _run(self, read: Callable[[], Awaitable[None]]) -> None:
        await read()
        self._wait.cancel()


def _close_frame(reason: CloseReason | None) -> tuple[int, str]:
    if reason is None or reason.code not in _MAY_BE_SENT:
        return LOST
    return reason.code, reason.reason or ""


def _refused(address: AgentAddress, refused: trio_websocket.ConnectionRejected) -> RequestError:
    """The agent's refusal as an error with the same status and code."""
    status = refused.status_code
    if not 400 <= status < 600:
        return unreachable(address, refused)
    try:
        body = load((refused.body or b"").decode())
    except ValueError:
        body = None
    match body:
        case {"error": str(text), "code": str(code), **details}:
            more = {str(name): value for name, value in details.items()}
            hint = more.pop("hint", None)
            return RequestError(
                status, code, text, hint=hint if isinstance(hint, str) else None, details=more
            )
        case _:
            phrase = _phrase(status)
            return RequestError(
                status, phrase.replace(" ", "_"), f"{address.url} answered {status}: {phrase}"
            )


def _phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase.lower().replace("-", " ")
    except ValueError:
        return "refused"


def _first(group: BaseExceptionGroup[E]) -> E:
    first = group.exceptions[0]
    return _first(first) if isinstance(first, BaseExceptionGroup) else first
