"""Reads a provider's HTTP answer, whole or in events, within bounds."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

import httpx2
import trio

from stopgo.actors.models.messages import Emit, ModelFailed, ModelReply, ModelRequest
from stopgo.actors.models.providers.codec import Codec, ReplyStream, ended_early, not_understood
from stopgo.actors.models.providers.faults import from_answer
from stopgo.actors.models.providers.sse import EventTooLarge, SseParser
from stopgo.actors.models.providers.wire_json import load

MAX_ANSWER_BYTES = 32 * 1024 * 1024
MAX_ERROR_BYTES = 64 * 1024
"""What is longer is no sentence for a user."""
LINGER = 0.5
"""Seconds an answer that is complete may take to end, so that its connection can be used again."""


async def read_reply(
    response: httpx2.Response, codec: Codec, request: ModelRequest, emit: Emit
) -> ModelReply:
    """The reply in an answer whose body is still to be read. Raises `ModelFailed` or `httpx2.HTTPError`."""
    if not response.is_success:
        raw = await _read(response, MAX_ERROR_BYTES, cut=True)
        raise from_answer(response.status_code, response.headers, raw, now=time.time())
    if "event-stream" in response.headers.get("content-type", ""):
        return await _read_events(response, codec.stream(request, emit))
    try:
        body = load(await _read(response, MAX_ANSWER_BYTES))
    except ValueError:
        raise not_understood("it is not JSON; is base_url the address of the API?") from None
    return codec.reply(body, request)


async def _read(response: httpx2.Response, limit: int, *, cut: bool = False) -> bytes:
    """The body, or as much of it as is allowed: with `cut` the rest is let go."""
    raw = bytearray()
    async for chunk in response.aiter_bytes():
        raw += chunk
        if len(raw) > limit:
            if cut:
                break
            raise _too_large()
    return bytes(raw[:limit])


async def _read_events(response: httpx2.Response, stream: ReplyStream) -> ModelReply:
    parser = SseParser()
    size = 0
    try:
        with trio.CancelScope() as scope:
            async for chunk in response.aiter_bytes():
                size += len(chunk)
                if size > MAX_ANSWER_BYTES:
                    raise _too_large()
                for event in parser.feed(chunk):
                    if not stream.ended:
                        stream.feed(event)
                if stream.ended:
                    scope.deadline = min(scope.deadline, trio.current_time() + LINGER)
    except httpx2.HTTPError:
        # What is complete stays so, whatever becomes of the connection.
        if not stream.ended:
            raise ended_early(stream.usage) from None
    except EventTooLarge:
        raise _too_large() from None
    except ModelFailed as failure:
        failure.usage = failure.usage or stream.usage
        raise
    return stream.reply()


def _too_large() -> ModelFailed:
    return ModelFailed(f"the answer is larger than {MAX_ANSWER_BYTES // 1024 // 1024} MiB")


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
    except httpx2.ConnectTimeout:
        raise ModelFailed(f"{name}: the connection was not made in time", retryable=True) from None
    except (httpx2.ConnectError, httpx2.ProxyError):
        raise ModelFailed(f"{name}: the provider cannot be reached", retryable=True) from None
    except httpx2.TransportError:
        raise ModelFailed(
            f"{name}: the connection broke before the answer was complete", retryable=True
        ) from None
    except httpx2.HTTPError as error:
        raise ModelFailed(f"{name}: the answer cannot be read ({type(error).__name__})") from None
