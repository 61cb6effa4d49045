"""Two shims between a transport and the SDK's session, each of which makes up for a weakness of the session.

* `filtered` bounds the requests and notifications that a server sends on its own account.
* `repaired` drops a malformed tool from a page of `tools/list`; without it, the whole page would be lost.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from contextvars import Context
from typing import Any, Self, TypeAlias

import attrs
from anyio.abc import AsyncResource
from anyio.streams.memory import MemoryObjectSendStream
from pydantic import ValidationError

from .sdk import (
    MODERN_PROTOCOL_VERSIONS,
    JSONRPCError,
    JSONRPCNotification,
    JSONRPCRequest,
    JSONRPCResponse,
    ReadStream,
    ServerMessageMetadata,
    SessionMessage,
    TransportStreams,
    WriteStream,
    parse_server_result,
)
from .wire import repair_listing, validation_text

SdkMessage: TypeAlias = SessionMessage | Exception
Tagged: TypeAlias = tuple[Context, SdkMessage]
"""A message, and the context in which it is handled."""
Incoming: TypeAlias = MemoryObjectSendStream[SdkMessage]

MAX_OPEN_REQUESTS = 1000
"""Requests of a server that are open at a time. The SDK has a task for each until the answer is written."""
TOOLS_CHANGED = "notifications/tools/list_changed"
_FOR_THE_SDK = ("notifications/cancelled", "notifications/subscriptions/acknowledged")
"""Notifications that the SDK's session acts on. It only validates all others, and logs each mistake at
length."""


class FilteredReads(AsyncResource):
    """A transport's read stream without the items that `passes` rejects."""

    def __init__(self, inner: ReadStream[SdkMessage], passes: Callable[[SdkMessage], bool]) -> None:
        self._inner = inner
        self._passes = passes

    @property
    def last_context(self) -> Context | None:
        """The context in which the SDK handles the last message: its sender's, if the stream knows it."""
        return getattr(self._inner, "last_context", None)

    async def receive(self) -> SdkMessage:
        while True:
            item = await self._inner.receive()
            if self._passes(item):
                return item

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> SdkMessage:
        while True:
            item = await self._inner.__anext__()
            if self._passes(item):
                return item

    async def aclose(self) -> None:
        await self._inner.aclose()


class _ObservedWrites(AsyncResource):
    """A transport's write stream that calls `written` after each message."""

    def __init__(self, inner: WriteStream[SessionMessage], written: Callable[[SessionMessage], None]) -> None:
        self._inner = inner
        self._written = written

    async def send(self, item: SessionMessage, /) -> None:
        await self._inner.send(item)
        self._written(item)

    async def aclose(self) -> None:
        await self._inner.aclose()


@attrs.define(eq=False)
class _Filter:
    log: logging.Logger
    on_change: Callable[[], None]
    open: set[int | str] = attrs.field(factory=set)
    """The server's requests that the SDK's session has not answered."""
    _warned: bool = False

    def passes(self, item: SdkMessage) -> bool:
        """Whether the session receives the item."""
        if isinstance(item, Exception):
            return True
        match item.message:
            case JSONRPCRequest(id=request_id):
                return self._admits(item, request_id)
            case JSONRPCNotification(method=method):
                if method == TOOLS_CHANGED:
                    self.on_change()
                return method in _FOR_THE_SDK
            case _:
                return True

    def _admits(self, item: SessionMessage, request_id: int | str) -> bool:
        if request_id in self.open or len(self.open) >= MAX_OPEN_REQUESTS:
            level = logging.DEBUG if self._warned else logging.WARNING
            self.log.log(level, "the server sends requests without reading the answers; some are dropped")
            self._warned = True
            return False
        self.open.add(request_id)

        async def cancelled() -> None:
            self.open.discard(request_id)

        item.metadata = ServerMessageMetadata(on_request_unanswered=cancelled)
        return True

    def written(self, item: SessionMessage) -> None:
        """Note that a request is answered."""
        if isinstance(item.message, JSONRPCResponse | JSONRPCError) and item.message.id is not None:
            self.open.discard(item.message.id)


@asynccontextmanager
async def filtered(
    transport: AbstractAsyncContextManager[TransportStreams],
    on_change: Callable[[], None],
    log: logging.Logger,
) -> AsyncIterator[TransportStreams]:
    """Open the transport; drop what the SDK's session does not use, and requests beyond a limit.

    Args:
        on_change: called when the server announces that its tools have changed.
    """
    filter = _Filter(log, on_change)
    async with transport as (reads, writes):
        yield FilteredReads(reads, filter.passes), _ObservedWrites(writes, filter.written)


@asynccontextmanager
async def repaired(
    transport: AbstractAsyncContextManager[TransportStreams],
    protocol_version: Callable[[], str | None],
    log: logging.Logger,
    left_out: list[str],
) -> AsyncIterator[TransportStreams]:
    """Open the transport; drop malformed tools, log them and add them to `left_out`.

    The SDK validates a page of `tools/list` as a whole, as it does every result, and offers no hook before
    that. So the page is repaired before the SDK reads it.

    A result without `resultType`, which newer servers must send, counts as complete.
    """

    def repair(item: SdkMessage) -> bool:
        version = protocol_version()
        result = getattr(getattr(item, "message", None), "result", None)
        if version is None or not isinstance(result, dict):
            return True
        if version in MODERN_PROTOCOL_VERSIONS:
            result.setdefault("resultType", "complete")
        if "tools" in result:
            for problem in repair_listing(result, _tool_problem(result, version)):
                log.warning("left out of its tools: %s", problem)
                left_out.append(problem)
        return True

    async with transport as (reads, writes):
        yield FilteredReads(reads, repair), writes


def _tool_problem(page: Mapping[str, Any], version: str) -> Callable[[Mapping[str, Any]], str | None]:
    """Return a function that validates one tool as the SDK will: on this page, in the negotiated version."""

    def problem_with(tool: Mapping[str, Any]) -> str | None:
        try:
            parse_server_result("tools/list", version, {**page, "tools": [tool]})
        except ValidationError as error:
            return validation_text(error, skip=len(("tools", 0)))
        return None

    return problem_with
