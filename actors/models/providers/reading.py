"""Reads a provider's HTTP answer, whole or in events, within bounds."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager

import httpx2
import trio

from ....runtime.json_text import load_provider
from ...common.sse_parser import EventTooLarge, SseParser
from ...common.tls import distrusted, why_unreached
from ..errors import ModelUnusable
from ..messages import Emit, ModelFailed, ModelReply, ModelRequest
from .codec import Codec, ReplyStream, ended_early, not_understood
from .faults import from_answer

MAX_BYTES = 32 * 1024 * 1024
LINGER = 0.5
"""Seconds an answer that is complete may take to end, so that its connection can be used again."""


class AnswerTooLarge(httpx2.HTTPError):
    """An answer of more than `MAX_BYTES`, or one that was compressed though nobody asked for it."""


class _Bounded(httpx2.AsyncByteStream):
    def __init__(self, stream: httpx2.AsyncByteStream) -> None:
        self._stream = stream

    async def __aiter__(self) -> AsyncIterator[bytes]:
        left = MAX_BYTES
        async for chunk in self._stream:
            left -= len(chunk)
            if left < 0:
                raise AnswerTooLarge("")
            yield chunk

    async def aclose(self) -> None:
        await self._stream.aclose()


async def bound(response: httpx2.Response) -> None:
    """An event hook for every response: bounds its body, whether an SDK or our own code reads it."""
    if response.headers.get("content-encoding", "identity") != "identity":
        # A few bytes of it may come to gigabytes.
        raise AnswerTooLarge("")
    assert isinstance(response.stream, httpx2.AsyncByteStream)
    response.stream = _Bounded(response.stream)


async def read_reply(
    response: httpx2.Response, codec: Codec, request: ModelRequest, emit: Emit
) -> ModelReply:
    """The reply in an answer whose body is still to be read. Raises `ModelFailed` or `httpx2.HTTPError`."""
    if not response.is_success:
        raise failed_answer(response, await response.aread())
    if "event-stream" in response.headers.get("content-type", ""):
        return await _read_events(response, codec.stream(request, emit))
    try:
        body = load_provider(await response.aread())
    except ValueError:
        raise not_understood("it is not JSON; is base_url the address of the API?") from None
    return codec.reply(body, request)


def failed_answer(response: httpx2.Response, raw: bytes) -> ModelFailed:
    """The failure behind an answer that is no success, with this body."""
    return from_answer(response.status_code, response.headers, raw, now=time.time())


async def _read_events(response: httpx2.Response, stream: ReplyStream) -> ModelReply:
    parser = SseParser()
    assert isinstance(response.stream, httpx2.AsyncByteStream)
    try:
        with trio.CancelScope() as scope:
            async for chunk in response.stream:  # compressed it is not: `bound`
                for event in parser.texts(chunk):
                    if not stream.ended:
                        stream.feed(event)
                if stream.ended:
                    scope.deadline = min(scope.deadline, trio.current_time() + LINGER)
    except httpx2.HTTPError as error:
        # What is complete stays so, whatever becomes of the connection.
        if isinstance(error, AnswerTooLarge) and not stream.ended:
            raise
        if not stream.ended:
            raise ended_early(stream.usage) from None
    except EventTooLarge:
        raise ModelFailed("an event of the answer is too large", usage=stream.usage) from None
    except ModelFailed as failure:
        failure.usage = failure.usage or stream.usage
        raise
    return stream.reply()


@contextmanager
def told_as(name: str, key: str | None) -> Iterator[None]:
    """Failures of the block as the user reads them: with the model's name, and without its key.

    No text of an HTTP library is repeated: some quote headers.
    """
    try:
        yield
    except ModelFailed as failure:
        sentence = f"{name}: {failure}"
        raise ModelFailed(
            sentence.replace(key, "***") if key else sentence,
            status=failure.status,
            retryable=failure.retryable,
            retry_after=failure.retry_after,
            usage=failure.usage,
        ) from None
    except AnswerTooLarge:
        raise ModelFailed(f"{name}: the answer is larger than {MAX_BYTES // 1024 // 1024} MiB") from None
    except httpx2.ConnectTimeout:
        raise ModelFailed(f"{name}: the connection was not made in time", retryable=True) from None
    except ModelUnusable as error:
        raise ModelFailed(f"{name}: {error}") from None
    except httpx2.ProxyError:
        raise ModelFailed(
            f"{name}: the proxy of the environment does not lead to the provider", retryable=True
        ) from None
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
