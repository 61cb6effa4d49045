"""A halt, and the questions of tool servers and of other agents: no yes reaches them, a no does."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import attrs
import pytest
import trio
from trio.testing import MockClock

from stopgo.actors.agent.agent import Agent
from stopgo.actors.approvals.kinds import Approval
from stopgo.actors.gate.halt import RULE
from stopgo.actors.tools.tool import CallTool, Elicitation, Hints, ToolInputRequired, ToolResult
from tests.actors.world import (
    HARMLESS,
    READ_ONLY,
    World,
    answer,
    call,
    code_of,
    say,
    use,
    wall,
)
from tests.crash.remote_agent import Job, RemoteAgent

YES, NO = {"approved": True}, {"approved": False}
ACCEPT, DECLINE = {"action": "accept", "content": {}}, {"action": "decline"}
FORM = Elicitation("Sure?", {"type": "object", "properties": {}})


async def only(agent: Agent) -> Approval:
    """The only pending approval."""
    [approval] = (await agent.approvals()).approvals
    return approval


# ------------------------------------------------------------------------------------ tool servers


@attrs.define(eq=False)
class Asking(World):
    """The tool `act` asks `FORM`, during the call or before it."""

    before: bool = False

    async def _call(self, message: CallTool) -> ToolResult:
        self.ledger.append((message.tool, message.arguments))
        if self.before and not message.answers:
            raise ToolInputRequired({"form": FORM}, state="s")
        assert message.on_elicitation is not None
        said = message.answers["form"] if message.answers else await message.on_elicitation(FORM)
        return ToolResult(said.action)


async def results(agent: Agent, conversation: str) -> list[str | None]:
    messages = (await agent.get(conversation)).messages
    return [each.call.result for each in messages if each.call is not None]


def asking(folder: Path, hints: Hints = HARMLESS, *, before: bool = False) -> Asking:
    world = Asking(folder, before=before)
    world.tool("act", hints)
    world.plan("agent", use(call("act")), say("done"))
    return world


@pytest.mark.parametrize("before", [False, True], ids=["during the call", "before it acts"])
async def test_acceptance_is_refused_while_halted(
    tmp_path: Path, before: bool, autojump_clock: MockClock
) -> None:
    async with asking(tmp_path, before=before).agent() as agent:
        turn = await agent.start_conversation("go")
        await agent.halt()
        assert await code_of(agent.decide(await only(agent), ACCEPT)) == "halted"
        await agent.unhalt()
        assert answer(await agent.decide(await only(agent), ACCEPT)).state == "finished"
        assert await results(agent, turn.conversation.id) == ["accept"]


async def test_question_is_declined_while_halted(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with asking(tmp_path).agent() as agent:
        turn = await agent.start_conversation("go")
        await agent.halt()
        assert answer(await agent.decide(await only(agent), DECLINE)).state == "finished"
        assert await results(agent, turn.conversation.id) == ["decline"]


async def test_tool_that_only_reads_gets_its_answer(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with asking(tmp_path, READ_ONLY).agent() as agent:
        await agent.halt()
        await agent.start_conversation("go")
        assert answer(await agent.decide(await only(agent), ACCEPT)).state == "finished"


async def test_stored_acceptance_does_not_reach_a_call_in_flight(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with asking(tmp_path).agent() as agent:
        turn = await agent.start_conversation("go")
        await agent._journal.decide((await only(agent)).id, {"action": "accept", "content": {}}, "k")
        await agent.halt()
        agent._cast.services.wake(turn.conversation.id)
        await trio.sleep(1)
        assert await results(agent, turn.conversation.id) == ["cancel"]


@pytest.mark.parametrize("stands", [True, False], ids=["while halted", "after the halt"])
async def test_stored_acceptance_is_not_sent_with_the_next_attempt(
    tmp_path: Path, stands: bool, autojump_clock: MockClock
) -> None:
    world = asking(tmp_path, before=True)
    async with world.agent() as agent:
        turn = await agent.start_conversation("go")
        await agent._journal.decide((await only(agent)).id, {"action": "accept", "content": {}}, "k")
        await agent.halt()
        if not stands:
            await agent.unhalt()
        agent._cast.services.wake(turn.conversation.id)
        await trio.sleep(1)
        assert (await only(agent)).body["rule"] == RULE
    assert len(world.ledger) == 1


# ------------------------------------------------------------------------------------ other agents


@attrs.define(eq=False)
class Delegating(World):
    """`peer` is another agent, whose task about "wipe x" asks once."""

    wrongs: list[str] = attrs.field(factory=list)
    life: int = 1
    alive: bool = True

    def wall(self) -> float:
        return wall()

    def note(self, tool: str, label: str) -> None:
        self.ledger.append((tool, {"label": label}))

    def check_forwarded(self, bearer: str | None, what: str) -> None:
        assert bearer is None


@pytest.fixture
def delegating(tmp_path: Path) -> Delegating:
    world = Delegating(tmp_path)
    remote = RemoteAgent(world, lambda _: Job(rounds=[["a"]]))
    world.open_remote_agent = remote.open
    world.settings["a2a"] = [{"name": "peer", "url": "http://peer.test"}]
    world.plan("agent", use(call("a2a_peer", message="wipe x")), say("done"))
    return world


def done(world: World) -> list[str]:
    """What the agent did: "wipe" after a yes to its question."""
    return [name for name, _ in world.ledger]


async def test_new_delegation_waits(delegating: Delegating, autojump_clock: MockClock) -> None:
    async with delegating.agent() as agent:
        await agent.halt()
        await agent.start_conversation("go")
        asked = await only(agent)
        assert (asked.kind, asked.body["rule"]) == ("tool", RULE)
        assert not done(delegating)
        await agent.unhalt()
        await agent.decide(asked, YES)
        assert (await only(agent)).kind == "proxy"
    assert done(delegating) == ["a2a_peer"]


@pytest.mark.parametrize(
    ("words", "does"), [(YES, ["a2a_peer", "wipe"]), (NO, ["a2a_peer"])], ids=["yes", "no"]
)
async def test_question_of_an_agent_while_halted(
    delegating: Delegating, words: Mapping[str, Any], does: list[str], autojump_clock: MockClock
) -> None:
    async with delegating.agent() as agent:
        await agent.start_conversation("go")
        await agent.halt()
        if words is YES:
            assert await code_of(agent.decide(await only(agent), words)) == "halted"
            await agent.unhalt()
        assert answer(await agent.decide(await only(agent), words)).state == "finished"
    assert done(delegating) == does


@pytest.mark.parametrize("stands", [True, False], ids=["while halted", "after the halt"])
async def test_stored_approval_is_not_delivered(
    delegating: Delegating, stands: bool, autojump_clock: MockClock
) -> None:
    """The call is asked about again. If it is approved after the halt, the approval is delivered."""
    async with delegating.agent() as agent:
        await agent.start_conversation("go")
        proxy = await only(agent)
    await delegating.journal.decide(proxy.id, YES, "k")
    async with delegating.agent() as agent:  # it is halted before it resumes anything
        await agent.halt()
        if not stands:
            await agent.unhalt()
        await trio.sleep(10)
        asked = await only(agent)
        assert (asked.kind, asked.body["rule"], done(delegating)) == ("tool", RULE, ["a2a_peer"])
        await agent.unhalt()
        assert answer(await agent.decide(asked, YES)).state == "finished"
    assert done(delegating) == ["a2a_peer", "wipe"]


async def test_task_that_was_sent_is_followed(delegating: Delegating, autojump_clock: MockClock) -> None:
    """Also by the next process. A halt recalls nothing."""
    async with delegating.agent() as agent:
        turn = await agent.post_conversation("go")
        await trio.sleep(0.05)  # the agent is at work
        assert (await agent.halt()).in_flight == 1
    async with delegating.agent() as agent:
        await trio.sleep(10)
        assert (await only(agent)).kind == "proxy"
        await agent.cancel(turn.conversation.id)
    assert done(delegating) == ["a2a_peer"]
