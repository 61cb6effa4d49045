"""The token of an approver: with `auth:`, it serves the call that was approved, and no other."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeAlias, assert_never

import attrs
import pytest
import trio
from trio.testing import MockClock

from stopgo.actors.access.principal import Grant, Principal
from stopgo.actors.agent.agent import Agent
from stopgo.actors.agent.open_agent import open_agent
from stopgo.actors.approvals.kinds import Approval
from stopgo.actors.conversation.result import AnsweredTurn
from stopgo.actors.tools.delegation import (
    CancelRemote,
    Delegate,
    Delegated,
    LookAt,
    RemoteAgentMessage,
    RemoteAgentStatus,
    RemoteInputRequired,
    RemoteItem,
    RemoteTask,
)
from stopgo.actors.tools.tool import CallTool, ToolAuthRequired, ToolResult
from stopgo.config.sections.a2a import RemoteAgentConfig
from stopgo.runtime.context import Behaviour, Context
from tests.actors.world import (
    DESTRUCTIVE,
    READ_ONLY,
    World,
    after,
    answer,
    call,
    code_of,
    llm,
    parallel,
    say,
    use,
    wall,
    working,
)
from tests.canary import TOKEN

ASKER, APPROVER, LATER = f"{TOKEN}-asker", f"{TOKEN}-approver", f"{TOKEN}-later"
Calls: TypeAlias = list[tuple[str, str | None]]
"""Tools and the tokens that their calls brought."""
Case: TypeAlias = tuple[str | None, str | None, str]
"""The tokens of message and decision, and the restart."""


class Tokens(World):
    """Its tools are reached by HTTP; some want a certain token."""

    wants: str | None = None
    calls: Calls

    async def _call(self, message: CallTool) -> ToolResult:
        self.calls.append((message.tool, message.bearer))
        if self.wants is not None and message.bearer != self.wants:
            raise ToolAuthRequired("HTTP 401", status=401)
        return await super()._call(message)


@pytest.fixture
def world(tmp_path: Any) -> Tokens:
    world = Tokens(tmp_path)
    world.calls = []
    world.settings["mcp_servers"] = [
        {"name": "tools", "url": "http://127.0.0.1:1/mcp", "max_concurrency": 4},
        {"name": "narrow", "url": "http://127.0.0.1:2/mcp", "max_concurrency": 1},
    ]
    world.tool("wipe", DESTRUCTIVE)
    world.tool("look", READ_ONLY)
    world.tool("drop", DESTRUCTIVE, server="narrow")
    world.tool("wait", READ_ONLY, working(100), server="narrow")
    return world


BOSS = Principal(id="boss", grants=(Grant("approver", "approver"),))


async def decide(agent: Agent, auth: bool, asked: Approval | str, token: str | None) -> AnsweredTurn:
    return await agent.acting_as(BOSS if auth else None).decide(asked, {"approved": True}, token=token)


async def finished(agent: Agent, turn: AnsweredTurn) -> None:
    """Finish the run, with another token if it needs one."""
    if answer(turn).state == "auth_required":
        turn = await agent.resume(turn.conversation.id, token=LATER)
    assert answer(turn).state == "finished"


NEVER = 10_000.0  # seconds

WITHOUT_AUTH: dict[Case, Calls] = {
    (ASKER, APPROVER, "no restart"): [("wipe", APPROVER), ("look", APPROVER)],
    (ASKER, None, "no restart"): [("wipe", ASKER), ("look", ASKER)],
    (None, APPROVER, "no restart"): [("wipe", APPROVER), ("look", APPROVER)],
    (ASKER, APPROVER, "before the decision"): [("wipe", APPROVER), ("look", APPROVER)],
    (ASKER, None, "before the decision"): [("wipe", LATER), ("look", LATER)],
    (None, APPROVER, "before the decision"): [("wipe", APPROVER), ("look", APPROVER)],
    (ASKER, APPROVER, "after the call"): [("wipe", APPROVER), ("look", LATER)],
    (ASKER, None, "after the call"): [("wipe", ASKER), ("look", LATER)],
    (None, APPROVER, "after the call"): [("wipe", APPROVER), ("look", LATER)],
}
"""`LATER` resumes the run, if it needs a token."""
WITH_AUTH: dict[Case, Calls] = WITHOUT_AUTH | {
    (ASKER, APPROVER, "no restart"): [("wipe", APPROVER), ("look", ASKER)],
    (None, APPROVER, "no restart"): [("wipe", APPROVER), ("look", None)],
    (ASKER, APPROVER, "before the decision"): [("wipe", APPROVER), ("look", LATER)],
    (None, APPROVER, "before the decision"): [("wipe", APPROVER), ("look", None)],
    (None, APPROVER, "after the call"): [("wipe", APPROVER), ("look", None)],
}


@pytest.mark.parametrize("auth", [False, True], ids=["without auth", "with auth"])
@pytest.mark.parametrize("case", WITHOUT_AUTH, ids=str)
async def test_token_of_each_call(world: Tokens, autojump_clock: MockClock, case: Case, auth: bool) -> None:
    token, brought, restart = case
    slow = after(NEVER if restart == "after the call" else 0, use(call("look")))
    world.plan("agent", use(call("wipe")), slow, say("done"))
    async with world.agent() as agent:
        turn = await agent.start_conversation("go", token=token)
        id, [question] = turn.conversation.id, turn.conversation.head.pending
        if restart != "before the decision":
            with trio.move_on_after(10):
                turn = await decide(agent, auth, question, brought)
        if restart == "no restart":
            await finished(agent, turn)
    world.plan("agent", use(call("wipe")), use(call("look")), say("done"))
    if restart != "no restart":
        async with world.agent() as agent:
            if restart == "before the decision":
                turn = await decide(agent, auth, question, brought)
                await finished(agent, turn)
            else:
                await trio.sleep(10)
                run = (await agent.get(id)).head.run
                assert run is not None
                if run.state == "auth_required":
                    await agent.resume(id, token=LATER)
    assert world.calls == (WITH_AUTH if auth else WITHOUT_AUTH)[case]
    assert TOKEN not in repr(world.journal._streams)  # type: ignore[attr-defined]


@pytest.mark.parametrize("auth", [False, True], ids=["without auth", "with auth"])
async def test_approved_call_that_lost_its_token_waits_for_another(
    world: Tokens, autojump_clock: MockClock, auth: bool
) -> None:
    """Approved, but not sent yet because of the other call: then the process ends."""
    world.plan("agent", use(call("wait"), call("drop")), say("done"))
    async with world.agent() as agent:
        with trio.move_on_after(10):
            turn = await agent.start_conversation("go", key="k")
        [item] = (await agent.conversations()).conversations
        [question] = item.pending_approvals
        with trio.move_on_after(10):
            await decide(agent, auth, question, APPROVER)
    async with world.agent() as agent:
        await trio.sleep(200)
        assert "drop" not in dict(world.calls)
        turn = await agent.resume(item.id, token=LATER)
        assert answer(turn).state == "finished"
    assert [bearer for name, bearer in world.calls if name == "drop"] == [LATER]


@pytest.mark.parametrize("auth", [False, True], ids=["without auth", "with auth"])
async def test_each_approver_serves_its_own_call(
    world: Tokens, autojump_clock: MockClock, auth: bool
) -> None:
    world.settings |= {"approval": {"in_parallel": "ask"}, "agent": parallel("fan", llm("a"), llm("b"))}
    for name in "ab":
        world.plan(name, use(call("wipe", name=name)), use(call("look", name=name)), say("done"))
    async with world.agent() as agent:
        turn = await agent.start_conversation("go", token=ASKER)
        first, second = turn.conversation.head.pending
        await decide(agent, auth, first, "one")
        await decide(agent, auth, second, "two")
    after_one, after_two = (ASKER, ASKER) if auth else ("one", "two")
    assert world.calls == [("wipe", "one"), ("look", after_one), ("wipe", "two"), ("look", after_two)]


@pytest.mark.parametrize("auth", [False, True], ids=["without auth", "with auth"])
async def test_both_decisions_before_the_first_call(
    world: Tokens, autojump_clock: MockClock, auth: bool
) -> None:
    world.plan("agent", use(call("wait"), call("drop", name="a"), call("drop", name="b")), say("done"))
    async with world.agent() as agent, trio.open_nursery() as nursery:
        id = (await agent.start_conversation()).conversation.id
        nursery.start_soon(lambda: agent.send(id, "go", token=ASKER))
        await trio.sleep(10)
        for question, token in zip((await agent.get(id)).head.pending, ("one", "two"), strict=True):
            nursery.start_soon(decide, agent, auth, question, token)
            await trio.sleep(1)
    drops = sorted(bearer or "" for name, bearer in world.calls if name == "drop")
    assert drops == (["one", "two"] if auth else ["two", "two"])


async def test_credential_that_the_server_may_not_get_serves_no_call(
    world: Tokens, autojump_clock: MockClock
) -> None:
    """The call is sent with the token of its requester, not without one."""
    world.plan("agent", use(call("wipe"), call("drop")), say("done"))
    boss = attrs.evolve(BOSS, token_servers=frozenset({"narrow"}))
    async with world.agent() as agent:
        turn = await agent.start_conversation("go", token=ASKER)
        for question in turn.conversation.head.pending:
            turn = await agent.acting_as(boss).decide(question, {"approved": True}, token=APPROVER)
        assert answer(turn).state == "finished"
    assert sorted(world.calls) == [("drop", APPROVER), ("wipe", ASKER)]


@pytest.mark.parametrize("auth", [False, True], ids=["without auth", "with auth"])
async def test_refused_token_of_an_approver_is_replaced_by_a_resume(
    world: Tokens, autojump_clock: MockClock, auth: bool
) -> None:
    world.wants = LATER
    world.plan("agent", use(call("wipe")), use(call("look")), say("done"))
    async with world.agent() as agent:
        turn = await agent.start_conversation("go", token=ASKER)
        turn = await decide(agent, auth, turn.conversation.head.pending[0], APPROVER)
        assert answer(turn).state == "auth_required"
        assert (await agent.get(turn.conversation.id)).head.run.state == "auth_required"  # type: ignore[union-attr]
        turn = await agent.resume(turn.conversation.id, token=LATER)
        assert answer(turn).state == "finished"
    assert world.calls == [("wipe", APPROVER), ("wipe", LATER), ("look", LATER)]


@pytest.mark.parametrize("auth", [False, True], ids=["without auth", "with auth"])
async def test_approvers_token_does_not_serve_a_branch_that_lost_its_token(
    world: Tokens, autojump_clock: MockClock, auth: bool
) -> None:
    world.settings |= {"approval": {"in_parallel": "ask"}, "agent": parallel("fan", llm("a"), llm("b"))}
    world.plan("a", after(5, use(call("look"))), say("A"))
    world.plan("b", after(5, use(call("wipe"))), say("B"))
    async with world.agent() as agent:
        with trio.move_on_after(1):
            await agent.start_conversation("go", token=ASKER, key="k")
    async with world.agent() as agent:  # the first process ended before the calls
        await trio.sleep(20)
        [item] = (await agent.conversations()).conversations
        turn = await decide(agent, auth, item.pending_approvals[0], APPROVER)
        assert answer(turn).state == ("auth_required" if auth else "finished")
        await finished(agent, turn)
    assert sorted(world.calls) == [("look", LATER if auth else APPROVER), ("wipe", APPROVER)]


# ------------------------------------------------------------------------ other agents


@attrs.define(eq=False)
class Peer:
    """Another agent, whose tasks ask twice."""

    bearers: list[tuple[str, str | None]] = attrs.field(factory=list)

    def open(
        self, config: RemoteAgentConfig, *, report: Callable[[RemoteAgentStatus], None]
    ) -> Behaviour[RemoteAgentMessage]:
        async def handle(message: RemoteAgentMessage) -> Any:
            match message:
                case Delegate():
                    return await self._delegate(message)
                case CancelRemote() | LookAt():
                    self.bearers.append((type(message).__name__, message.bearer))
                    return None
                case _:
                    assert_never(message)

        async def behaviour(ctx: Context[RemoteAgentMessage]) -> None:
            await ctx.serve(handle, concurrency=4)

        return behaviour

    async def _delegate(self, message: Delegate) -> Delegated:
        said = [answer.item.id or "" for answer in message.answers]
        self.bearers.append((" ".join([message.text, *said]), message.bearer))
        assert message.on_accepted is not None
        message.on_accepted(RemoteTask("task", "context"))
        asked = {"first": "second", "second": None}[said[0]] if said else "first"
        if asked is not None and message.text == "ask":
            raise RemoteInputRequired([RemoteItem(message=asked, id=asked, kind="tool")], {})
        return Delegated(ToolResult("done"))


@pytest.mark.parametrize("auth", [False, True], ids=["without auth", "with auth"])
async def test_decision_about_another_agents_question_serves_its_task(
    world: Tokens, autojump_clock: MockClock, auth: bool
) -> None:
    """The second decision brings no token: the task keeps that of the first."""
    peer = Peer()
    world.settings["a2a"] = [{"name": "peer", "url": "http://127.0.0.1:3"}]
    world.plan(
        "agent", use(call("a2a_peer", message="ask")), use(call("a2a_peer", message="go")), say("done")
    )
    async with opened(world, peer) as agent:
        turn = await agent.start_conversation("go", token=ASKER)
        turn = await decide(agent, auth, turn.conversation.head.pending[0], APPROVER)
        turn = await decide(agent, auth, turn.conversation.head.pending[0], None)
        assert answer(turn).state == "finished"
    assert peer.bearers == [
        ("ask", ASKER),
        ("LookAt", ASKER),  # before each decision
        ("ask first", APPROVER),
        ("LookAt", APPROVER),
        ("ask second", APPROVER),
        ("go", ASKER if auth else APPROVER),
    ]


@pytest.mark.parametrize("auth", [False, True], ids=["without auth", "with auth"])
async def test_cancelled_task_is_cancelled_with_the_token_of_its_call(
    world: Tokens, autojump_clock: MockClock, auth: bool
) -> None:
    peer = Peer()
    world.settings["a2a"] = [{"name": "peer", "url": "http://127.0.0.1:3"}]
    world.plan("agent", use(call("a2a_peer", message="ask")), say("done"))
    async with opened(world, peer) as agent:
        turn = await agent.start_conversation("go", token=ASKER)
        await decide(agent, auth, turn.conversation.head.pending[0], APPROVER)
        await agent.cancel(turn.conversation.id)
    assert peer.bearers[-1] == ("CancelRemote", APPROVER)


async def test_token_of_a_decision_without_the_right_goes_nowhere(
    world: Tokens, autojump_clock: MockClock
) -> None:
    """Before a decision, the agent that asks is asked whether it still waits."""
    peer = Peer()
    viewer = Principal(id="vic", grants=(Grant("viewer", "viewer"),))
    world.settings["a2a"] = [{"name": "peer", "url": "http://127.0.0.1:3"}]
    world.plan("agent", use(call("a2a_peer", message="ask")), say("done"))
    async with opened(world, peer) as agent:
        turn = await agent.start_conversation("go", token=ASKER)
    peer.bearers.clear()
    async with opened(world, peer) as agent:  # the token of the requester is lost
        [question] = turn.conversation.head.pending
        decision = agent.acting_as(viewer).decide(question, {"approved": True}, token=APPROVER)
        assert await code_of(decision) == "role_required"
    assert peer.bearers == []


@asynccontextmanager
async def opened(world: World, peer: Peer) -> AsyncIterator[Agent]:
    async with open_agent(
        world.config(),
        journal=world.journal,
        wall=wall,
        open_server=world.open_server,
        open_remote_agent=peer.open,
        open_model=world.open_model,
    ) as agent:
        yield agent
