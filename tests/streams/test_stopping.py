"""Stopping a server that has open streams: in time, with close frames, with exit code 0."""

from __future__ import annotations

from contextlib import AsyncExitStack
from pathlib import Path

import attrs
import pytest
import trio

from tests.e2e.conftest import Servers
from tests.waiting import until

from .raw_websocket import CLOSE, UPGRADE, Frame, RawSocket, close_frame, raw_socket, request
from .watched_server import AWAY, WatchedServer, watched_server

BUSY = 5
"""Conversations in which turns go on."""
LONG = "x" * 100_000


@attrs.frozen
class Kind:
    path: str
    """`{idle}`: a conversation in which nothing happens; `{busy}`: one with turns; `{long}`: one of 5 MB."""
    share: int
    reads: bool = True
    answers: bool = True
    """Whether it answers the close frame."""


KINDS = {
    "idle websockets": Kind("/conversations/{idle}/ws", 90),
    "idle websockets that do not answer": Kind("/conversations/{idle}/ws", 30, answers=False),
    "idle websockets that do not read": Kind("/conversations/{idle}/ws", 30, reads=False),
    "idle SSE": Kind("/conversations/{idle}/events", 100),
    "busy websockets": Kind("/conversations/{busy}/ws?deltas=true", 80),
    "busy websockets that do not answer": Kind("/conversations/{busy}/ws", 30, answers=False),
    "websockets of all events": Kind("/events/ws?deltas=true", 30),
    "websockets that do not read": Kind("/conversations/{long}/ws?after=0", 40, reads=False),
    "busy SSE": Kind("/conversations/{busy}/events", 40),
    "SSE of all events": Kind("/events", 10),
    "SSE that does not read": Kind("/conversations/{long}/events", 20, reads=False),
}


@attrs.define(eq=False)
class Socket:
    kind: str
    raw: RawSocket
    frames: list[Frame] = attrs.field(factory=list)
    told: float | None = None
    """When the end of the stream came."""

    async def follow(self) -> None:
        """Read until the end of the connection, if it reads; answer a close frame, if it answers."""
        kind = KINDS[self.kind]
        if not kind.reads:
            return
        if not kind.path.partition("?")[0].endswith("/ws"):
            await self.raw.rest()
            self.told = trio.current_time()
            return
        async for each in self.raw:
            self.frames.append(each)
            if each.opcode == CLOSE:
                self.told = trio.current_time()
                if kind.answers:
                    await self.raw.send(close_frame(each.code))


async def talk(server: WatchedServer, id: str, message: str) -> None:
    """Say the same in turn after turn until the server stops."""
    try:
        while True:
            answer = await server.client.post(f"/conversations/{id}/messages", json={"message": message})
            if not answer.is_success:
                return
    except AWAY:
        pass


@pytest.mark.parametrize(
    ("divisor", "grace"),
    [
        pytest.param(10, 3.0, id="smoke"),
        pytest.param(1, 8.0, id="full", marks=pytest.mark.streams),
    ],
)
async def test_every_stream_has_an_end_when_it_stops(
    servers: Servers, tmp_path: Path, divisor: int, grace: float
) -> None:
    async with watched_server(servers, tmp_path, grace=grace) as server, AsyncExitStack() as stack:
        idle, long, *busy = [await server.new() for _ in range(2 + BUSY)]
        for _ in range(50):
            await server.say(long, LONG)
        sockets: list[Socket] = []
        for name, kind in KINDS.items():
            for n in range(kind.share // divisor):
                path = kind.path.format(idle=idle, long=long, busy=busy[n % BUSY])
                raw = await stack.enter_async_context(raw_socket(server.url, None if kind.reads else 4096))
                await raw.send(request(path, UPGRADE if "/ws" in path else {"Host": "localhost"}))
                while b"\r\n\r\n" not in raw.data:
                    assert await raw.more(size=16)
                assert await raw.answered() in (101, 200), raw.head
                sockets.append(Socket(name, raw))
        async with trio.open_nursery() as nursery:
            for each in sockets:
                nursery.start_soon(each.follow)
            for id in busy:
                nursery.start_soon(talk, server, id, "slow" if id == busy[0] else "hello")
            overseers = [each for each in sockets if each.kind == "websockets of all events"]
            await until(lambda: len(server.connections()) >= len(sockets))
            await until(lambda: all(len(each.frames) > 10 for each in overseers))
            took = await server.stop()
            ended = trio.current_time()
        print(f"stopped in {took:.1f} s of {grace:g} s")
        # Only what does not read, or does not answer, is cut off when the process ends.
        polite = [each for each in sockets if KINDS[each.kind].reads and KINDS[each.kind].answers]
        assert all(each.told is not None and each.told <= ended for each in polite)
        told: dict[str, set[object]] = {each.kind: set() for each in sockets if KINDS[each.kind].reads}
        for each in sockets:
            if not KINDS[each.kind].reads:
                continue
            if "SSE" in each.kind:
                told[each.kind].add(each.raw.data.endswith(b"0\r\n\r\n"))
            else:
                told[each.kind].add((each.frames[-1].code, each.frames[-1].reason))
        assert told == {kind: {True} if "SSE" in kind else {(1001, "shutting down")} for kind in told}
