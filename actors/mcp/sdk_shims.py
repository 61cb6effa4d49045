"""Shims around the SDK's session, each of which makes up for one weakness of it.

* `sifted`: what a server sends without being asked is bounded.
* `repaired`: one malformed tool does not lose the others of its page.
* `Unbroken`: a stream from the server that a proxy cuts ends, where the session would give up.
* `Bounded`: a message that is too long is abridged while it is read.
* `Reply`: a reply that is awaited no more is given up, where the session would wait on.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from contextvars import Context
from typing import Any, Self, TypeAlias, TypeVar

import attrs
import httpx2
import trio
from anyio.abc import AsyncResource
from pydantic import ValidationError

from .message_bound import Body, Events, Message
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

Item: TypeAlias = SessionMessage | Exception

MAX_ASKED = 1000
"""Requests of a server's in hand. The SDK has a task for each, until the server takes the answer."""
SLICE = 1024
"""Bytes of a packed body that are unpacked at once."""
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


@asynccontextmanager
async def repaired(
    transport: AbstractAsyncContextManager[TransportStreams],
    protocol_version: Callable[[], str | None],
    log: logging.Logger,
    left_out: list[str],
) -> AsyncIterator[TransportStreams]:
    """The transport, with malformed tools dropped, logged and added to `left_out`.

    The SDK validates a page of `tools/list` as a whole, as it does every result, and offers no way to see it
    before that, so tools are repaired on their way in.

    A result that does not say its type, which newer servers must, is taken for a complete one.
    """

    def repair(item: SessionMessage | Exception) -> bool:
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
        yield SiftedReads(reads, repair), writes


def _tool_problem(page: Mapping[str, Any], version: str) -> Callable[[Mapping[str, Any]], str | None]:
    """Judge a tool as the SDK is going to: on a page like this one, by the negotiated version."""

    def problem_with(tool: Mapping[str, Any]) -> str | None:
        try:
            parse_server_result("tools/list", version, {**page, "tools": [tool]})
        except ValidationError as error:
            return validation_text(error, skip=len(("tools", 0)))
        return None

    return problem_with


# ----------------------------------------------------------------- bodies of HTTP responses


class Bounded(httpx2.AsyncByteStream):
    """The body of a response, unpacked, with its messages within a bound."""

    def __init__(
        self, inner: httpx2.AsyncByteStream, unpacked: AsyncIterator[bytes], framed: Body | Events
    ) -> None:
        self._inner = inner
        self._unpacked = unpacked
        self._framed = framed

    @classmethod
    def body_of(cls, response: httpx2.Response, message: Message, *, stream: bool) -> httpx2.Response:
        """The response, with its body read through this; `stream`: it is a stream of events."""
        assert isinstance(response.stream, httpx2.AsyncByteStream)
        headers = response.headers.copy()
        headers.pop("content-length", None)
        if stream:
            headers["content-type"] = "text/event-stream"  # which is UTF-8, whatever else it says (HTML)
        if headers.pop("content-encoding", None) is None:
            unpacked = aiter(response.stream)
        else:
            packed = _Slices(response.stream)
            unpacked = httpx2.Response(200, headers=response.headers, stream=packed).aiter_bytes()
        return httpx2.Response(
            response.status_code,
            headers=headers,
            stream=cls(response.stream, unpacked, Events(message) if stream else Body(message)),
            extensions=response.extensions,
        )

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for chunk in self._unpacked:
            if passed := self._framed.feed(chunk):
                yield passed
        if passed := self._framed.rest():
            yield passed

    async def aclose(self) -> None:
        await self._inner.aclose()


class _Slices(httpx2.AsyncByteStream):
    """A packed body in small pieces: each may become a thousand times as long."""

    def __init__(self, inner: httpx2.AsyncByteStream) -> None:
        self._inner = inner

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for chunk in self._inner:
            for begin in range(0, len(chunk), SLICE):
                yield chunk[begin : begin + SLICE]


class Unbroken(httpx2.AsyncByteStream):
    """The server's own stream to us, which proxies cut as they like. The SDK opens another when one ends, but
    gives up at the second that breaks."""

    def __init__(self, inner: httpx2.AsyncByteStream) -> None:
        self._inner = inner

    @classmethod
    def body_of(cls, response: httpx2.Response) -> httpx2.Response:
        """The response, with its body read through this."""
        assert isinstance(response.stream, httpx2.AsyncByteStream)
        return httpx2.Response(
            response.status_code,
            headers=response.headers,
            stream=cls(response.stream),
            extensions=response.extensions,
        )

    async def __aiter__(self) -> AsyncIterator[bytes]:
        with suppress(httpx2.TransportError):
            async for chunk in self._inner:
                yield chunk

    async def aclose(self) -> None:
        await self._inner.aclose()


T = TypeVar("T")


class Reply(httpx2.AsyncByteStream):
    """Waits for a reply on its reader's behalf.

    The SDK leaves a request of its session waiting when it was cancelled, in the older versions of the
    protocol, and with it a connection for as long as the server likes.
    """

    def __init__(self, on_close: Callable[[], None]) -> None:
        self._on_close = on_close
        self._given_up = False
        self._wait = trio.CancelScope()
        self._body: httpx2.AsyncByteStream | None = None

    def give_up(self) -> None:
        """Let whoever waits for it wait no longer."""
        self._given_up = True
        self._wait.cancel()

    async def wait_for(self, what: Callable[[], Awaitable[T]]) -> T:
        """The result of `what`.

        Raises:
            SSEError: the reply was given up. After this error, of all, the SDK does not try to resume.
        """
        with trio.CancelScope() as self._wait:
            if not self._given_up:
                return await what()
        raise httpx2.SSEError("given up")

    def streams(self, response: httpx2.Response) -> httpx2.Response:
        """The response, with its body read through this."""
        assert isinstance(response.stream, httpx2.AsyncByteStream)
        self._body = response.stream
        return httpx2.Response(
            response.status_code, headers=response.headers, stream=self, extensions=response.extensions
        )

    async def __aiter__(self) -> AsyncIterator[bytes]:
        assert self._body is not None
        chunks = aiter(self._body)

        async def following() -> bytes | None:
            return await anext(chunks, None)

        while (chunk := await self.wait_for(following)) is not None:
            yield chunk

    async def aclose(self) -> None:
        self._on_close()
        if self._body is not None:
            await self._body.aclose()
