"""Rejections: the call is not sent, and the nodes above decide what ends."""

from __future__ import annotations

from collections import Counter
from itertools import product
from typing import Any

import attrs
import pytest
import trio
from trio.testing import MockClock

from stopgo.actors.agent.agent import Agent
from stopgo.actors.common.errors import AgentError
from stopgo.actors.conversation.result import Result, Turn
from stopgo.actors.gate.gate import child_scope
from stopgo.actors.log.fold.head import RunHead
from stopgo.actors.log.writer import step
from stopgo.actors.log.writer.void import save_and_void
from stopgo.actors.models.messages.messages import ModelFailed, ModelReply, ModelRequest
from stopgo.actors.nodes import loop
from stopgo.actors.tools.delegation import Delegate, Delegated, RemoteAgentMessage
from stopgo.actors.tools.tool import ToolResult
from stopgo.config.sections.a2a import RemoteAgentConfig
from stopgo.runtime.context import Behaviour, Context
from tests.actors.world import (
    DESTRUCTIVE,
    READ_ONLY,
    World,
    answer,
    call,
    llm,
    never,
    parallel,
    results_in,
    say,
    sequential,
    use,
)
from tests.nesting import KINDS, executed, is_told, nested

ASK = {"in_parallel": "ask"}
NOTICE = "Operation cancelled by user."


async def settle(agent: Agent, turn: Turn, no: str, *, reason: str | None = None) -> Result:
    """Reject calls of the tool `no` and approve the others, until no approval is pending."""
    words: dict[str, Any] = {"reason": reason} if reason else {}
    while True:
        pending = turn.conversation.head.pending
        if not pending:
            return answer(turn)
        question = await agent.approval(pending[0])
        turn = await agent.decide(pending[0], {"approved": question.body["tool_name"] != no, **words})


async def test_rejection_reason_reaches_a_single_model(world: World, autojump_clock: MockClock) -> None:
    world.tool("wipe", DESTRUCTIVE)
    world.tool("look", READ_ONLY)
    world.plan("agent", use(call("wipe"), call("look")), say("As you wish."))
    async with world.agent() as agent:
        turn = await agent.start_conversation("go")
        result = await settle(agent, turn, "wipe", reason="too soon")
        conversation = await agent.get(turn.conversation.id)
    assert result.response == f"{NOTICE}\n\nAs you wish."
    assert (result.state, conversation.head.status) == ("finished", "active")
    rejected, looked = results_in(world.requests[1])
    assert "too soon" in rejected.content
    assert rejected.is_error
    assert looked.content == "look ok"
    assert world.called("wipe") == 0
    states = {m.call.name: m.call.state for m in conversation.messages if m.call}
    assert states == {"wipe": "rejected", "look": "finished"}


async def test_model_may_repeat_a_rejected_call_and_asks_again(
    world: World, autojump_clock: MockClock
) -> None:
    world.tool("wipe", DESTRUCTIVE)
    world.plan("agent", use(call("wipe", n=1)), use(call("wipe", n=2)), say("done"))
    async with world.agent() as agent:
        turn = await agent.start_conversation("go")
        turn = await agent.decide(turn.conversation.head.pending[0], {"approved": False})
        assert answer(turn).state == "waiting"
        turn = await agent.decide(turn.conversation.head.pending[0], {"approved": True})
    assert answer(turn).response.startswith(NOTICE)
    assert [arguments for _, arguments in world.ledger] == [{"n": 2}]


async def test_rejection_ends_the_sequence(world: World, autojump_clock: MockClock) -> None:
    world.tool("wipe", DESTRUCTIVE)
    world.settings["agent"] = sequential("root", llm("a"), llm("b", output_key="k"), llm("c"))
    world.plan("b", use(call("wipe")), say("never said"))
    async with world.agent() as agent:
        turn = await agent.start_conversation("go")
        result = await settle(agent, turn, "wipe")
        assert result.response.startswith(NOTICE)
        assert result.state == "finished"
        conversation = await agent.get(turn.conversation.id)
        assert conversation.head.status == "active"
        assert [r.node for r in world.requests] == ["a", "b"]
        assert world.ledger == []
        # The conversation goes on with its next message.
        world.plan("b", say("fine"))
        assert answer(await agent.send(turn.conversation.id, "again")).response == "c done"


async def test_other_calls_of_the_reply_settle_first(world: World, autojump_clock: MockClock) -> None:
    world.tool("wipe", DESTRUCTIVE)
    world.tool("drop", DESTRUCTIVE)
    world.tool("look", READ_ONLY)
    world.settings["agent"] = sequential("root", llm("a"), llm("b"))
    world.plan("a", use(call("wipe"), call("look"), call("drop")), say("never said"))
    async with world.agent() as agent:
        turn = await agent.start_conversation("go")
        result = await settle(agent, turn, "wipe")
    assert result.response.startswith(NOTICE)
    assert world.called("look") == world.called("drop") == 1
    assert world.called("wipe") == 0
    assert [r.node for r in world.requests] == ["a"]


async def test_rejection_in_parallel_ends_the_sequence_above(world: World, autojump_clock: MockClock) -> None:
    world.tool("wipe", DESTRUCTIVE)
    world.tool("drop", DESTRUCTIVE)
    world.settings |= {
        "approval": ASK,
        "agent": sequential("root", parallel("fan", llm("a"), llm("b")), llm("c")),
    }
    world.plan("a", use(call("wipe")), say("never said"))
    world.plan("b", use(call("drop")), say("b is done"))
    async with world.agent() as agent:
        turn = await agent.start_conversation("go")
        result = await settle(agent, turn, "wipe")
    assert result.response.startswith(NOTICE)
    assert len(world.asked("a")) == 1
    assert len(world.asked("b")) == 2  # the other branch went on to its own end
    assert not world.asked("c")
    assert [name for name, _ in world.ledger] == ["drop"]


async def test_rejection_without_sequence_reaches_the_branch(world: World, autojump_clock: MockClock) -> None:
    world.tool("wipe", DESTRUCTIVE)
    world.settings |= {"approval": ASK, "agent": parallel("fan", llm("a"), llm("b"))}
    world.plan("a", use(call("wipe")), say("A instead"))
    world.plan("b", say("B"))
    async with world.agent() as agent:
        turn = await agent.start_conversation("go")
        result = await settle(agent, turn, "wipe")
    assert result.response == f"{NOTICE}\n\nA instead\nB"


async def test_rejection_notice_comes_first(world: World, autojump_clock: MockClock) -> None:
    world.tool("wipe", DESTRUCTIVE)
    world.settings |= {
        "approval": ASK,
        "agent": parallel("fan", llm("b"), sequential("s", llm("a"), llm("a2"))),
    }
    world.plan("a", use(call("wipe")))
    async with world.agent() as agent:
        turn = await agent.start_conversation("go")
        result = await settle(agent, turn, "wipe")
        assert result.response.startswith(f"{NOTICE}\n\nb done")
        # Only the run that was told no says so.
        world.plan("a", say("fine"))
        assert answer(await agent.send(turn.conversation.id, "again")).response == "b done\na2 done"


async def test_on_reject_continue_ends_one_sequence(world: World, autojump_clock: MockClock) -> None:
    world.tool("wipe", DESTRUCTIVE)
    inner = sequential("inner", llm("a"), llm("b"), output_key="k", on_reject="continue")
    world.settings["agent"] = sequential("root", inner, {**llm("c"), "prompt": "{k}"})
    world.plan("a", use(call("wipe")))
    async with world.agent() as agent:
        turn = await agent.start_conversation("go")
        result = await settle(agent, turn, "wipe")
    assert world.asked("c")[0].prompt == "Operation cancelled by user"
    assert not world.asked("b")
    assert result.response == f"{NOTICE}\n\nc done"


CHECKPOINT = {"type": "approval", "name": "leaf", "message": "Go on?"}


def nestings(depth: int) -> list[tuple[str, ...]]:
    """All nestings of one or two kinds of nodes. Of three, one for each pair of kinds at any two levels."""
    if depth < 3:
        return list(product(KINDS, repeat=depth))
    pairs = product(range(len(KINDS)), repeat=2)
    return [(KINDS[outer], KINDS[middle], KINDS[(outer + middle) % len(KINDS)]) for outer, middle in pairs]


@pytest.mark.parametrize(
    ("leaf", "expires", "depth"),
    [
        *(
            (leaf, expires, depth)
            for leaf in (llm("leaf"), CHECKPOINT)
            for expires in (None, 5.0)
            for depth in (1, 2)
        ),
        (llm("leaf"), None, 3),
    ],
)
async def test_rejection_ends_every_sequence_and_loop_above(
    world: World, autojump_clock: MockClock, leaf: dict[str, Any], expires: float | None, depth: int
) -> None:
    world.tool("wipe", DESTRUCTIVE)
    world.plan("leaf", use(call("wipe")), say("then not"))
    world.settings["approval"] = ASK | {"in_loop": "ask"} | ({"expires_after": expires} if expires else {})
    for kinds in nestings(depth):
        world.settings["agent"] = nested(kinds, leaf)
        world.requests.clear()
        async with world.agent() as agent:
            turn: Turn = await agent.start_conversation("go")
            while pending := turn.conversation.head.pending:
                if expires is None:
                    turn = await agent.decide(pending[0], {"approved": False})
                else:
                    await trio.sleep(expires)
                    turn = Turn(await agent.get(turn.conversation.id), None)
        times, _ = executed(kinds)
        if leaf is CHECKPOINT:
            del times["leaf"]
        elif is_told(kinds):
            times["leaf"] += 1
        assert Counter(request.node for request in world.requests) == times, kinds
        run = turn.conversation.head.run
        assert run is not None
        assert (run.state, run.rejected) == ("finished", True), kinds
        assert expires or answer(turn).response.startswith(NOTICE), kinds
    assert world.ledger == []


async def fails_late(_: ModelRequest) -> ModelReply:
    await trio.sleep(100)
    raise ModelFailed("down")


async def end_after_no(world: World, *, restart: bool = False) -> tuple[RunHead, Counter[str]]:
    """The end of a run whose calls of `wipe` are rejected, and how often each node asked its model."""
    world.requests.clear()
    async with world.agent() as agent:
        turn = await agent.post_conversation("go")
        await trio.sleep(5)
        if not restart:
            return await _end_after_no(world, agent, turn.conversation.id)
    async with world.agent() as agent:
        return await _end_after_no(world, agent, turn.conversation.id)


async def _end_after_no(world: World, agent: Agent, id: str) -> tuple[RunHead, Counter[str]]:
    while True:
        conversation = await agent.get(id)
        for question in conversation.head.pending:
            await agent.post_decision(question, {"approved": False})
        run = conversation.head.run
        assert run is not None
        if run.state not in ("running", "waiting"):
            return run, Counter(request.node for request in world.requests)
        await trio.sleep(5)


GOES_ON = {"retries": 1, "on_error": "continue"}
TIMED = llm("leaf", timeout=60, **GOES_ON)
FAILING = parallel("fan", llm("leaf"), llm("bad"), retries=1)


@pytest.mark.parametrize("depth", [1, 2])
@pytest.mark.parametrize("leaf", [TIMED, FAILING])
async def test_later_failure_does_not_undo_a_rejection(
    world: World, autojump_clock: MockClock, leaf: dict[str, Any], depth: int
) -> None:
    """Neither `retries` nor `on_error` of any node above starts anything further."""
    world.tool("wipe", DESTRUCTIVE)
    world.tool("slow", READ_ONLY, never)
    world.settings["approval"] = ASK | {"in_loop": "ask"}
    world.plan("leaf", use(call("wipe"), call("slow")))
    world.plan("bad", fails_late)
    for kinds in product(KINDS, repeat=depth):
        if is_told(kinds):
            continue
        world.settings["agent"] = nested(kinds, leaf, forgiving=True)
        run, asked = await end_after_no(world)
        times, _ = executed(kinds)
        if leaf is FAILING:
            times["bad"] = times["leaf"]
        assert asked == times, kinds
        assert (run.state, run.rejected) == ("finished", True), kinds


@pytest.mark.parametrize(
    ("inner", "asked"),
    [
        ({}, {"leaf": 1}),
        ({"on_reject": "continue"}, {"leaf": 1, "c": 1}),
        ({"type": "loop", "on_reject": "continue"}, {"leaf": 1, "c": 1}),
        ({"type": "parallel", "on_error": "collect"}, {"leaf": 1, "b": 1}),
    ],
)
async def test_timeout_above_does_not_undo_a_rejection(
    world: World, autojump_clock: MockClock, inner: dict[str, Any], asked: dict[str, int]
) -> None:
    world.tool("wipe", DESTRUCTIVE)
    world.tool("slow", READ_ONLY, never)
    world.settings["approval"] = ASK | {"in_loop": "ask"}
    world.plan("leaf", use(call("wipe"), call("slow")))
    timed = sequential("inner", llm("leaf"), llm("b"), **{"timeout": 60, **GOES_ON, **inner})
    world.settings["agent"] = sequential("root", timed, llm("c"))
    run, found = await end_after_no(world)
    assert (run.state, run.rejected, found) == ("finished", True, asked)


def peer(config: RemoteAgentConfig, **_: Any) -> Behaviour[RemoteAgentMessage]:
    """Another agent, whose people reject something in each of its tasks."""

    async def handle(message: RemoteAgentMessage) -> Delegated | None:
        return Delegated(ToolResult("not done"), rejected=True) if isinstance(message, Delegate) else None

    async def behaviour(ctx: Context[RemoteAgentMessage]) -> None:
        await ctx.serve(handle, concurrency=2)

    return behaviour


@pytest.mark.parametrize("retries", [0, 1])
@pytest.mark.parametrize("inner", [llm("leaf"), sequential("inner", llm("leaf"), llm("b"))])
async def test_failure_does_not_undo_a_rejection_at_another_agent(
    world: World, autojump_clock: MockClock, inner: dict[str, Any], retries: int
) -> None:
    world.open_remote_agent = peer
    world.tool("slow", READ_ONLY, never)
    world.settings |= {
        "a2a": [{"name": "peer", "url": "http://127.0.0.1:3", "destructiveHint": False}],
        "approval": {"unannotated": "run"},
    }
    world.plan("leaf", use(call("a2a_peer", message="go"), call("slow")))
    timed = inner | GOES_ON | {"timeout": 60, "retries": retries}
    world.settings["agent"] = sequential("root", timed, llm("c"))
    run, found = await end_after_no(world)
    assert (run.state, run.rejected, found) == ("finished", True, {"leaf": 1})


async def test_node_is_retried_after_rejection_without_sequence(
    world: World, autojump_clock: MockClock
) -> None:
    world.tool("wipe", DESTRUCTIVE)
    world.tool("slow", READ_ONLY, never)
    world.plan("leaf", use(call("wipe"), call("slow")))
    world.settings["agent"] = TIMED
    run, asked = await end_after_no(world)
    assert (run.state, run.rejected, asked) == ("finished", True, {"leaf": 2})


@pytest.mark.repeat(4)  # after a restart, either branch may get the first turn
@pytest.mark.parametrize(("above", "started"), [("sequential", 1), ("parallel", 2)])
@pytest.mark.parametrize("restart", [False, True])
async def test_queued_branch_does_not_start_after_rejection(
    world: World, autojump_clock: MockClock, above: str, started: int, restart: bool
) -> None:
    world.tool("wipe", DESTRUCTIVE)
    world.settings["approval"] = ASK
    branches = (sequential(f"s{node}", llm(node)) for node in "ab")
    fan = parallel("fan", *branches, max_concurrency=1)
    world.settings["agent"] = {"type": above, "name": "root", "agents": [fan]}
    for node in "ab":
        world.plan(node, use(call("wipe")))
    run, asked = await end_after_no(world, restart=restart)
    assert (run.state, run.rejected, asked.total()) == ("finished", True, started)


async def test_loop_continued_by_an_earlier_version_goes_on(
    world: World, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That version passed a rejection below a loop to the model, whose next call was approved."""
    world.tool("wipe", DESTRUCTIVE)
    world.settings |= {
        "approval": {"in_loop": "ask"},
        "agent": {"type": "loop", "name": "rounds", "agents": [llm("a")], "max_iterations": 1},
    }
    world.plan("a", use(call("wipe", n=1)), use(call("wipe", n=2)), use(call("wipe", n=3)), say("never said"))
    with monkeypatch.context() as patch:
        patch.setattr(
            loop, "child_scope", lambda *above: attrs.evolve(child_scope(*above), ends_on_reject=False)
        )
        async with world.agent() as agent:
            turn = await agent.start_conversation("go")
            turn = await agent.decide(turn.conversation.head.pending[0], {"approved": False})
    async with world.agent() as agent:
        turn = await agent.decide(turn.conversation.head.pending[0], {"approved": True})
        turn = await agent.decide(turn.conversation.head.pending[0], {"approved": False})
    assert answer(turn).response == NOTICE
    assert [arguments for _, arguments in world.ledger] == [{"n": 2}]


async def test_rejection_is_final(world: World, autojump_clock: MockClock) -> None:
    world.tool("wipe", DESTRUCTIVE)
    world.plan("agent", use(call("wipe")), say("ok"))
    async with world.agent() as agent:
        turn = await agent.start_conversation("go")
        [id] = turn.conversation.head.pending
        await agent.decide(id, {"answer": "no"})
        with pytest.raises(AgentError) as caught:
            await agent.decide(id, {"approved": True})
    assert caught.value.code == "already_decided"
    assert caught.value.details["approval"].decision["approved"] is False
    assert world.ledger == []


async def test_the_rejection_survives_a_restart(world: World, autojump_clock: MockClock) -> None:
    world.tool("wipe", DESTRUCTIVE)
    world.settings["agent"] = sequential("root", llm("a"), llm("b"))
    world.plan("a", use(call("wipe")))
    async with world.agent() as agent:
        turn = await agent.start_conversation("go")
    async with world.agent() as agent:
        result = await settle(agent, turn, "wipe")
    assert result.response.startswith(NOTICE)
    assert not world.asked("b")
    assert len(world.asked("a")) == 1


async def test_rejection_while_the_failure_of_an_attempt_is_being_saved(
    world: World, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def save_slowly(*args: Any, **options: Any) -> bool:
        await trio.sleep(10)
        return await save_and_void(*args, **options)

    monkeypatch.setattr(step, "save_and_void", save_slowly)
    world.tool("wipe", DESTRUCTIVE)
    world.settings["approval"] = ASK
    world.plan("leaf", use(call("wipe")))
    world.plan("bad", fails_late)
    world.settings["agent"] = sequential("root", FAILING, llm("c"))
    async with world.agent() as agent:
        id = (await agent.post_conversation("go")).conversation.id
        await trio.sleep(
            85
        )  # the model fails at 60; three saves follow, the last of them is that of the attempt
        run, asked = await _end_after_no(world, agent, id)
    assert (run.state, run.rejected, asked) == ("finished", True, {"leaf": 1, "bad": 1})
