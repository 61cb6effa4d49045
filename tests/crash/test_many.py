"""Conversations that wait for a human cost no actor and almost no memory, however many there are."""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio

from stopgo.actors.agent.agent import Agent
from stopgo.actors.agent.open_agent import open_agent
from stopgo.actors.models.messages.messages import Emit, ModelReply, ModelRequest, ToolCall
from stopgo.runtime.journal.sqlite.sqlite_journal import open_sqlite

from .crowd import all_pending, resident
from .decision_scenarios import APPROVED
from .scenario_parts import YES
from .world import Outside, World

MANY = 1000
LONG, LENGTH = 100, 100_000
"""So many conversations with messages that long fill what the database caches, 16 MiB: that is not theirs."""
BYTES_EACH = 2048
AT_ONCE = 32


class Obedient:
    """A model that has wiped whatever it is told to."""

    async def complete(self, request: ModelRequest, emit: Emit) -> ModelReply:
        await trio.lowlevel.checkpoint()
        if request.results:
            return ModelReply(f"{request.user} is gone")
        return ModelReply(tool_calls=(ToolCall("1", "wipe", {"name": request.user}),))


@asynccontextmanager
async def life(world: World, folder: Path) -> AsyncIterator[Agent]:
    async with open_sqlite(folder, wall=world.wall, inline=True) as journal:
        async with open_agent(
            APPROVED.config(),
            journal=journal,
            wall=world.wall,
            open_server=world.open_server,
            open_model=lambda name, *, folder: Obedient(),
        ) as agent:
            yield agent
    world.night()


async def ask(agent: Agent, names: Sequence[str]) -> None:
    for number, name in enumerate(names):
        turn = await agent.start_conversation(name)
        assert turn.result is not None
        assert turn.result.state == "waiting"
        if number % 100 == 0:
            gc.collect()  # what waits to be collected is not what the conversations need


async def nobody_is_awake(agent: Agent) -> None:
    await trio.sleep(10)
    assert agent._cast.conversations.active == 0


@pytest.mark.crash
async def test_a_thousand_wait_and_nobody_is_there(
    tmp_path: Path, autojump_clock: trio.testing.MockClock, capsys: pytest.CaptureFixture[str]
) -> None:
    world = World(Outside({}))
    long = [f"long-{number}".ljust(LENGTH, ".") for number in range(LONG)]
    # As many before as after: what the first need for a while and give back, the others need again.
    warm = [f"warm-{number}" for number in range(MANY)]
    many = [f"many-{number}" for number in range(MANY)]
    async with life(world, tmp_path) as agent:
        await ask(agent, [*long, *warm])
        await nobody_is_awake(agent)
        before = resident()
        await ask(agent, many)
        await nobody_is_awake(agent)
        each = (resident() - before) / MANY
    with capsys.disabled():
        print(f"\n{each:.0f} bytes of resident memory for each of {MANY} conversations that wait")
    assert each < BYTES_EACH
    assert world.ledger == []

    async with life(world, tmp_path) as agent:
        await nobody_is_awake(agent)
        pending = await all_pending(agent)
        assert len(pending) == LONG + 2 * MANY
        await say_yes(agent, pending)
        await nobody_is_awake(agent)
        tally = (await agent.conversations(limit=1)).summary
    assert Counter(entry.label for entry in world.ledger) == Counter([*long, *warm, *many])
    assert tally == {"active": LONG + 2 * MANY}


async def say_yes(agent: Agent, approvals: Sequence[str]) -> None:
    """Decide all of them, some at the same time; each turn has to finish."""
    left = list(approvals)

    async def decide() -> None:
        while left:
            turn = await agent.decide(left.pop(), YES)
            assert turn.result is not None
            assert turn.result.state == "finished"
            assert turn.result.response.endswith("is gone")

    async with trio.open_nursery() as nursery:
        for _ in range(AT_ONCE):
            nursery.start_soon(decide)
