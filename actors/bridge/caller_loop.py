"""Tool servers of a program on asyncio, in the loop of the program: their functions use its connections.

The server's transport is entered by a task of that loop. The agent, in its thread, has streams that pass each
message on to the transport's own; a message takes the context of its sender along, by which a question of the
server finds its call.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine
from concurrent.futures import CancelledError, Future
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from contextvars import Context
from typing import Any, Self, TypeVar

import anyio
import attrs
import trio

T = TypeVar("T")

CLOSE = 5.0
"""Seconds for the end of a server. A program that blocks its loop is not waited for any longer."""


@asynccontextmanager
async def on_loop(
    loop: asyncio.AbstractEventLoop, transport: AbstractAsyncContextManager[Any]
) -> AsyncIterator[tuple[_Reads, _Writes]]:
    """Run a server in another loop for the length of a block; its streams for this one.

    Raises the exception of a server that does not start or has failed.
    """
    opened: Future[tuple[Any, Any]] = Future()
    stop = asyncio.Event()
    running = _begin(loop, _run(transport, opened, stop))
    running.add_done_callback(lambda _: opened.cancel())
    try:
        try:
            reads, writes = await _outcome(opened)
        except CancelledError:
            running.result(0)  # raises the reason
            raise
        yield _Reads(loop, reads), _Writes(loop, writes)
    finally:
        with trio.move_on_after(CLOSE, shield=True), suppress(CancelledError):
            with suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(stop.set)
            await _outcome(running)


async def _run(
    transport: AbstractAsyncContextManager[Any], opened: Future[tuple[Any, Any]], stop: asyncio.Event
) -> None:
    async with transport as streams:
        opened.set_result(streams)
        await stop.wait()


@attrs.define(eq=False)
class _Reads:
    """The messages of the server."""

    _loop: asyncio.AbstractEventLoop
    _inner: Any
    last_context: Context | None = None

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Any:
        try:
            self.last_context, item = await _outcome(_begin(self._loop, self._next()))
        except (anyio.EndOfStream, CancelledError):  # the latter, if the loop ends
            raise StopAsyncIteration from None
        return item

    async def _next(self) -> tuple[Context | None, Any]:
        item = await self._inner.receive()
        return getattr(self._inner, "last_context", None), item


@attrs.define(eq=False)
class _Writes:
    """The messages to the server."""

    _loop: asyncio.AbstractEventLoop
    _inner: Any

    async def send(self, item: Any) -> None:
        try:
            await _outcome(_begin(self._loop, self._inner.send(item)))
        except CancelledError:
            raise anyio.ClosedResourceError from None

    async def aclose(self) -> None:
        with suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(self._inner.close)
        await trio.lowlevel.checkpoint()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


def _begin(loop: asyncio.AbstractEventLoop, coroutine: Coroutine[Any, Any, T]) -> Future[T]:
    """Begin a task of another loop, in the context of this one. Raises `anyio.ClosedResourceError`."""
    try:
        return asyncio.run_coroutine_threadsafe(coroutine, loop)
    except RuntimeError:  # the loop is closed
        coroutine.close()
        raise anyio.ClosedResourceError from None


async def _outcome(future: Future[T]) -> T:
    """Wait for a task of another loop, and cancel it if the wait is cancelled. Raises its exception, or
    `CancelledError` if it was cancelled there."""
    done, token = trio.Event(), trio.lowlevel.current_trio_token()

    def tell(_: Future[T]) -> None:
        with suppress(trio.RunFinishedError):
            token.run_sync_soon(done.set)

    future.add_done_callback(tell)
    try:
        await done.wait()
    finally:
        future.cancel()  # no effect on one that is done
    return future.result()
