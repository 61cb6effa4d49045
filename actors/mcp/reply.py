"""The reply to one HTTP request, which somebody else than its reader can give up."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TypeVar

import httpx2
import trio

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
