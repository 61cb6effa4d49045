"""The limits of a principal on its runs and their cost."""

from __future__ import annotations

from typing import Any

import pytest
import trio
from trio.testing import MockClock

from stopgo.actors.access.principal import Principal, all_grants, granted
from stopgo.actors.agent.agent import Agent
from stopgo.actors.common.errors import AgentError
from stopgo.actors.models.messages.messages import Usage
from stopgo.actors.models.spending import NOTE
from tests.actors.world import DESTRUCTIVE, World, answer, call, code_of, never, once, say, use

PRICED = {"provider": "openai", "model": "x", "prices": {"input": 1_000_000, "output": 0}}


def principal(id: str, role: str = "operator") -> Principal:
    return Principal(id=id, grants=granted([role], all_grants({})))


ANN, BOB, ROOT = principal("ann"), principal("bob"), principal("root", "admin")


def limited(world: World, **limits: Any) -> None:
    world.settings |= {"auth": {"api_keys": True, "limits": limits}}


def costing(world: World, dollars: int) -> None:
    world.settings |= {"models": {"m": PRICED}, "llm": {"model": "m"}}
    world.plan("agent", say("hi", usage=Usage(dollars, 0)))


@pytest.fixture
def two_runs(world: World) -> World:
    limited(world, runs=2)
    world.tool("wipe", DESTRUCTIVE)
    world.plan("agent", use(call("wipe")), say("done"))
    return world


async def test_principal_has_a_limited_number_of_runs(two_runs: World, autojump_clock: MockClock) -> None:
    async with two_runs.agent() as agent:
        ann = agent.acting_as(ANN)
        first = await ann.start_conversation("go", key="k1")
        idle = await ann.start_conversation()
        await ann.start_conversation("go")
        with pytest.raises(AgentError, match=r"ann has 2 runs that have not ended \(auth.limits.runs: 2\)"):
            await ann.start_conversation("go", key="k3")
        assert await code_of(ann.send(idle.conversation.id, "go")) == "limit_reached"
        assert answer(await ann.start_conversation("go", key="k1")) == answer(first), "a repetition"
        assert answer(await ann.send(first.conversation.id, "more")).code == "waiting_approval"
        await agent.acting_as(BOB).start_conversation("go")
        await agent.start_conversation("go")
        await agent.decide(first.conversation.head.pending[0], {"approved": True})
        await ann.start_conversation("go", key="k3")  # the refused key was not consumed


async def test_waiting_runs_count_after_a_restart(two_runs: World, autojump_clock: MockClock) -> None:
    async with two_runs.agent() as agent:
        turns = [await agent.acting_as(ANN).start_conversation("go") for _ in range(2)]
    async with two_runs.agent() as agent:
        ann = agent.acting_as(ANN)
        assert await code_of(ann.start_conversation("go")) == "limit_reached"
        await ann.cancel(turns[0].conversation.id)
        await ann.start_conversation("go")


async def test_runs_in_the_conversations_of_others_count_for_their_requester(
    two_runs: World, autojump_clock: MockClock
) -> None:
    async with two_runs.agent() as agent:
        root = agent.acting_as(ROOT)
        idle = [await agent.acting_as(ANN).start_conversation() for _ in range(3)]
        for each in idle[:2]:
            await root.send(each.conversation.id, "go")
        assert await code_of(root.send(idle[2].conversation.id, "go")) == "limit_reached"
        await agent.acting_as(ANN).send(idle[2].conversation.id, "go")


async def test_of_many_messages_at_once_as_many_run_as_allowed(
    world: World, autojump_clock: MockClock
) -> None:
    limited(world, runs=3)
    world.tool("slow", DESTRUCTIVE, never)
    results: list[str] = []
    end = trio.Event()
    world.plan("agent", once(end, say("done")))

    async def go(agent: Agent) -> None:
        try:
            results.append(answer(await agent.start_conversation("go")).state)
        except AgentError as error:
            results.append(error.code)
            if len(results) == 7:
                end.set()

    async with world.agent() as agent, trio.open_nursery() as nursery:
        for _ in range(10):
            nursery.start_soon(go, agent.acting_as(ANN))
    assert sorted(results) == ["finished"] * 3 + ["limit_reached"] * 7


async def test_principal_spends_a_limited_amount_in_a_day(world: World, autojump_clock: MockClock) -> None:
    limited(world, cost_usd_per_day=5)
    costing(world, 3)
    async with world.agent() as agent:
        ann = agent.acting_as(ANN)
        first = await ann.start_conversation("go", key="k")
        await ann.send(first.conversation.id, "more")
        with pytest.raises(AgentError, match="ann has spent 5 US dollars today"):
            await ann.start_conversation("go")
        assert answer(await ann.start_conversation("go", key="k")) == answer(first)
        await agent.acting_as(BOB).start_conversation("go")
        await agent.start_conversation("go")
    async with world.agent() as agent:
        assert await code_of(agent.acting_as(ANN).start_conversation("go")) == "limit_reached"
        await agent.acting_as(BOB).start_conversation("go")
    await trio.sleep(86_400)
    async with world.agent() as agent:
        await agent.acting_as(ANN).start_conversation("go")
    notes = await world.journal.notes(NOTE)
    assert {name: note and note["cost_usd"] for name, note in notes.items()} == {"ann": 3, "bob": 6}


async def test_unreadable_amount_counts_as_too_much(world: World, autojump_clock: MockClock) -> None:
    limited(world, cost_usd_per_day=5)
    costing(world, 1)
    await world.journal.write_notes(NOTE, {"ann": {"day": "2023-11-14", "cost_usd": "x"}})
    async with world.agent() as agent:
        assert await code_of(agent.acting_as(ANN).start_conversation("go")) == "limit_reached"
        await agent.acting_as(BOB).start_conversation("go")


async def test_without_limits_nothing_is_counted(world: World, autojump_clock: MockClock) -> None:
    world.settings |= {"auth": {"api_keys": True}}
    costing(world, 3)
    async with world.agent() as agent:
        for _ in range(3):
            await agent.acting_as(ANN).start_conversation("go")
    assert await world.journal.notes(NOTE) == {}
