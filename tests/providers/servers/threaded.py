"""Servers in a thread, for tests that run the product as a process."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import trio

from tests.providers.servers.model_server import ModelServer, open_servers


@contextmanager
def servers_in_a_thread(*names: str) -> Iterator[dict[str, ModelServer]]:
    """Servers of these providers for the length of the block, in an event loop of their own."""
    servers: dict[str, ModelServer] = {}
    started = threading.Event()
    stops: list[tuple[trio.lowlevel.TrioToken, trio.CancelScope]] = []

    async def main() -> None:
        async with open_servers(*names) as opened:
            servers.update(opened)
            with trio.CancelScope() as scope:
                stops.append((trio.lowlevel.current_trio_token(), scope))
                started.set()
                await trio.sleep_forever()

    thread = threading.Thread(target=trio.run, args=(main,))
    thread.start()
    started.wait(10)
    try:
        yield servers
    finally:
        for token, scope in stops:
            token.run_sync_soon(scope.cancel)
        thread.join(10)
