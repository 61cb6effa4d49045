"""Watchers that do not read: they cost bounded memory, delay no other watcher, and are cut off."""

from __future__ import annotations

import re
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from random import Random

import pytest
import trio

from tests.e2e.conftest import Servers
from tests.waiting import until

from .raw_websocket import CLOSE, TEXT, UPGRADE, Frame, RawSocket, raw_socket, request, taken
from .watched_server import WatchedServer, watched_server
from .watchers import TRANSPORTS, Overseer, Transport, Watcher, open_stream

pytestmark = pytest.mark.streams

LONG = "x" * 100_000
EVENTS = 80
"""Long events in the journal: 8 MB, of which the system takes some for a client that does not read."""
STALLED = 30
MEMORY = 2**21
"""Limit for each stalled watcher, in bytes: some events that were read ahead, in each of their forms."""
RECEIVE_BUFFER = 4096
PATIENT = """
import sys
from stopgo.actors.agent import agent_reads
from stopgo.gateway.cli.main import main
from stopgo.gateway.http import http_connection
agent_reads.BUFFER = 64
http_connection.SEND_TIMEOUT = float("inf")
sys.exit(main())
"""
"""A server that waits for slow clients for ever, and keeps few events for them: on a busy machine, the usual
buffer overflows only after the usual limit."""


async def stalled(stack: AsyncExitStack, server: WatchedServer, path: str) -> RawSocket:
    """A connection that is a stream, of which nothing is read but the head."""
    raw = await stack.enter_async_context(raw_socket(server.url, RECEIVE_BUFFER))
    await raw.send(request(path, UPGRADE if "/ws" in path else {"Host": "localhost"}))
    while b"\r\n\r\n" not in raw.data:
        assert await raw.more(size=16)
    assert await raw.answered() in (101, 200)
    return raw


def port(raw: RawSocket) -> int:
    number: int = raw.stream.socket.getsockname()[1]
    return number


def complete_frames(raw: RawSocket) -> list[Frame]:
    frames = []
    while (found := taken(raw.data)) is not None:
        frames.append(found)
    return frames


def seqs_received(raw: RawSocket, transport: Transport) -> list[int]:
    """Of the events that have come in full."""
    if transport == "ws":
        frames = complete_frames(raw)
        assert {each.opcode for each in frames} == {TEXT}, "there is no close frame behind a frame cut short"
        return [each.json["seq"] for each in frames if "seq" in each.json]
    *complete, _ = re.findall(rb"\nid: (\d+)\n", raw.data)
    return [int(seq) for seq in complete]


async def say_and_see(server: WatchedServer, id: str, readers: list[Watcher]) -> None:
    """Some turns, whose events have to come to those that read."""
    for n in range(5):
        await server.say(id, f"message {n}")
        last: int = (await server.get(f"/conversations/{id}"))["conversation"]["last_seq"]
        await until(partial(all_at, readers, last))


def all_at(watchers: list[Watcher], seq: int) -> bool:
    return all(each.log and each.log[-1]["seq"] == seq for each in watchers)


def all_have(overseers: list[Overseer], id: str) -> bool:
    return all(id in each.logs for each in overseers)


async def test_a_stalled_watcher_is_cut_off(servers: Servers, tmp_path: Path) -> None:
    async with watched_server(servers, tmp_path) as server, AsyncExitStack() as stack:
        id = await server.new()
        for _ in range(EVENTS):
            await server.say(id, LONG)
        readers = [Watcher(server, transport, id, Random(0)) for transport in TRANSPORTS]
        async with trio.open_nursery() as nursery:
            for each in readers:
                nursery.start_soon(each.watch)
            await say_and_see(server, id, readers)
            before = server.rss()  # with all that the conversation and those that read cost
            crowd: dict[RawSocket, Transport] = {
                await stalled(stack, server, f"/conversations/{id}/{path}?after=0"): transport
                for transport, path in zip(TRANSPORTS, ("ws", "events"), strict=True)
                for _ in range(STALLED // 2)
            }
            await say_and_see(server, id, readers)
            assert server.rss() - before < STALLED * MEMORY
            ports = {port(raw) for raw in crowd}
            assert ports <= server.connections()  # they have stalled meanwhile
            await until(lambda: not ports & server.connections())
            await server.complete(id)
        journal = await server.journal(id)
        assert all(each.log == journal for each in readers)
        for raw, transport in crowd.items():
            await raw.rest()
            seqs = seqs_received(raw, transport)
            assert seqs == [*range(1, len(seqs) + 1)]
            assert len(seqs) < len(journal)
            again = Watcher(server, transport, id, Random(0), log=journal[: len(seqs)])
            await again.watch()
            assert again.log == journal


async def test_a_stalled_overseer_delays_no_other(servers: Servers, tmp_path: Path) -> None:
    """Those that read get every event in time; the others cost bounded memory and are cut off, too."""
    async with watched_server(servers, tmp_path, prompt=LONG) as server, AsyncExitStack() as stack:
        readers = [Overseer(server, transport, Random(0)) for transport in TRANSPORTS]
        async with trio.open_nursery() as nursery:
            for each in readers:
                nursery.start_soon(each.watch)
            await until(lambda: all(each.connections for each in readers))
            # The same once more with stalled ones beside: their cost is the difference.
            grown = []
            crowd: list[RawSocket] = []
            for path in (), ("/events/ws", "/events"):
                crowd += [await stalled(stack, server, each) for each in path for _ in range(STALLED // 2)]
                before = server.rss()
                for _ in range(4 * EVENTS):
                    id = await server.new()
                    await until(partial(all_have, readers, id))
                grown.append(server.rss() - before)
            assert grown[1] - grown[0] < STALLED * MEMORY, grown
            ports = {port(raw) for raw in crowd}
            await until(lambda: not ports & server.connections())
            nursery.cancel_scope.cancel()
        assert all(each.gaps == 0 and each.connections == 1 for each in readers)
        for raw in crowd[: STALLED // 2]:
            await raw.rest()
            assert CLOSE not in {each.opcode for each in complete_frames(raw)}


@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_an_overflow_is_a_gap(servers: Servers, tmp_path: Path, transport: Transport) -> None:
    """A reader that was slow continues, and finds missed events in the lists."""
    async with watched_server(servers, tmp_path, prompt=LONG[:90_000], program=PATIENT) as server:
        overseer = Overseer(server, transport, Random(0))
        ids: list[str] = []

        async def create(some: int) -> None:
            for _ in range(some):
                ids.append(await server.new())

        async with open_stream(server, transport, "/events") as connection:
            async with trio.open_nursery() as nursery:
                for _ in range(4):
                    nursery.start_soon(create, 50)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(partial(overseer.follow, connection))
                await until(lambda: overseer.gaps > 0 and set(overseer.logs) == set(ids))
                ids.append(await server.new())
                await until(lambda: ids[-1] in overseer.logs)
                nursery.cancel_scope.cancel()
        assert overseer.logs == {id: await server.journal(id) for id in ids}
        assert overseer.live > 1
