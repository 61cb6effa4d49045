"""Servers in a thread, for tests that run the product as a process."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager, AbstractContextManager, contextmanager
from typing import TypeVar

import trio

from tests.providers.servers.model_server import ModelServer, open_servers

T = TypeVar("T")


@contextmanager
def in_a_thread(context: AbstractAsyncContextManager[T]) -> Iterator[T]:
    """Enter the context in an event loop of its own for the length of the block."""
    opened: list[tuple[T, trio.lowlevel.TrioToken, trio.CancelScope]] = []
    started = threading.Event()

    async def main() -> None:
        async with context as value:
            with trio.CancelScope() as scope:
                opened.append((value, trio.lowlevel.current_trio_token(), scope))
                started.set()
                await trio.sleep_forever()

    thread = threading.Thread(target=trio.run, args=(main,))
    thread.start()
    started.wait()
    [(value, token, scope)] = opened
    try:
        yield value
    finally:
        token.run_sync_soon(scope.cancel)
        thread.join()


def servers_in_a_thread(*names: str) -> AbstractContextManager[dict[str, ModelServer]]:
    """Servers of these providers for the length of the block."""
    return in_a_thread(open_servers(*names))
