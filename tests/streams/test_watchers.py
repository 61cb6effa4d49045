"""The log of each watcher equals the journal, over disconnects and restarts of the server."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest
import trio

from tests.e2e.conftest import Servers
from tests.waiting import until

from .watched_server import WatchedServer, watched_server
from .watchers import TRANSPORTS, Overseer, Watcher

"""Far more than anything here takes."""


async def talk(server: WatchedServer, id: str, turns: int, restarts: int) -> None:
    """Say so many things, while the server is restarted at arbitrary places, by each signal in turn."""
    async with trio.open_nursery() as nursery:
        for turn in range(turns):
            every = turns // (restarts + 1)
            if turn and turn % every == 0 and turn // every <= restarts:
                nursery.start_soon(lambda kill: server.restart(kill=kill), turn // every % 2 == 0)
            await server.say(id, f"message {turn}" if turn % 3 else f"slow message {turn}")


@pytest.mark.parametrize(
    ("watchers", "turns", "restarts"),
    [
        pytest.param(8, 6, 1, id="smoke"),
        pytest.param(200, 30, 4, id="full", marks=pytest.mark.streams),
    ],
)
async def test_every_watcher_has_the_journal(
    servers: Servers, tmp_path: Path, watchers: int, turns: int, restarts: int
) -> None:
    """Half of them by websocket, half by SSE. Every tenth is disconnected at every event."""
    async with watched_server(servers, tmp_path) as server:
        id = await server.new()
        crowd = [
            Watcher(server, TRANSPORTS[n % 2], id, Random(n), 1.0 if n % 10 < 2 else 0.1)
            for n in range(watchers)
        ]
        async with trio.open_nursery() as nursery:
            for each in crowd:
                nursery.start_soon(each.watch)
            await talk(server, id, turns, restarts)
            await server.complete(id)
        journal = await server.journal(id)
        assert len(journal) > 4 * turns
        for each in crowd:
            assert each.log == journal
        assert all(each.connections >= len(journal) for each in crowd if each.restless == 1.0)


@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize(
    ("conversations", "turns", "restarts"),
    [
        pytest.param(5, 2, 1, id="smoke"),
        pytest.param(200, 3, 2, id="full", marks=pytest.mark.streams),
    ],
)
async def test_an_overseer_has_every_journal(
    servers: Servers, tmp_path: Path, transport: str, conversations: int, turns: int, restarts: int
) -> None:
    """Three of them: a patient one, one that is disconnected now and then, one at every event."""
    async with watched_server(servers, tmp_path) as server:
        crowd = [
            Overseer(server, "ws" if transport == "ws" else "sse", Random(n), restless)
            for n, restless in enumerate((0.0, 0.02, 1.0 if conversations < 10 else 0.2))
        ]
        ids: list[str] = []

        async def converse(turns: int, some: int) -> None:
            for _ in range(some):
                ids.append(await server.new("begin"))
                for turn in range(turns):
                    await server.say(ids[-1], f"message {turn}")

        async with trio.open_nursery() as watching:
            for each in crowd:
                watching.start_soon(each.watch)
            await until(lambda: all(each.connections for each in crowd))
            for part in range(restarts + 1):
                async with trio.open_nursery() as talking:
                    for _ in range(5):
                        talking.start_soon(converse, turns, -(-conversations // 5 // (restarts + 1)))
                    if part:
                        await server.restart(kill=part % 2 == 0)
            journals = {id: await server.journal(id) for id in ids}
            await until(
                lambda: all(
                    sum(map(len, each.logs.values())) >= sum(map(len, journals.values())) for each in crowd
                )
            )
            watching.cancel_scope.cancel()
        assert len(journals) >= conversations
        for each in crowd:
            assert each.logs == journals
            assert each.gaps == 0
        assert crowd[0].live > len(ids)  # it has not only read the lists
