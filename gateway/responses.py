"""One request and its answer: what the log is told of it, and the answer as JSON."""

from __future__ import annotations

import re
import secrets
from collections.abc import Awaitable, Callable, Mapping, Sequence
from types import TracebackType
from typing import Any, TypeAlias

import trio
from quart import Request, Response, Websocket, has_request_context, has_websocket_context, request, websocket
from quart.wrappers.response import ResponseBody

from . import chunked_json
from .chunked_json import Parted, parts

View: TypeAlias = Callable[..., Awaitable[Response]]
"""Answers one operation; takes the variables of its path."""

_SESSION_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")

STRETCH = 2**16
"""Bytes of an answer that are made, and sent, before others have their turn."""

SESSION_HEADER = "X-Session-ID"
SAFE_HEADERS: Mapping[str, str] = {"X-Content-Type-Options": "nosniff", "Cache-Control": "no-store"}
"""In every answer of the application."""


def current() -> Request | Websocket:
    """The request that is being answered; a websocket's handshake can be refused like any other."""
    return request if has_request_context() else websocket


def facts() -> dict[str, Any]:
    """What is known of the current request beside its ASGI scope; the access log reads it from there."""
    state: dict[str, Any] = current().scope["state"]
    return state


def session_id(key: str | None = None) -> str:
    """The session of the current request: its header, else one that is made now.

    A request with an idempotency `key` gets the same one each time it is repeated.
    """
    known = facts()
    if "sid" not in known:
        given = current().headers.get(SESSION_HEADER, "")
        known["sid"] = given if _SESSION_ID.fullmatch(given) else _made(key)
    sid: str = known["sid"]
    return sid


def _made(key: str | None) -> str:
    return key[:8] if key is not None else secrets.token_hex(4)


def concerns(conversation: str, session_id: str) -> None:
    """The current request, if there is one, is about this conversation: its id and stored session go to the
    log and back."""
    if not (has_request_context() or has_websocket_context()):
        return
    known = facts()
    known["conversation"] = conversation
    if session_id:
        known["sid"] = session_id


def reply(body: Mapping[str, Any], status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    return answer(chunked_json.encode(body) + b"\n", "application/json", status, headers)


async def reply_in_parts(
    body: Mapping[str, Any], status: int = 200, headers: Mapping[str, str] | None = None
) -> Response:
    """`reply` for what may be long: nobody waits until all of it is made."""
    if not isinstance(body, Parted):
        return reply(body, status, headers)
    stretches: list[bytes] = []
    made: list[bytes] = []
    size = 0
    for part in parts(body):
        made.append(part)
        size += len(part)
        if size >= STRETCH:
            stretches.append(b"".join(made))
            made, size = [], 0
            await trio.lowlevel.checkpoint()
    stretches.append(b"".join([*made, b"\n"]))
    response = answer(b"", "application/json", status, headers)
    response.response = _Stretches(stretches)
    response.content_length = sum(map(len, stretches))
    return response


class _Stretches(ResponseBody):
    def __init__(self, stretches: Sequence[bytes]) -> None:
        self._left = iter(stretches)

    async def __aenter__(self) -> _Stretches:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """There is nothing to close."""

    def __aiter__(self) -> _Stretches:
        return self

    async def __anext__(self) -> bytes:
        stretch = next(self._left, None)
        if stretch is None:
            raise StopAsyncIteration
        return stretch


def nothing(headers: Mapping[str, str] | None = None) -> Response:
    """204: done, and there is nothing to say."""
    response = answer(b"", "", 204, headers)
    del response.headers["Content-Type"], response.headers["Content-Length"]
    return response


def answer(
    data: bytes, content_type: str, status: int = 200, headers: Mapping[str, str] | None = None
) -> Response:
    response = Response(data, status, content_type=content_type)
    response.headers[SESSION_HEADER] = session_id()
    response.headers.update(SAFE_HEADERS)
    if headers is not None:
        response.headers.update(headers)
    return response
