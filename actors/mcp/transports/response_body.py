"""Bodies of HTTP responses: reading them, and four streams that stand between the server and the reader.

| class | needed because |
|---|---|
| `Bounded` | a message may be too long to keep; it is abridged while it is read |
| `_Slices` | a compressed body may grow a thousandfold when it is decompressed |
| `Unbroken` | the SDK reopens a stream that ends, but gives up after the second one that breaks |
| `HttpReply` | the SDK never stops waiting for the reply to a request that it has cancelled |
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import suppress
from typing import TypeVar

import httpx2
import trio

from ...common.sse_parser import EventTooLarge, SseEvent, SseParser
from ..wire.message_bound import MAX_LISTING, Body, BoundedMessage, Events

STREAM = "text/event-stream"
MAX_EVENT = 2 * MAX_LISTING
"""Bytes of the longest event: data that is not abridged, and the other fields."""
SLICE = 1024
"""Bytes of a compressed body that are decompressed at a time."""
_TOO_LARGE = "an event of its stream is too large"


def is_stream(response: httpx2.Response) -> bool:
    """Whether the body is a stream of events."""
    content_type = response.headers.get("content-type", "").lower()
    return response.status_code < 400 and content_type.startswith(STREAM)


async def read_body(response: httpx2.Response) -> bytes:
    """Read the body, which is abridged if it is too long.

    Raises:
        httpx2.TransportError: the body broke off.
    """
    assert isinstance(response.stream, httpx2.AsyncByteStream)
    try:
        return b"".join([chunk async for chunk in response.stream])
    except httpx2.DecodingError as error:
        raise httpx2.RemoteProtocolError(str(error)) from error
    finally:
        await response.aclose()


async def read_events(response: httpx2.Response) -> AsyncGenerator[SseEvent, None]:
    """Read the events of a stream as they arrive.

    Raises:
        httpx2.SSEError: the body is no stream of events, or an event is too large.
        httpx2.RequestError: the stream broke off.
    """
    if not is_stream(response):
        content_type = response.headers.get("content-type", "")
        raise httpx2.SSEError(f"expected a stream of events, found content type {content_type!r}")
    parser = SseParser(limit=MAX_EVENT)
    try:
        async for chunk in response.aiter_bytes():
            for event in parser.feed(chunk):
                yield event
    except EventTooLarge:
        raise httpx2.SSEError(_TOO_LARGE) from None
    for event in parser.end():
        yield event


class Bounded(httpx2.AsyncByteStream):
    """A decompressed body whose messages are abridged if they are too long."""

    def __init__(
        self, inner: httpx2.AsyncByteStream, unpacked: AsyncIterator[bytes], framed: Body | Events
    ) -> None:
        self._inner = inner
        self._unpacked = unpacked
        self._framed = framed

    @classmethod
    def body_of(cls, response: httpx2.Response, message: BoundedMessage, *, stream: bool) -> httpx2.Response:
        """Return the response with its body wrapped. `stream`: the body is a stream of events."""
        assert isinstance(response.stream, httpx2.AsyncByteStream)
        headers = response.headers.copy()
        headers.pop("content-length", None)
        if stream:
            headers["content-type"] = STREAM  # without a charset: a stream of events is UTF-8 (HTML)
        if headers.pop("content-encoding", None) is None:
            unpacked = aiter(response.stream)
        else:
            packed = _Slices(response.stream)
            unpacked = httpx2.Response(200, headers=response.headers, stream=packed).aiter_bytes()
        body = cls(response.stream, unpacked, Events(message) if stream else Body(message))
        return _with_body(response, body, headers)

    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            async for chunk in self._unpacked:
                if passed := self._framed.feed(chunk):
                    yield passed
        except EventTooLarge:
            raise httpx2.SSEError(_TOO_LARGE) from None
        if passed := self._framed.rest():
            yield passed

    async def aclose(self) -> None:
        await self._inner.aclose()


class _Slices(httpx2.AsyncByteStream):
    """A compressed body in small pieces."""

    def __init__(self, inner: httpx2.AsyncByteStream) -> None:
        self._inner = inner

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for chunk in self._inner:
            for begin in range(0, len(chunk), SLICE):
                yield chunk[begin : begin + SLICE]


class Unbroken(httpx2.AsyncByteStream):
    """An event stream that ends normally when its connection breaks."""

    def __init__(self, inner: httpx2.AsyncByteStream) -> None:
        self._inner = inner

    @classmethod
    def body_of(cls, response: httpx2.Response) -> httpx2.Response:
        """Return the response with its body wrapped."""
        assert isinstance(response.stream, httpx2.AsyncByteStream)
        return _with_body(response, cls(response.stream))

    async def __aiter__(self) -> AsyncIterator[bytes]:
        with suppress(httpx2.TransportError):
            async for chunk in self._inner:
                yield chunk

    async def aclose(self) -> None:
        await self._inner.aclose()


T = TypeVar("T")


class HttpReply(httpx2.AsyncByteStream):
    """A reply that can be given up while the SDK waits for it or reads it.

    In the older versions of the protocol, the SDK's session goes on waiting after it has cancelled a request,
    which would occupy a connection for as long as the server likes.
    """

    def __init__(self, on_close: Callable[[], None]) -> None:
        self._on_close = on_close
        self._given_up = False
        self._wait = trio.CancelScope()
        self._body: httpx2.AsyncByteStream | None = None

    def give_up(self) -> None:
        """End the wait for the reply, now and from now on."""
        self._given_up = True
        self._wait.cancel()

    async def wait_for(self, step: Callable[[], Awaitable[T]]) -> T:
        """Return the result of `step`.

        Raises:
            SSEError: the reply was given up. It is the only error after which the SDK does not resume.
        """
        with trio.CancelScope() as self._wait:
            if not self._given_up:
                return await step()
        raise httpx2.SSEError("given up")

    def streams(self, response: httpx2.Response) -> httpx2.Response:
        """Return the response with its body wrapped in this reply."""
        assert isinstance(response.stream, httpx2.AsyncByteStream)
        self._body = response.stream
        return _with_body(response, self)

    async def __aiter__(self) -> AsyncIterator[bytes]:
        assert self._body is not None
        chunks = aiter(self._body)

        async def next_chunk() -> bytes | None:
            return await anext(chunks, None)

        while (chunk := await self.wait_for(next_chunk)) is not None:
            yield chunk

    async def aclose(self) -> None:
        self._on_close()
        if self._body is not None:
            await self._body.aclose()


def _with_body(
    response: httpx2.Response, body: httpx2.AsyncByteStream, headers: httpx2.Headers | None = None
) -> httpx2.Response:
    return httpx2.Response(
        response.status_code,
        headers=response.headers if headers is None else headers,
        stream=body,
        extensions=response.extensions,
    )
