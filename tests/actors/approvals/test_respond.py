"""Answering with words: the model gets a text in place of the result of a call, which is never sent."""

from __future__ import annotations

from typing import Any

import pytest
from trio.testing import MockClock

from stopgo.actors.agent.agent import Agent
from stopgo.actors.approvals.decided import MAX_TEXT
from stopgo.actors.approvals.kinds import KINDS, Approval
from stopgo.actors.approvals.yes_or_no import Respond
from stopgo.actors.common.errors import AgentError
from stopgo.actors.tools.tool import ToolOutcomeUnknown
from tests.actors.approvals.test_stored_forms import WHOLE, of_agent, of_tool
from tests.actors.approvals.test_voting import ANN, REQUESTER, ask, decide, world_with
from tests.actors.world import (
    DESTRUCTIVE,
    World,
    answer,
    call,
    code_of,
    llm,
    results_in,
    say,
    sequential,
    types,
    use,
)

ANSWER = {"action": "respond", "result": "use the staging cluster"}
TOLD = "A person answered in place of the call. Nothing was done. The answer: use the staging cluster"


async def test_the_model_gets_the_text_and_the_run_goes_on(world: World, autojump_clock: MockClock) -> None:
    world.tool("wipe", DESTRUCTIVE)
    world.settings["agent"] = sequential("root", llm("a"), llm("b"))
    world.plan("a", use(call("wipe")), say("as you wish"))
    world.plan("b", say("done"))
    async with world.agent() as agent:
        turn = await agent.start_conversation("go")
        [id] = turn.conversation.head.pending
        result = answer(await agent.decide(id, ANSWER))
        conversation = await agent.get(turn.conversation.id)
        again = await code_of(agent.decide(id, {"approved": True}))
    assert (result.response, result.state) == ("done", "finished")
    [told] = results_in(world.requests[1])
    assert (told.content, told.is_error) == (TOLD, False)
    assert [message.call.state for message in conversation.messages if message.call] == ["answered"]
    assert conversation.head.run is not None
    assert not conversation.head.run.rejected
    assert (again, world.ledger) == ("already_decided", [])
    assert "tool.started" not in await types(world.journal, conversation.id)


async def test_the_answer_survives_a_restart(world: World, autojump_clock: MockClock) -> None:
    world.tool("wipe", DESTRUCTIVE)
    world.plan("agent", use(call("wipe"), call("wipe", n=2)), say("ok"))
    async with world.agent() as agent:
        turn = await agent.start_conversation("go")
        await agent.decide(turn.conversation.head.pending[0], ANSWER)
    async with world.agent() as agent:
        now = await agent.get(turn.conversation.id)
        await agent.decide(now.head.pending[0], {"approved": True})
        states = [m.call.state for m in (await agent.get(now.id)).messages if m.call]
    assert states == ["answered", "finished"]
    assert world.ledger == [("wipe", {"n": 2})]


@pytest.mark.parametrize(
    ("words", "code", "field"),
    [
        ({"action": "respond"}, "invalid_request", "result"),
        ({"action": "respond", "result": " \n"}, "invalid_request", "result"),
        ({"action": "respond", "result": 1}, "invalid_request", "result"),
        ({"action": "respond", "result": "x" * (MAX_TEXT + 1)}, "invalid_request", "result"),
        (ANSWER | {"arguments": {}}, "unknown_field", "arguments"),
        (ANSWER | {"approved": True}, "unknown_field", "approved"),
        (ANSWER | {"answer": "yes"}, "unknown_field", "answer"),
        # A text with a yes may not run the call, nor get lost with a no.
        ({"approved": True, "result": "no, staging"}, "unknown_field", "result"),
        ({"approved": False, "result": "no, staging"}, "unknown_field", "result"),
        (ANSWER | {"content": {}}, "unknown_field", "content"),
    ],
    ids=str,
)
def test_anything_else_decides_nothing(words: dict[str, Any], code: str, field: str) -> None:
    with pytest.raises(AgentError) as caught:
        KINDS["tool"].parse(words)
    assert (caught.value.code, caught.value.details) == (code, {"field": field})


@pytest.mark.parametrize("kind", ["checkpoint", "outcome_unknown", "elicitation", "proxy"])
def test_no_other_kind_is_answered_with_a_text(kind: str) -> None:
    with pytest.raises(AgentError) as caught:
        KINDS[kind].parse(ANSWER)
    assert caught.value.code == "decision_required"


def test_the_longest_text_is_kept_as_it_is() -> None:
    text = " " + "x" * (MAX_TEXT - 1)
    assert KINDS["tool"].parse({"action": " Respond", "result": text}) == Respond(result=text)


async def test_the_question_of_another_agent_is_not_answered_with_a_text() -> None:
    with pytest.raises(AgentError) as caught:
        await of_agent(WHOLE).decision_in(ANSWER, pending=True)
    assert caught.value.code == "decision_required"


async def test_a_call_that_was_sent_is_not_answered_with_a_text() -> None:
    assert of_tool().was_sent is None
    with pytest.raises(AgentError) as caught:
        await of_tool(was_sent=True).decision_in(ANSWER, pending=True)
    assert caught.value.code == "decision_required"


async def test_the_question_after_an_attempt_knows_that(world: World, autojump_clock: MockClock) -> None:
    async def lose(*_: Any) -> Any:
        raise ToolOutcomeUnknown("the connection broke")

    world.tool("wipe", DESTRUCTIVE, lose)
    world.plan("agent", use(call("wipe")), say("ok"))
    async with world.agent() as agent:
        turn = await agent.start_conversation("go")
        await agent.decide(turn.conversation.head.pending[0], {"approved": True})
    world.tool("wipe", DESTRUCTIVE, description="another tool now")
    async with world.agent() as agent:
        lost = await _pending(agent, turn.conversation.id)
        await agent.decide(lost.id, {"action": "retry"})
        again = await _pending(agent, turn.conversation.id)
        assert (lost.kind, again.kind) == ("outcome_unknown", "tool")
        assert await code_of(agent.decide(again.id, ANSWER)) == "decision_required"
        await agent.decide(again.id, {"approved": True})
    assert world.called("wipe") == 2


async def _pending(agent: Agent, conversation: str) -> Approval:
    now = await agent.get(conversation)
    return now.approvals[now.head.pending[0]]


async def test_a_halted_agent_takes_the_answer(world: World, autojump_clock: MockClock) -> None:
    world.tool("wipe", DESTRUCTIVE)
    world.plan("agent", use(call("wipe")), say("ok"))
    async with world.agent() as agent:
        turn = await agent.start_conversation("go")
        await agent.halt("check")
        result = answer(await agent.decide(turn.conversation.head.pending[0], ANSWER))
    assert (result.response, world.ledger) == ("ok", [])


async def test_it_needs_the_right_to_approve_and_one_answer_is_enough(
    world: World, autojump_clock: MockClock
) -> None:
    world_with(world, quorum=2, requester_may_approve=False)
    respond = {"approved": None, **ANSWER}
    async with world.agent() as agent:
        asked = await ask(agent)
        assert await code_of(decide(agent, REQUESTER, asked.id, **respond)) == "may_not_approve"
        assert await code_of(decide(agent, None, asked.id, **respond)) == "may_not_approve"
        result = await decide(agent, ANN, asked.id, **respond, hash=None)
    assert (result.response, result.state, world.ledger) == ("done", "finished", [])
