"""Read a provider's HTTP answer, as JSON or as an event stream, within limits."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import contextmanager

import httpx2
import trio

from ....runtime.json_text import load_provider
from ...common.http_proxies import said_by_proxy
from ...common.sse_parser import EventTooLarge
from ...common.tls import distrusted, why_unreached
from ..codecs.codec import Codec, ReplyStream, empty_reply, ended_early, not_understood
from ..codecs.faults import from_response
from ..codecs.framing import Framing, framing_in, framing_of
from ..messages.errors import ModelUnusable
from ..messages.messages import Emit, ModelFailed, ModelReply, ModelRequest
from .key_mask import KeyMask

MAX_BYTES = 32 * 1024 * 1024
"""Maximum size of the body of an answer."""
LINGER = 0.5
"""Seconds to wait for the end of the stream after a complete reply, so that the connection can be reused."""


class ResponseRefused(httpx2.HTTPError):
    """The answer is larger than `MAX_BYTES`, or compressed although the request accepts only `identity`."""


class _LimitedStream(httpx2.AsyncByteStream):
    def __init__(self, stream: httpx2.AsyncByteStream) -> None:
        self._stream = stream

    async def __aiter__(self) -> AsyncIterator[bytes]:
        left = MAX_BYTES
        async for chunk in self._stream:
            left -= len(chunk)
            if left < 0:
                raise ResponseRefused(f"the answer is larger than {MAX_BYTES // 1024 // 1024} MiB")
            yield chunk

    async def aclose(self) -> None:
        await self._stream.aclose()


async def limit_body(response: httpx2.Response) -> None:
    """Limit the body of a response. An event hook, so that it also applies to bodies that an SDK reads."""
    if response.headers.get("content-encoding", "identity") != "identity":
        # A few compressed bytes may expand to gigabytes.
        raise ResponseRefused("the answer is compressed, although the request asked for no compression")
    assert isinstance(response.stream, httpx2.AsyncByteStream)
    response.stream = _LimitedStream(response.stream)


async def read_reply(
    response: httpx2.Response, codec: Codec, request: ModelRequest, emit: Emit
) -> ModelReply:
    """Read the body of an answer as a reply. Raises `ModelFailed` or `httpx2.HTTPError`."""
    if not response.is_success:
        raise failed_response(response, await response.aread())
    framing = framing_of(response.headers.get("content-type", ""))
    if framing is not None:
        stream = codec.stream(request, emit)
        await _read_events(response, framing, stream)
        if not (raw := framing.whole()):
            return stream.reply()
    else:
        raw = await response.aread()
    if not raw.strip():
        raise empty_reply("an answer of no bytes")
    try:
        body = load_provider(raw)
    except ValueError:
        return _read_mistyped(raw, codec.stream(request, emit))
    return codec.reply(body, request)


def _read_mistyped(raw: bytes, stream: ReplyStream) -> ModelReply:
    """Read a stream that a gateway sent with another content type. Raises `ModelFailed`."""
    framing = framing_in(raw)
    try:
        events = [event for event in (*framing.feed(raw), *framing.end()) if event.strip()]
    except EventTooLarge:
        events = []
    if not events:
        raise not_understood("it is not JSON; check that base_url is the address of the API")
    _feed(stream, events)
    return stream.reply()


def failed_response(response: httpx2.Response, raw: bytes) -> ModelFailed:
    """Return the failure for an answer with an error status and the body `raw`."""
    return from_response(response.status_code, response.headers, raw, now=time.time())


async def _read_events(response: httpx2.Response, framing: Framing, stream: ReplyStream) -> None:
    assert isinstance(response.stream, httpx2.AsyncByteStream)
    try:
        with trio.CancelScope() as scope:
            async for chunk in response.stream:  # `limit_body` refuses compressed bodies
                _feed(stream, framing.feed(chunk))
                if stream.ended:
                    scope.deadline = min(scope.deadline, trio.current_time() + LINGER)
        _feed(stream, framing.end())
    except httpx2.HTTPError as error:
        # A complete reply is used even if its connection breaks or its stream is too long.
        if isinstance(error, ResponseRefused) and not stream.ended:
            raise
        if not stream.ended:
            raise ended_early(stream.usage) from None
    except EventTooLarge:
        raise ModelFailed("an event of the answer is too large", usage=stream.usage) from None
    except ModelFailed as failure:
        failure.usage = failure.usage or stream.usage
        raise


def _feed(stream: ReplyStream, events: Iterable[str]) -> None:
    for event in events:
        if not stream.ended:
            stream.feed(event)


@contextmanager
def failures_of(name: str, mask: Callable[[], KeyMask]) -> Iterator[None]:
    """Turn exceptions of the block into `ModelFailed`, with the model's name and without its keys.

    The messages of HTTP libraries are left out, because some quote headers.

    Args:
        mask: is asked for the keys after the failure, because a login may have made new ones.
    """
    try:
        yield
    except ModelFailed as failure:
        raise ModelFailed(
            mask().mask(f"{name}: {failure}"),
            status=failure.status,
            retryable=failure.retryable,
            retry_after=failure.retry_after,
            empty=failure.empty,
            usage=failure.usage,
            answer=failure.answer,
        ) from None
    except ResponseRefused as error:
        raise ModelFailed(f"{name}: {error}") from None
    except httpx2.ConnectTimeout:
        raise ModelFailed(f"{name}: connecting took too long", retryable=True) from None
    except ModelUnusable as error:
        raise ModelFailed(f"{name}: {error}") from None
    except httpx2.ProxyError as error:
        raise ModelFailed(f"{name}: {said_by_proxy(error)}", retryable=True) from None
    except httpx2.UnsupportedProtocol as error:
        raise ModelFailed(f"{name}: {error}") from None
    except httpx2.ConnectError as error:
        why = why_unreached(error)
        raise ModelFailed(
            f"{name}: the provider cannot be reached" + (f": {why}" if why else ""),
            retryable=not distrusted(error),
        ) from None
    except httpx2.TransportError:
        raise ModelFailed(
            f"{name}: the connection broke before the answer was complete", retryable=True
        ) from None
    except httpx2.HTTPError as error:
        raise ModelFailed(f"{name}: the answer cannot be read ({type(error).__name__})") from None
