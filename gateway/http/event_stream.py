"""Server-sent events as the body of an answer.

Two tasks share an `_Outlet`, a buffer of encoded events:

* `_pump` reads the subscription and puts events into the outlet. It waits while the outlet holds `STRETCH`
  bytes, so a slow client delays only its own subscription.
* The task that sends the answer (`StreamBody.__anext__`) takes everything in the outlet and sends it in one
  write, because one write costs as much as encoding many events. After `HEARTBEAT` seconds without an event
  it sends a comment.

The stream ends when the events end, when they fail, or when one of the waits in `ends` returns, for instance
at a shutdown. In the last two cases the bytes that `last_chunk` returns follow. The status line has been sent
by then, so an error can only be logged; the client reconnects.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import aclosing, asynccontextmanager
from types import TracebackType
from typing import Self, TypeAlias

import trio

from ...actors.common.errors import AgentError
from . import sse
from .errors import log_fault
from .responses import STRETCH, IteratedBody, Reply

Wait: TypeAlias = Callable[[], Awaitable[None]]

HEARTBEAT = 15.0
"""Seconds without an event after which a comment keeps the connection alive."""


class StreamBody(IteratedBody):
    """An event stream as a body of the framework: the sending task enters, iterates and exits it.

    The stream ends with its events, or when `ended` returns; `ended` must not raise. If the stream ends
    before its events, because `ended` returned or an exception occurred, `last_chunk` makes its last bytes.
    """

    def __init__(
        self,
        events: AsyncGenerator[bytes, None],
        ended: Wait,
        conversation: str,
        *,
        last_chunk: Callable[[], bytes] = bytes,
    ) -> None:
        self._ends: list[Wait] = [ended]
        self._followed = _follow(events, self._ends, conversation, last_chunk)

    def end_with(self, ended: Wait) -> None:
        """End the stream when `ended` returns, too. Call it before the stream begins."""
        self._ends.append(ended)

    async def __aenter__(self) -> Self:
        self._outlet = await self._followed.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._followed.__aexit__(kind, error, trace)

    async def __anext__(self) -> bytes:
        with trio.move_on_after(HEARTBEAT):
            chunk = await self._outlet.take()
            if not chunk:
                raise StopAsyncIteration
            return chunk
        return sse.comment("keep-alive")


class _Outlet:
    """The buffer between the pump and the sending task."""

    def __init__(self) -> None:
        self._chunks: list[bytes] = []
        self._size = 0
        self._filled = trio.Event()
        self._emptied = trio.Event()
        self._ended = False

    async def put(self, chunk: bytes) -> None:
        """Add a chunk. Wait for the next `take` if the outlet is full."""
        self._chunks.append(chunk)
        self._size += len(chunk)
        self._filled.set()
        if self._size >= STRETCH:
            self._emptied = trio.Event()
            await self._emptied.wait()

    def end(self, last: bytes = b"") -> None:
        """Add the last chunk and end the stream."""
        self._chunks.append(last)
        self._ended = True
        self._filled.set()

    async def take(self) -> bytes:
        """Wait for a chunk and return all of them; ``b""`` at the end."""
        await self._filled.wait()
        taken = b"".join(self._chunks)
        self._chunks.clear()
        self._size = 0
        if not self._ended:
            self._filled = trio.Event()
        self._emptied.set()
        return taken


@asynccontextmanager
async def _follow(
    events: AsyncGenerator[bytes, None],
    ends: Sequence[Wait],
    conversation: str,
    last_chunk: Callable[[], bytes],
) -> AsyncIterator[_Outlet]:
    outlet = _Outlet()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_pump, events, ends, conversation, last_chunk, outlet)
        try:
            yield outlet
        finally:
            nursery.cancel_scope.cancel()


async def _pump(
    events: AsyncGenerator[bytes, None],
    ends: Sequence[Wait],
    conversation: str,
    last_chunk: Callable[[], bytes],
    out: _Outlet,
) -> None:
    last = last_chunk
    async with trio.open_nursery() as nursery:
        for ended in ends:
            nursery.start_soon(cancel_when, ended, nursery.cancel_scope)
        try:
            async with aclosing(events):
                async for event in events:
                    await out.put(event)
            last = bytes
        except AgentError:
            pass  # the conversation was deleted after the request began: the stream just ends
        except Exception as error:
            log_fault(error, f" conversation={conversation}")
        finally:
            out.end(last())
        nursery.cancel_scope.cancel()


async def cancel_when(ended: Wait, scope: trio.CancelScope) -> None:
    """Cancel the scope when `ended` returns."""
    await ended()
    scope.cancel()


def stream_reply(body: StreamBody | None = None) -> Reply:
    """The reply that streams the body; without one, the reply to HEAD."""
    # Otherwise nginx and similar proxies would buffer the events.
    return Reply(body or b"", 200, sse.CONTENT_TYPE, {"X-Accel-Buffering": "no"})
