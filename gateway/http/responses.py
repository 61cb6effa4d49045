"""Replies: the return values of the routes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from types import TracebackType
from typing import Self, TypeAlias

import attrs
import trio
from quart.wrappers.response import ResponseBody

from ...runtime.json_text import dump_wire
from .chunked_json import Parted, parts

STRETCH = 2**16
"""Bytes of a reply that are made and sent between two checkpoints."""

JSON = "application/json"
SAFE_HEADERS: Mapping[str, str] = {"X-Content-Type-Options": "nosniff", "Cache-Control": "no-store"}
"""Headers of every reply, unless it sets its own."""


@attrs.define(eq=False)
class Reply:
    """The answer to a request. Every reply also carries `SAFE_HEADERS` and the session."""

    body: bytes | ResponseBody
    status: int = 200
    content_type: str = JSON
    """Empty: no Content-Type header."""
    headers: Mapping[str, str] = {}


View: TypeAlias = Callable[..., Awaitable[Reply]]
"""Answers one operation; takes the request and the variables of its path."""


def reply(body: object, status: int = 200, headers: Mapping[str, str] = {}) -> Reply:
    return Reply(dump_wire(body) + b"\n", status, JSON, headers)


async def reply_in_parts(body: Parted, status: int = 200, headers: Mapping[str, str] = {}) -> Reply:
    """`reply` for a body that may be long: yields to other tasks while encoding it."""
    if not body.is_long:
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
    length = {"Content-Length": str(sum(map(len, stretches)))}
    return Reply(_Stretches(stretches), status, JSON, {**length, **headers})


def nothing(headers: Mapping[str, str] = {}) -> Reply:
    """204 No Content."""
    return Reply(b"", 204, "", headers)


class IteratedBody(ResponseBody):
    """A body that is its own iterator, and has nothing to close."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        raise NotImplementedError


class _Stretches(IteratedBody):
    def __init__(self, stretches: Sequence[bytes]) -> None:
        self._left = iter(stretches)

    async def __anext__(self) -> bytes:
        stretch = next(self._left, None)
        if stretch is None:
            raise StopAsyncIteration
        return stretch
