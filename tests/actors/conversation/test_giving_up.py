"""A failed node or run voids its approvals, and a late decision gets an answer."""

from __future__ import annotations

from contextlib import suppress

import pytest
import trio
from trio.testing import MockClock

from stopgo.actors.common.errors import AgentError
from stopgo.actors.log.words import events as e
from stopgo.runtime.event_bus import Crashed
from tests.actors.world import (
    DESTRUCTIVE,
    World,
    after,
    answer,
    call,
    events,
    llm,
    parallel,
    say,
    sequential,
    use,
)

YES = {"approved": True}


@pytest.fixture
def timed(world: World) -> World:
    """A node that asks a human, and then fails at its timeout because its tool is slow."""

    async def slowly(_: object) -> str:
        await trio.sleep(10)
        return "looked"

    world.tool("wipe", DESTRUCTIVE)
    world.tool("look", work=slowly)
    world.plan("one", use(call("wipe"), call("look")), say("never"))
    world.plan("two", use(call("wipe")), say("done"))
    return world


async def test_failed_node_voids_its_approvals(timed: World, autojump_clock: MockClock) -> None:
    timed.settings["agent"] = sequential(
        "root", llm("one", timeout=1.0, on_error="continue"), llm("two", output_key="k")
    )
    async with timed.agent() as agent:
        turn = await agent.start_conversation("go")
        (first, second) = turn.conversation.approvals.values()
        assert (first.state, second.state) == ("void", "pending")
        assert answer(turn).approvals == (second,)
        with pytest.raises(AgentError) as refused:
            await agent.decide(first.id, YES)
        assert refused.value.code == "void"
        assert answer(await agent.decide(second.id, YES)).response == "done"
        kept = await events(timed.journal, turn.conversation.id)
    (end,) = [
        n for n, event in enumerate(kept) if event.type == e.StepFinished.type and "continued" in event.body
    ]
    assert kept[end + 1].type == e.ApprovalVoid.type
    assert timed.called("wipe") == 1


@pytest.mark.repeat(10)
async def test_decision_during_a_failure_is_answered(timed: World, autojump_clock: MockClock) -> None:
    timed.settings["agent"] = sequential("root", llm("one", timeout=1.0, on_error="continue"), llm("two"))
    async with timed.agent() as agent:
        turn = await agent.post_conversation("go")
        await trio.sleep(0.5)
        (asked,) = (await agent.approvals()).approvals
        await trio.sleep(0.5)
        # Either is right: it came in time, and nothing follows, or too late.
        with suppress(AgentError):
            await agent.decide(asked.id, YES)
        await trio.sleep(5)
        conversation = await agent.get(turn.conversation.id)
        assert conversation.head.run is not None
        assert conversation.head.run.state == "waiting"
        (pending,) = conversation.head.pending
        assert conversation.approvals[pending].body["node"] == "two"
    assert timed.called("wipe") == 0


@pytest.mark.repeat(10)
async def test_error_in_a_cancelled_branch_is_no_crash(world: World, autojump_clock: MockClock) -> None:
    world.settings["agent"] = parallel(
        "root", parallel("inner", llm("one", timeout=1.0), llm("two")), llm("three", timeout=1.0)
    )
    for node in ("one", "two", "three"):
        world.plan(node, after(5, say("late")))
    async with world.agent() as agent:
        with agent._cast.services.logs.bus.subscribe(None, buffer=1000) as heard:
            assert answer(await agent.start_conversation("go")).code == "timed_out"
            await trio.sleep(10)
        assert [item async for item in heard if isinstance(item, Crashed)] == []


@pytest.mark.repeat(10)
async def test_failing_run_is_not_announced_as_waiting(world: World, autojump_clock: MockClock) -> None:
    world.settings["agent"] = parallel("root", llm("one"), llm("two", timeout=1.0))
    world.settings["approval"] = {"in_parallel": "ask"}
    world.tool("wipe", DESTRUCTIVE)
    world.plan("one", use(call("wipe")), say("never"))
    world.plan("two", after(5, say("late")))
    async with world.agent() as agent:
        turn = await agent.start_conversation("go")
        assert (answer(turn).state, answer(turn).code) == ("failed", "timed_out")
