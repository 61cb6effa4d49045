"""A stream of events that does not break: it ends."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import suppress

import httpx2


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
