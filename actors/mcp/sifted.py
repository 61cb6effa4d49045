"""What a server sends without being asked, between a transport and the SDK's session, within bounds."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from contextvars import Context
from typing import TYPE_CHECKING, Self, TypeAlias

import attrs
from anyio.abc import AsyncResource

if TYPE_CHECKING:
    from mcp.client._transport import ReadStream, TransportStreams, WriteStream
    from mcp.shared.message import SessionMessage

    Item: TypeAlias = SessionMessage | Exception

MAX_ASKED = 1000
"""Requests of a server's in hand. The SDK has a task for each, until the server takes the answer."""
TOOLS_CHANGED = "notifications/tools/list_changed"
_OF_THE_SDK = ("notifications/cancelled", "notifications/subscriptions/acknowledged")
"""Notifications that its session goes by. All others it only checks, and tells the log at length what is
wrong with each."""


class SiftedReads(AsyncResource):
    """A transport's read stream, less what is held back."""

    def __init__(self, inner: ReadStream[Item], passes: Callable[[Item], bool]) -> None:
        self._inner = inner
        self._passes = passes

    @property
    def last_context(self) -> Context | None:
        """The SDK runs what a message causes in its sender's context, where the stream knows it."""
        return getattr(self._inner, "last_context", None)

    async def receive(self) -> Item:
        while True:
            item = await self._inner.receive()
            if self._passes(item):
                return item

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Item:
        while True:
            item = await self._inner.__anext__()
            if self._passes(item):
                return item

    async def aclose(self) -> None:
        await self._inner.aclose()


class _HeardWrites(AsyncResource):
    """A transport's write stream, and who wants to know what has been written."""

    def __init__(self, inner: WriteStream[SessionMessage], written: Callable[[SessionMessage], None]) -> None:
        self._inner = inner
        self._written = written

    async def send(self, item: SessionMessage, /) -> None:
        await self._inner.send(item)
        self._written(item)

    async def aclose(self) -> None:
        await self._inner.aclose()


@attrs.define(eq=False)
class _Sieve:
    log: logging.Logger
    on_change: Callable[[], None]
    asked: set[int | str] = attrs.field(factory=set)
    """Requests of the server's that the SDK's session has in hand."""
    _told: bool = False

    def passes(self, item: Item) -> bool:
        """Whether the session is to see it."""
        from mcp_types import JSONRPCNotification, JSONRPCRequest

        if isinstance(item, Exception):
            return True
        match item.message:
            case JSONRPCRequest(id=request_id):
                return self._admits(item, request_id)
            case JSONRPCNotification(method=method):
                if method == TOOLS_CHANGED:
                    self.on_change()
                return method in _OF_THE_SDK
            case _:
                return True

    def _admits(self, item: SessionMessage, request_id: int | str) -> bool:
        from mcp.shared.message import ServerMessageMetadata

        if request_id in self.asked or len(self.asked) >= MAX_ASKED:
            level = logging.DEBUG if self._told else logging.WARNING
            self.log.log(level, "asks on without taking answers: part of it gets none")
            self._told = True
            return False
        self.asked.add(request_id)

        async def taken_back() -> None:
            self.asked.discard(request_id)

        item.metadata = ServerMessageMetadata(on_request_unanswered=taken_back)
        return True

    def written(self, item: SessionMessage) -> None:
        """Take note of an answer."""
        from mcp_types import JSONRPCError, JSONRPCResponse

        if isinstance(item.message, JSONRPCResponse | JSONRPCError) and item.message.id is not None:
            self.asked.discard(item.message.id)


@asynccontextmanager
async def sifted(
    transport: AbstractAsyncContextManager[TransportStreams],
    on_change: Callable[[], None],
    log: logging.Logger,
) -> AsyncIterator[TransportStreams]:
    """The transport, less what the SDK's session has no use for, and what it would have too much of.

    Args:
        on_change: called when the server says that its tools have changed.
    """
    sieve = _Sieve(log, on_change)
    async with transport as (reads, writes):
        yield SiftedReads(reads, sieve.passes), _HeardWrites(writes, sieve.written)
