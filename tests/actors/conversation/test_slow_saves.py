"""A save is reconsidered if the state changes while it waits for its turn."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from stopgo.actors.agent.agent import Agent
from stopgo.runtime.event_bus import ACTORS, Crashed
from stopgo.runtime.journal.memory.memory_journal import MemoryJournal
from stopgo.runtime.journal.protocol import Commit, Saved
from tests.actors.world import (
    DESTRUCTIVE,
    READ_ONLY,
    World,
    after,
    answer,
    call,
    events,
    llm,
    parallel,
    say,
    use,
    wall,
)


class Slow(MemoryJournal):
    """Takes two seconds for a save with an event of type `slow`."""

    slow = ""

    async def save(self, commit: Commit) -> Saved:
        if self.slow in [event.type for event in commit.events]:
            await trio.sleep(2)
        return await super().save(commit)


@pytest.fixture
def journal(world: World) -> Slow:
    world.journal = Slow(wall)
    world.tool("wipe", DESTRUCTIVE)
    return world.journal


@asynccontextmanager
async def unharmed(world: World) -> AsyncIterator[Agent]:
    """An agent in which nothing may crash."""
    async with world.agent() as agent:
        with agent._cast.services.logs.bus.subscribe(ACTORS, buffer=1000) as heard:
            yield agent
        assert not [item async for item in heard if isinstance(item, Crashed)]


async def test_decision_during_the_pause_commit_resumes_the_run(
    world: World, journal: Slow, autojump_clock: MockClock
) -> None:
    """Otherwise it is recorded as waiting during its call, and a restart would not look for the outcome."""
    open_work: list[str] = []

    async def wipe(_: Mapping[str, Any]) -> str:
        open_work.extend(await journal.open_work())
        return "wiped"

    journal.slow = "run.waiting"
    world.tool("wipe", DESTRUCTIVE, wipe)
    world.plan("agent", use(call("wipe")), say("done"))
    async with unharmed(world) as agent, trio.open_nursery() as nursery:
        nursery.start_soon(agent.start_conversation, "go")
        await trio.sleep(1)
        [question] = (await agent.approvals()).approvals
        assert answer(await agent.decide(question.id, {"approved": True})).response == "done"
    assert open_work == [question.stream]


async def test_approval_voided_before_its_expiry_is_saved_is_void(
    world: World, journal: Slow, autojump_clock: MockClock
) -> None:
    async def work(_: Mapping[str, Any]) -> str:
        await trio.sleep(60)
        return "worked"

    journal.slow = "approval.void"
    world.tool("work", READ_ONLY, work)
    world.settings["approval"] = {"in_parallel": "ask", "expires_after": 10}
    world.settings["agent"] = parallel("root", llm("short", timeout=9, on_error="continue"), llm("long"))
    world.plan("short", use(call("wipe"), call("work")))
    world.plan("long", after(30, say("long done")))
    async with unharmed(world) as agent:
        turn = await agent.start_conversation("go")
    assert answer(turn).response.endswith("long done")
    assert [question.state for question in turn.conversation.approvals.values()] == ["void"]


async def test_expiry_before_the_end_of_the_run_is_saved_wins(
    world: World, journal: Slow, autojump_clock: MockClock
) -> None:
    journal.slow = "approval.expired"
    world.settings["approval"] = {"in_parallel": "ask", "expires_after": 10}
    world.settings["limits"] = {"timeout": 11}
    world.settings["agent"] = parallel("root", llm("asks"), llm("works"))
    world.plan("asks", use(call("wipe")))
    world.plan("works", after(60, say("done")))
    async with unharmed(world) as agent:
        turn = await agent.start_conversation("go")
    assert answer(turn).code == "limit_reached"
    assert [question.state for question in turn.conversation.approvals.values()] == ["expired"]


async def test_sender_answered_at_the_pause_is_not_answered_again(
    world: World, journal: Slow, autojump_clock: MockClock
) -> None:
    journal.slow = "run.waiting"
    world.plan("agent", use(call("wipe")))
    async with unharmed(world) as agent, trio.open_nursery() as nursery:
        nursery.start_soon(partial(agent.start_conversation, "go", key="start"))
        await trio.sleep(1)
        [listed] = (await agent.conversations()).conversations
        await agent.cancel(listed.id, key="cancel")
        recorded = await events(journal, listed.id)
    assert [(each.type, each.body["settles"]) for each in recorded if "settles" in each.body] == [
        ("run.waiting", ["start"]),
        ("run.cancelled", ["cancel"]),
    ]
