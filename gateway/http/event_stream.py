"""Server-sent events as the body of an answer."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager
from types import TracebackType

import trio
from quart.wrappers.response import ResponseBody

from ...actors.common.errors import AgentError
from . import sse
from .errors import log_fault
from .responses import STRETCH, Reply

HEARTBEAT = 15.0
"""Seconds without an event after which a comment shows that the stream is alive."""


class StreamBody(ResponseBody):
    """The stream as the framework takes it: entered, iterated and left by the task that sends.

    It ends with its events, or when `over` returns, which raises nothing. A stream that ends before its
    events do, because of that or of a fault, ends with what `farewell` returns.
    """

    def __init__(
        self,
        events: AsyncGenerator[bytes, None],
        over: Callable[[], Awaitable[None]],
        conversation: str,
        *,
        farewell: Callable[[], bytes] = bytes,
    ) -> None:
        self._followed = _follow(events, over, conversation, farewell)

    async def __aenter__(self) -> StreamBody:
        self._outlet = await self._followed.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._followed.__aexit__(kind, error, trace)

    def __aiter__(self) -> StreamBody:
        return self

    async def __anext__(self) -> bytes:
        with trio.move_on_after(HEARTBEAT):
            chunk = await self._outlet.take()
            if not chunk:
                raise StopAsyncIteration
            return chunk
        return sse.comment("keep-alive")


class _Outlet:
    """What has been read and not been sent yet. It leaves together, for a send costs as much as many events.

    It holds little, so a client that reads slowly holds up nobody but its own subscription.
    """

    def __init__(self) -> None:
        self._held: list[bytes] = []
        self._size = 0
        self._filled = trio.Event()
        self._emptied = trio.Event()
        self._ended = False

    async def put(self, chunk: bytes) -> None:
        """Waits when there is enough for a send."""
        self._held.append(chunk)
        self._size += len(chunk)
        self._filled.set()
        if self._size >= STRETCH:
            self._emptied = trio.Event()
            await self._emptied.wait()

    def end(self, last: bytes = b"") -> None:
        """There is nothing further than `last`."""
        self._held.append(last)
        self._ended = True
        self._filled.set()

    async def take(self) -> bytes:
        """All there is, once there is something; nothing at the end."""
        await self._filled.wait()
        taken = b"".join(self._held)
        self._held.clear()
        self._size = 0
        if not self._ended:
            self._filled = trio.Event()
        self._emptied.set()
        return taken


@asynccontextmanager
async def _follow(
    events: AsyncGenerator[bytes, None],
    over: Callable[[], Awaitable[None]],
    conversation: str,
    farewell: Callable[[], bytes],
) -> AsyncIterator[_Outlet]:
    outlet = _Outlet()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_pump, events, over, conversation, farewell, outlet)
        try:
            yield outlet
        finally:
            nursery.cancel_scope.cancel()


async def _pump(
    events: AsyncGenerator[bytes, None],
    over: Callable[[], Awaitable[None]],
    conversation: str,
    farewell: Callable[[], bytes],
    out: _Outlet,
) -> None:
    last = farewell
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_cancel_when, over, nursery.cancel_scope)
        try:
            async with aclosing(events):
                async for event in events:
                    await out.put(event)
            last = bytes
        except AgentError:
            pass  # It was deleted since the request began: the end is all there is to say.
        except Exception as error:
            # The status line has left: all that can be done is to end, and the client comes back.
            log_fault(error, f" conversation={conversation}")
        finally:
            out.end(last())
        nursery.cancel_scope.cancel()


async def _cancel_when(over: Callable[[], Awaitable[None]], scope: trio.CancelScope) -> None:
    await over()
    scope.cancel()


def stream_reply(body: StreamBody | None = None) -> Reply:
    """The reply that streams the body; without one, the reply to HEAD."""
    # A proxy that buffers would hold events back.
    return Reply(body or b"", 200, sse.CONTENT_TYPE, {"X-Accel-Buffering": "no"})
