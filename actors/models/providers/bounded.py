"""No answer is larger than this, whoever reads it: our own code, or an SDK."""

from __future__ import annotations

from collections.abc import AsyncIterator

import httpx2

MAX_BYTES = 32 * 1024 * 1024


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
    """An event hook for every response: bounds its body."""
    if response.headers.get("content-encoding", "identity") != "identity":
        # A few bytes of it may come to gigabytes.
        raise AnswerTooLarge("")
    assert isinstance(response.stream, httpx2.AsyncByteStream)
    response.stream = _Bounded(response.stream)
