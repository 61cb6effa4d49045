"""A model that makes a rejected call again (deepagents#2946, agent-framework#8503)."""

from __future__ import annotations

from typing import Any

import pytest
from trio.testing import MockClock

from stopgo.actors.calls.repeated import AGAIN
from stopgo.actors.models.messages import ToolMessage
from tests.actors.world import DESTRUCTIVE, World, answer, call, llm, say, sequential, use

NO = {"approved": False}


@pytest.fixture
def wiping(world: World) -> World:
    world.tool("wipe", DESTRUCTIVE)
    world.settings["agent"] = llm("n")
    return world


def results(world: World) -> list[str]:
    """What the model was told, in its last request."""
    return [each.content for each in world.requests[-1].messages if isinstance(each, ToolMessage)]


async def test_identical_call_is_answered_without_asking(wiping: World, autojump_clock: MockClock) -> None:
    wipe = use(call("wipe", disk="a", depth=1))
    wiping.plan("n", wipe, use(call("wipe", depth=1, disk="a")), say("I could not."))
    async with wiping.agent() as agent:
        [asked] = (await agent.start_conversation("go")).conversation.head.pending
        turn = await agent.decide(asked, NO)
        assert answer(turn).response.endswith("I could not.")
        assert turn.conversation.head.pending == ()
    assert results(wiping)[-1] == AGAIN
    assert wiping.ledger == []


async def test_further_identical_call_ends_the_run(wiping: World, autojump_clock: MockClock) -> None:
    """Also if the process restarts between the rejection and the repetition."""
    wiping.plan("n", *[use(call("wipe", disk="a"))] * 5)
    async with wiping.agent() as agent:
        [asked] = (await agent.start_conversation("go")).conversation.head.pending
    async with wiping.agent() as agent:
        result = answer(await agent.decide(asked, NO))
    assert (result.state, result.code) == ("failed", "rejected_again")
    assert (len(wiping.requests), wiping.ledger) == (3, [])


async def test_result_with_the_text_of_a_repetition_is_no_rejection(
    wiping: World, autojump_clock: MockClock
) -> None:
    wiping.tool("echo", work=AGAIN)
    wiping.settings["agent"] = sequential("s", llm("a"), llm("b"))
    wiping.plan("a", use(call("echo")), say("A"))
    wiping.plan("b", say("B"))
    async with wiping.agent() as agent:
        assert answer(await agent.start_conversation("go")).response == "B"


@pytest.mark.parametrize("other", [{"disk": "b"}, {"disk": "a", "depth": 1}, {"disk": ["a"]}, {}])
async def test_other_arguments_are_asked_about(
    wiping: World, autojump_clock: MockClock, other: dict[str, Any]
) -> None:
    wiping.plan("n", use(call("wipe", disk="a")), use(call("wipe", **other)), say("done"))
    async with wiping.agent() as agent:
        [asked] = (await agent.start_conversation("go")).conversation.head.pending
        [again] = (await agent.decide(asked, NO)).conversation.head.pending
        await agent.decide(again, {"approved": True})
    assert len(wiping.ledger) == 1


async def test_later_turn_is_asked_again(wiping: World, autojump_clock: MockClock) -> None:
    wiping.plan("n", use(call("wipe", disk="a")), say("No, then."))
    async with wiping.agent() as agent:
        turn = await agent.start_conversation("go")
        await agent.decide(turn.conversation.head.pending[0], NO)
        turn = await agent.send(turn.conversation.id, "I changed my mind")
        assert len(turn.conversation.head.pending) == 1


async def test_call_that_was_approved_before_is_asked_about_again(
    wiping: World, autojump_clock: MockClock
) -> None:
    wiping.plan("n", use(call("wipe", disk="a")), use(call("wipe", disk="a")), say("done"))
    async with wiping.agent() as agent:
        [asked] = (await agent.start_conversation("go")).conversation.head.pending
        [again] = (await agent.decide(asked, {"approved": True})).conversation.head.pending
        await agent.decide(again, {"approved": True})
    assert len(wiping.ledger) == 2
