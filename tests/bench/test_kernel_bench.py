"""What an ask and an idle actor cost, against floors measured in the same run.

Time is CPU time of the process, and floor and subject take turns, for the machine is noisy.
"""

from __future__ import annotations

import gc
import json
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import attrs
import psutil
import pytest
import trio
import trio.testing

from stopgo.runtime.context import Context
from stopgo.runtime.event_bus import EventBus
from stopgo.runtime.message import Message, Request
from stopgo.runtime.supervision import Supervisor, open_supervisor
from stopgo.runtime.virtual import VirtualActors

pytestmark = pytest.mark.bench

ROUND_TRIPS = 5_000
ROUNDS = 9
IDLE_ACTORS = 10_000


@attrs.frozen
class Echo(Request["Echo", int]):
    number: int


@attrs.frozen
class Wake(Message["Wake"]):
    pass


async def echo(ctx: Context[Echo]) -> None:
    async def handle(message: Echo) -> int:
        return message.number

    await ctx.serve(handle)


def idler(key: str) -> Callable[[Context[Wake]], Awaitable[None]]:
    async def behaviour(ctx: Context[Wake]) -> None:
        async def handle(_: Wake) -> None:
            assert key

        await ctx.serve(handle, idle_timeout=3600)

    return behaviour


async def cpu_of(work: Callable[[], Awaitable[None]]) -> float:
    began = time.process_time()
    await work()
    return time.process_time() - began


def report(**figures: object) -> None:
    print(json.dumps(figures))


async def test_an_ask_costs_at_most_twice_a_bare_round_trip() -> None:
    there, here = trio.open_memory_channel[int](16)
    back_there, back_here = trio.open_memory_channel[int](16)

    async def bare_server() -> None:
        async for number in here:
            await back_there.send(number)

    async def bare_round_trips() -> None:
        for number in range(ROUND_TRIPS):
            await there.send(number)
            assert await back_here.receive() == number

    async with trio.open_nursery() as nursery, open_supervisor(EventBus()) as supervisor:
        nursery.start_soon(bare_server)
        ref = await supervisor.start("echo", echo)

        async def asks() -> None:
            for number in range(ROUND_TRIPS):
                assert await ref.ask(Echo(number)) == number

        bare, asked = [], []
        gc.disable()
        try:
            for _ in range(ROUNDS):
                bare.append(await cpu_of(bare_round_trips))
                asked.append(await cpu_of(asks))
        finally:
            gc.enable()
        there.close()
    ratio = min(asked) / min(bare)
    report(
        bench="ask",
        bare_us=round(min(bare) / ROUND_TRIPS * 1e6, 1),
        ask_us=round(min(asked) / ROUND_TRIPS * 1e6, 1),
        ratio=round(ratio, 2),
    )
    assert ratio <= 2


@pytest.mark.parametrize("kind", ["named", "virtual"])
def test_an_idle_actor_takes_at_most_8_kib(kind: str) -> None:
    # In a process of its own: what ran before leaves free memory that would hide the growth.
    done = subprocess.run(
        [sys.executable, str(Path(__file__)), kind], capture_output=True, text=True, check=True, timeout=120
    )
    each = float(done.stdout)
    report(bench="idle_actor", kind=kind, kib=round(each, 2))
    assert each <= 8


async def start_actors(kind: str, supervisor: Supervisor, count: int, prefix: str) -> None:
    if kind == "named":
        for number in range(count):
            await supervisor.start(f"{prefix}{number}", echo)
        return
    actors = VirtualActors(prefix, idler, supervisor, poisoned=lambda key, error: idler(key))
    for number in range(count):
        actors.wake(str(number), Wake())
    await trio.testing.wait_all_tasks_blocked()
    assert actors.active == count


async def idle_memory(kind: str) -> float:
    """KiB of resident memory for each further idle actor."""
    process = psutil.Process()
    async with open_supervisor(EventBus(), grace=0) as supervisor:
        await start_actors(kind, supervisor, 500, "warm-up")
        gc.collect()
        before = process.memory_info().rss
        await start_actors(kind, supervisor, IDLE_ACTORS, "measured")
        gc.collect()
        return (process.memory_info().rss - before) / IDLE_ACTORS / 1024


if __name__ == "__main__":
    print(trio.run(idle_memory, sys.argv[1]))
