"""A model that makes a rejected call again (deepagents#2946, agent-framework#8503)."""

from __future__ import annotations

from typing import Any

import pytest
import trio
from trio.testing import MockClock

from stopgo.actors.approvals.tool_approval import REJECTED_BEFORE
from stopgo.actors.approvals.yes_or_no import Rejected
from stopgo.actors.calls import runner
from stopgo.actors.calls.repeated import answer_after
from stopgo.actors.models.messages.messages import ToolMessage
from tests.actors.world import DESTRUCTIVE, World, answer, call, events, llm, parallel, say, sequential, use

NO = {"approved": False}
WIPE = use(call("wipe", disk="a"))
TWICE = [WIPE, WIPE, say("I could not.")]


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
    told = results(wiping)[-1]
    assert told.startswith("A person has rejected this very call, earlier in this turn.")
    assert "Repeating it changes nothing" in told
    assert wiping.ledger == []


async def test_further_identical_call_ends_the_run(wiping: World, autojump_clock: MockClock) -> None:
    """Also if the process restarts between the rejection and the repetition."""
    wiping.plan("n", *[WIPE] * 5)
    async with wiping.agent() as agent:
        [asked] = (await agent.start_conversation("go")).conversation.head.pending
    async with wiping.agent() as agent:
        result = answer(await agent.decide(asked, NO))
    assert (result.state, result.code) == ("failed", "rejected_again")
    assert (len(wiping.requests), wiping.ledger) == (3, [])


async def test_result_with_the_text_of_a_repetition_is_no_rejection(
    wiping: World, autojump_clock: MockClock
) -> None:
    wiping.tool("echo", work=answer_after(Rejected()))
    wiping.settings["agent"] = sequential("s", llm("a"), llm("b"))
    wiping.plan("a", use(call("echo")), say("A"))
    wiping.plan("b", say("B"))
    async with wiping.agent() as agent:
        assert answer(await agent.start_conversation("go")).response == "B"


async def test_two_repetitions_in_one_reply_are_both_answered(
    wiping: World, autojump_clock: MockClock
) -> None:
    """Because the model had no answer yet when it made the second."""
    both = use(call("wipe", disk="a"), call("wipe", disk="a"))
    wiping.plan("n", WIPE, both, say("I could not."))
    async with wiping.agent() as agent:
        [asked] = (await agent.start_conversation("go")).conversation.head.pending
        turn = await agent.decide(asked, NO)
    assert answer(turn).response.endswith("I could not.")
    assert len([each for each in results(wiping) if "Repeating it" in each]) == 2


async def test_repetition_is_known_after_a_restart(wiping: World, autojump_clock: MockClock) -> None:
    """The model waits for another decision when it has been told, and goes on in another process."""
    wiping.plan("n", WIPE, use(call("wipe", disk="a"), call("wipe", disk="b")), WIPE)
    async with wiping.agent() as agent:
        [first] = (await agent.start_conversation("go")).conversation.head.pending
        [second] = (await agent.decide(first, NO)).conversation.head.pending
    async with wiping.agent() as agent:
        result = answer(await agent.decide(second, {"approved": True}))
    assert result.code == "rejected_again"
    assert wiping.ledger == [("wipe", {"disk": "b"})]


async def test_reason_of_the_rejection_is_said_again(wiping: World, autojump_clock: MockClock) -> None:
    wiping.plan("n", *TWICE)
    async with wiping.agent() as agent:
        [asked] = (await agent.start_conversation("go")).conversation.head.pending
        await agent.decide(asked, {**NO, "reason": "It has my photos."})
    assert results(wiping)[-1].endswith("Reason: It has my photos.")


@pytest.mark.parametrize("other", [{"disk": "b"}, {"disk": "a", "depth": 1}, {"disk": ["a"]}, {}])
async def test_other_arguments_are_asked_about(
    wiping: World, autojump_clock: MockClock, other: dict[str, Any]
) -> None:
    wiping.plan("n", WIPE, use(call("wipe", **other)), say("done"))
    async with wiping.agent() as agent:
        [asked] = (await agent.start_conversation("go")).conversation.head.pending
        [again] = (await agent.decide(asked, NO)).conversation.head.pending
        await agent.decide(again, {"approved": True})
    assert len(wiping.ledger) == 1


async def test_call_that_was_approved_before_is_asked_about_again(
    wiping: World, autojump_clock: MockClock
) -> None:
    wiping.plan("n", WIPE, WIPE, say("done"))
    async with wiping.agent() as agent:
        [asked] = (await agent.start_conversation("go")).conversation.head.pending
        [again] = (await agent.decide(asked, {"approved": True})).conversation.head.pending
        await agent.decide(again, {"approved": True})
    assert len(wiping.ledger) == 2


async def test_another_node_is_not_asked_about_a_rejected_call(
    wiping: World, autojump_clock: MockClock
) -> None:
    first = sequential("contained", llm("a"), on_reject="continue")
    wiping.settings["agent"] = sequential("root", first, parallel("p", llm("b"), llm("c")), on_reject="end")
    wiping.settings["approval"] = {"in_parallel": "ask"}
    wiping.plan("a", WIPE)
    wiping.plan("b", WIPE)
    wiping.plan("c", say("C"))
    async with wiping.agent() as agent:
        [asked] = (await agent.start_conversation("go")).conversation.head.pending
        turn = await agent.decide(asked, NO)
    assert (answer(turn).state, turn.conversation.head.pending) == ("finished", ())
    assert (len(wiping.asked("b")), wiping.ledger) == (1, [])


async def test_each_node_is_told_before_the_run_ends(wiping: World, autojump_clock: MockClock) -> None:
    """A repetition by another node is its first."""
    wiping.settings["agent"] = parallel("p", llm("a"), llm("b"))
    wiping.settings["approval"] = {"in_parallel": "ask"}
    wiping.plan("a", *TWICE)
    wiping.plan("b", use(call("wipe", disk="b")), WIPE, say("B"))
    async with wiping.agent() as agent:
        pending = (await agent.start_conversation("go")).conversation.pending_approvals
        by_node = {each.node: each.id for each in pending}
        await agent.decide(by_node["a"], NO)
        result = answer(await agent.decide(by_node["b"], {"approved": True}))
    assert (result.state, wiping.ledger) == ("finished", [("wipe", {"disk": "b"})])


@pytest.mark.parametrize("restart", [False, True])
async def test_each_iteration_of_a_loop_that_continues_is_told(
    wiping: World, autojump_clock: MockClock, restart: bool
) -> None:
    """The loop keeps its declared end, because the model of each iteration reads of the rejection anew."""
    looped = {"type": "loop", "name": "l", "max_iterations": 4, "on_reject": "continue"}
    inner = sequential("s", llm("n"), on_reject="continue")
    wiping.settings["agent"] = {**looped, "agents": [inner]}
    wiping.settings["approval"] = {"in_loop": "ask"}
    wiping.plan("n", *[WIPE] * 4)
    async with wiping.agent() as agent:
        turn = await agent.start_conversation("go")
        [asked] = turn.conversation.head.pending
        if not restart:
            turn = await agent.decide(asked, NO)
    if restart:
        async with wiping.agent() as agent:
            turn = await agent.decide(asked, NO)
    assert (answer(turn).state, turn.conversation.head.pending) == ("finished", ())
    assert (len(wiping.asked("n")), wiping.ledger) == (4, [])


EDITS = {"rules": [{"tool": "wipe", "arguments": {"disk": {"equals": "b"}}, "then": "ask"}]}
"""Edited to this disk, a call asks again."""


@pytest.mark.parametrize("disk", ["a", "b"])
async def test_call_that_was_edited_and_then_rejected_is_rejected_in_both_forms(
    wiping: World, autojump_clock: MockClock, disk: str
) -> None:
    wiping.settings["approval"] = EDITS
    wiping.plan("n", WIPE, use(call("wipe", disk=disk)), say("I could not."))
    async with wiping.agent() as agent:
        [asked] = (await agent.start_conversation("go")).conversation.head.pending
        edit = {"approved": True, "arguments": {"disk": "b"}}
        [again] = (await agent.decide(asked, edit)).conversation.head.pending
        turn = await agent.decide(again, NO)
    assert (answer(turn).state, turn.conversation.head.pending) == ("finished", ())
    assert wiping.ledger == []


async def test_edit_into_a_rejected_call_is_asked_about(wiping: World, autojump_clock: MockClock) -> None:
    """A person decides about it, and not the model."""
    wiping.settings["approval"] = EDITS
    wiping.plan("n", use(call("wipe", disk="b")), WIPE, say("done"))
    async with wiping.agent() as agent:
        [asked] = (await agent.start_conversation("go")).conversation.head.pending
        [other] = (await agent.decide(asked, NO)).conversation.head.pending
        edit = {"approved": True, "arguments": {"disk": "b"}}
        [again] = (await agent.decide(other, edit)).conversation.head.pending
        await agent.decide(again, {"approved": True})
    assert wiping.ledger == [("wipe", {"disk": "b"})]


async def test_call_that_nobody_approved_in_time_is_not_asked_about_again(
    wiping: World, autojump_clock: MockClock
) -> None:
    wiping.settings["approval"] = {"expires_after": 60}
    wiping.plan("n", *TWICE)
    async with wiping.agent() as agent:
        id = (await agent.start_conversation("go")).conversation.id
        await trio.sleep(61)
        assert (await agent.get(id)).head.pending == ()
    assert results(wiping)[-1].startswith("This very call was not approved in time")


async def test_question_that_an_earlier_version_repeated_is_still_decided(
    wiping: World, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The replay of its log writes nothing anew: the question is on record."""
    wiping.plan("n", *TWICE)
    with monkeypatch.context() as earlier:
        earlier.setattr(runner, "repetition", lambda *_: None)
        async with wiping.agent() as agent:
            [asked] = (await agent.start_conversation("go")).conversation.head.pending
            turn = await agent.decide(asked, NO)
            before = await events(wiping.journal, turn.conversation.id)
    async with wiping.agent() as agent:
        [again] = turn.conversation.head.pending
        result = answer(await agent.decide(again, {"approved": True}))
        after = await events(wiping.journal, turn.conversation.id)
    assert after[: len(before)] == before
    assert (result.state, wiping.ledger) == ("finished", [("wipe", {"disk": "a"})])


async def test_later_turn_is_asked_again_and_told_of_the_rejection(
    wiping: World, autojump_clock: MockClock
) -> None:
    wiping.plan("n", WIPE, say("No, then."))
    async with wiping.agent() as agent:
        turn = await agent.start_conversation("go")
        [first] = turn.conversation.pending_approvals
        assert "Rejected before" not in first.description
        await agent.decide(first.id, NO)
        turn = await agent.send(turn.conversation.id, "I changed my mind")
        [again] = turn.conversation.pending_approvals
        assert again.description == f"{first.description}\n\n{REJECTED_BEFORE}"
        assert again.asked.to_json()["rejected_before"] == first.id
        assert again.asked.line == 'wipe(disk="a"), rejected before'
        await agent.decide(again.id, {"approved": True})
    assert wiping.ledger == [("wipe", {"disk": "a"})]


async def test_approved_call_is_not_shown_as_rejected_before(
    wiping: World, autojump_clock: MockClock
) -> None:
    wiping.plan("n", WIPE, say("done"))
    async with wiping.agent() as agent:
        turn = await agent.start_conversation("go")
        await agent.decide(turn.conversation.pending_approvals[0].id, {"approved": True})
        turn = await agent.send(turn.conversation.id, "again")
        [again] = turn.conversation.pending_approvals
    assert "rejected_before" not in again.asked.to_json()
