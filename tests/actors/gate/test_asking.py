"""A destructive call waits for a human, and is sent as the human decided."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from stopgo.actors.agent.agent import Agent
from stopgo.actors.calls import call_judge
from stopgo.actors.common.errors import AgentError
from stopgo.actors.conversation.result import Turn
from stopgo.actors.gate.gate import PolicyScope, Verdict
from stopgo.actors.gate.off_loop import judge_off_loop
from stopgo.actors.tools.tool import Hints, Tool
from stopgo.runtime.journal.memory.memory_journal import MemoryJournal
from stopgo.runtime.journal.protocol import Commit, NewCommand, Saved
from tests.actors.world import (
    DESTRUCTIVE,
    HARMLESS,
    READ_ONLY,
    SCHEMA,
    World,
    after,
    answer,
    call,
    calls_in,
    code_of,
    events,
    llm,
    parallel,
    results_in,
    say,
    sequential,
    types,
    use,
    wall,
)
from tests.runtime.journal.kept import intents_of


async def pending(agent: Agent, conversation: str) -> dict[str, str]:
    """Ids of the pending approvals by the tool they ask about."""
    found = await agent.approvals()
    return {q.body["tool_name"]: q.id for q in found.approvals if q.stream == conversation}


def two_branches(world: World) -> None:
    """Two branches that each ask once, and then one more node."""
    for name in ("rm-a", "rm-b"):
        world.tool(name, DESTRUCTIVE)
    world.tool("look", READ_ONLY)
    world.settings |= {
        "approval": {"in_parallel": "ask"},
        "agent": sequential("root", parallel("fan", llm("a"), llm("b")), llm("sum")),
    }
    world.plan("a", use(call("rm-a", name="x"), call("look")), say("A"))
    world.plan("b", use(call("rm-b")), say("B"))


class Slow(MemoryJournal):
    """Takes a second for every save."""

    async def save(self, commit: Commit) -> Saved:
        await trio.sleep(1)
        return await super().save(commit)


# ---------------------------------------------------------------------- asking at all


async def test_a_destructive_call_waits_with_its_arguments(world: World, autojump_clock: MockClock) -> None:
    world.tool("wipe", DESTRUCTIVE, schema=SCHEMA)
    world.settings["agent"] = sequential("root", llm("a", output_key="k"), llm("b", output_key="out"))
    world.plan("b", use(call("wipe", name="x")), say("done"))
    async with world.agent() as agent:
        turn = await agent.start_conversation("go")
        result = answer(turn)
        [id] = turn.conversation.head.pending
        assert (result.waiting_approval, result.state, result.approval_ids) == (True, "waiting", (id,))
        assert id in result.response
        assert turn.conversation.head.status == "waiting_approval"
        question = await agent.approval(id)
        assert (question.kind, question.state, question.stream) == ("tool", "pending", turn.conversation.id)
        body = question.body
        assert (body["tool_name"], body["tool_args"]) == ("wipe", {"name": "x"})
        assert (body["server"], body["node"], body["rule"]) == ("tools", "b", "destructiveHint: true")
        assert body["input_schema"] == SCHEMA
        # What `pipeline_state` is made of.
        assert (body["path"], body["output_key"]) == ([1], "out")
        assert (body["session_state"], body["user_message"]) == ({"k": "a done"}, "go")
        assert world.ledger == []

        turn = await agent.decide(id, {"answer": "yes"})
        assert answer(turn).response == "done"
        assert turn.conversation.head.status == "active"
        assert world.ledger == [("wipe", {"name": "x"})]
        assert turn.conversation.approvals[id].state == "decided"


async def test_approval_continues_without_repeating_earlier_steps(
    world: World, autojump_clock: MockClock
) -> None:
    world.tool("wipe", DESTRUCTIVE)
    world.settings["agent"] = sequential("root", llm("a"), llm("b"), llm("c"))
    world.plan("b", use(call("wipe")), say("b done"))
    async with world.agent() as agent:
        turn = await agent.start_conversation("go")
        await trio.sleep(30)
        result = answer(await agent.decide(turn.conversation.head.pending[0], {"approved": True}))
    assert result.response == "c done"
    assert [r.node for r in world.requests] == ["a", "b", "b", "c"]


@pytest.mark.parametrize("answer_", [{"approved": True}, {"action": "approve"}, {"answer": "yes"}], ids=str)
async def test_every_format_of_approval_runs_the_call(
    world: World, autojump_clock: MockClock, answer_: Mapping[str, Any]
) -> None:
    world.tool("wipe", DESTRUCTIVE)
    world.plan("agent", use(call("wipe")), say("done"))
    async with world.agent() as agent:
        turn = await agent.start_conversation("go")
        turn = await agent.decide(turn.conversation.head.pending[0], answer_)
    assert answer(turn).response == "done"
    assert world.called("wipe") == 1


async def test_an_invalid_decision_leaves_it_pending(world: World, autojump_clock: MockClock) -> None:
    world.tool("wipe", DESTRUCTIVE)
    world.plan("agent", use(call("wipe")), say("done"))
    async with world.agent() as agent:
        turn = await agent.start_conversation("go")
        [id] = turn.conversation.head.pending
        for words, code in (
            ({}, "decision_required"),
            ({"answer": "perhaps"}, "decision_required"),
            ({"approved": True, "reason": 1}, "invalid_request"),
            ({"approved": True, "arguments": {"name": 1}}, "invalid_arguments"),
            ({"approved": True, "arguments": []}, "invalid_arguments"),
        ):
            assert await code_of(agent.decide(id, words, key="the same key")) == code
        assert (await agent.approval(id)).state == "pending"
        # None of them used up the key.
        turn = await agent.decide(id, {"approved": True}, key="the same key")
    assert answer(turn).response == "done"


async def test_unknown_approval_is_not_found(world: World, autojump_clock: MockClock) -> None:
    async with world.agent() as agent:
        assert await code_of(agent.decide("no such id", {"approved": True})) == "approval_not_found"
        with pytest.raises(AgentError):
            await agent.approval("no such id")


async def test_unannotated_tools_run_or_ask_as_configured(world: World, autojump_clock: MockClock) -> None:
    world.tool("odd", Hints())
    world.plan("agent", use(call("odd")), say("done"))
    async with world.agent() as agent:
        assert [listed.policy for listed in agent.tools()] == ["run"]
        assert answer(await agent.start_conversation("go")).response == "done"
    world.settings["approval"] = {"unannotated": "ask"}
    async with world.agent() as agent:
        assert [listed.policy for listed in agent.tools()] == ["ask"]
        turn = await agent.start_conversation("go")
        assert answer(turn).state == "waiting"
        question = await agent.approval(turn.conversation.head.pending[0])
        assert question.body["rule"] == "approval.unannotated: ask"
    assert world.called("odd") == 1


async def test_below_a_parallel_node_nothing_asks_by_default(world: World, autojump_clock: MockClock) -> None:
    two_branches(world)
    del world.settings["approval"]
    async with world.agent() as agent:
        turn = await agent.start_conversation("go")
    assert answer(turn).response == "sum done"
    assert world.called("rm-a") == world.called("rm-b") == 1


# ------------------------------------------------------------------------- editing


async def test_an_edited_call_goes_out_as_edited_and_the_model_sees_it(
    world: World, autojump_clock: MockClock
) -> None:
    world.tool("wipe", DESTRUCTIVE)
    world.plan("agent", use(call("wipe", name="all")), say("done"))
    async with world.agent() as agent:
        turn = await agent.start_conversation("go")
        turn = await agent.decide(
            turn.conversation.head.pending[0], {"approved": True, "arguments": {"name": "one"}}
        )
        assert answer(turn).response == "done"
        assert world.ledger == [("wipe", {"name": "one"})]
        [intent] = await intents_of(world.journal, turn.conversation.id)
        assert (intent.body["arguments"], intent.effect, intent.state) == (
            {"name": "one"},
            "once",
            "finished",
        )
        [shown] = [m.call for m in turn.conversation.messages if m.call]
        assert shown.arguments == {"name": "one"}
    [sent] = calls_in(world.requests[1])
    assert sent.arguments == {"name": "one"}


async def test_an_edit_survives_a_restart_before_the_call(world: World, autojump_clock: MockClock) -> None:
    """The decision is on disk when the process ends; the next process sends the edited call."""
    world.tool("wipe", DESTRUCTIVE)
    world.plan("agent", use(call("wipe", name="all")), say("done"))
    async with world.agent() as agent:
        turn = await agent.start_conversation("go")
        [id] = turn.conversation.head.pending
    edited = {"approved": True, "arguments": {"name": "one"}}
    await world.journal.decide(id, edited, "k")
    async with world.agent() as agent:
        result = answer(await agent.decide(id, edited, key="k"))
    assert result.response == "done"
    assert world.ledger == [("wipe", {"name": "one"})]


async def test_tool_changed_while_waiting_is_asked_again(world: World, autojump_clock: MockClock) -> None:
    world.tool("wipe", DESTRUCTIVE)
    world.plan("agent", use(call("wipe", name="x")), say("done"))
    async with world.agent() as agent:
        turn = await agent.start_conversation("go")
        [first] = turn.conversation.head.pending
    world.tool("wipe", DESTRUCTIVE, description="Now wipes twice as much.")
    async with world.agent() as agent:
        turn = await agent.decide(first, {"approved": True})
        assert answer(turn).state == "waiting"
        [second] = turn.conversation.head.pending
        assert second != first
        question = await agent.approval(second)
        assert question.body["replaces"] == first
        assert question.body["tool_args"] == {"name": "x"}
        assert world.ledger == []
        turn = await agent.decide(second, {"approved": True})
    assert answer(turn).response == "done"
    assert world.called("wipe") == 1


async def test_tool_gone_after_approval_is_an_error_result(world: World, autojump_clock: MockClock) -> None:
    world.tool("wipe", DESTRUCTIVE)
    world.tool("look", READ_ONLY)
    world.plan("agent", use(call("wipe")), say("sorry"))
    async with world.agent() as agent:
        turn = await agent.start_conversation("go")
    del world.tools["wipe"]
    async with world.agent() as agent:
        turn = await agent.decide(turn.conversation.head.pending[0], {"approved": True})
    assert answer(turn).response == "sorry"
    [result] = results_in(world.requests[-1])
    assert result.content.startswith("tool not found: wipe")


# --------------------------------------------------------------------- two branches


@pytest.mark.repeat(5)
@pytest.mark.parametrize("order", list(itertools.permutations(["rm-a", "rm-b"])), ids=str)
@pytest.mark.parametrize("restart", [False, True])
async def test_two_branches_ask_and_are_decided_in_any_order(
    world: World, autojump_clock: MockClock, order: tuple[str, ...], restart: bool
) -> None:
    two_branches(world)
    async with world.agent() as agent:
        turn = await agent.start_conversation("go")
        id = turn.conversation.id
        assert set(await pending(agent, id)) == {"rm-a", "rm-b"}
        assert [name for name, _ in world.ledger] == ["look"]
        if not restart:
            await finish(agent, world, turn, order)
    if restart:
        async with world.agent() as agent:
            await finish(agent, world, turn, order)
    assert sorted(name for name, _ in world.ledger) == ["look", "rm-a", "rm-b"]
    assert [len(world.asked(node)) for node in ("a", "b", "sum")] == [2, 2, 1]


async def finish(agent: Agent, world: World, turn: Turn, order: tuple[str, ...]) -> None:
    """Approve one after the other; each branch continues at once, the run after both."""
    ids = await pending(agent, turn.conversation.id)
    turn = await agent.decide(ids[order[0]], {"approved": True})
    assert answer(turn).state == "waiting"
    assert turn.conversation.head.pending == (ids[order[1]],)
    assert world.called(order[0]) == 1
    assert len(world.asked(order[0][-1])) == 2  # its branch went on to its end
    turn = await agent.decide(ids[order[1]], {"approved": True})
    assert answer(turn).response == "sum done"
    assert turn.conversation.head.status == "active"


@pytest.mark.repeat(10)
async def test_both_branches_answered_at_the_same_time(world: World, autojump_clock: MockClock) -> None:
    two_branches(world)
    async with world.agent() as agent:
        turn = await agent.start_conversation("go")
        ids = await pending(agent, turn.conversation.id)
        states = []

        async def decide(tool: str) -> None:
            states.append(answer(await agent.decide(ids[tool], {"approved": True})).state)

        async with trio.open_nursery() as nursery:
            for tool in ids:
                nursery.start_soon(decide, tool)
        conversation = await agent.get(turn.conversation.id)
    # The first may have been told that the other still waited, if it did.
    assert "finished" in states
    assert conversation.head.run is not None
    assert conversation.head.run.state == "finished"
    assert sorted(name for name, _ in world.ledger) == ["look", "rm-a", "rm-b"]


async def test_decision_takes_effect_while_another_branch_is_active(
    world: World, autojump_clock: MockClock
) -> None:
    two_branches(world)
    world.plan("b", after(50, say("B")))
    async with world.agent() as agent:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(agent.start_conversation, "go")
            await trio.sleep(10)
            [conversation] = (await agent.conversations()).conversations
            assert conversation.head.status == "waiting_approval"  # although a branch still runs
            assert conversation.head.run is not None
            assert conversation.head.run.state == "running"
            [id] = conversation.head.pending
            nursery.start_soon(agent.decide, id, {"approved": True})
            await trio.sleep(10)
            assert world.called("rm-a") == 1
            assert len(world.asked("a")) == 2
        log = await types(world.journal, conversation.id)
    assert "run.waiting" not in log  # nobody was ever told that only a human could move it on
    assert log[-1] == "run.finished"


@pytest.mark.repeat(10)
async def test_decision_without_slot_after_restart_is_answered(
    world: World, autojump_clock: MockClock
) -> None:
    """In each process, one branch gets the slot. A decision for the other resumes no branch."""
    world.tool("wipe", DESTRUCTIVE)
    world.settings["approval"] = {"in_parallel": "ask"}
    world.settings["agent"] = parallel("fan", llm("a"), llm("b"), max_concurrency=1)
    for node in ("a", "b"):
        world.plan(node, use(call("wipe", name="x"), call("wipe", name="y")), say("done"))
    async with world.agent() as agent:
        turn = await agent.start_conversation("go")
        assert len(turn.conversation.head.pending) == 2
    async with world.agent() as agent:
        for _ in range(4):
            assert answer(turn).state == "waiting"
            turn = await agent.decide(turn.conversation.head.pending[0], {"approved": True})
    assert (answer(turn).state, world.called("wipe")) == ("finished", 4)


async def test_both_deciders_get_the_answer_of_the_run(world: World, autojump_clock: MockClock) -> None:
    two_branches(world)
    world.plan("b", after(50, say("B")))
    results = []
    async with world.agent() as agent:

        async def start() -> None:
            results.append(answer(await agent.start_conversation("go")).response)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(start)
            await trio.sleep(10)
            [conversation] = (await agent.conversations()).conversations
            results.append(
                answer(await agent.decide(conversation.head.pending[0], {"approved": True})).response
            )
    assert results == ["sum done", "sum done"]


# ------------------------------------------------------------------ the first one wins


async def test_edit_during_judgement_is_not_lost(
    world: World, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The gate judges the call as it was shown; the decision is applied before the verdict."""
    judging, decided = trio.Event(), trio.Event()

    async def slowly(
        tool: Tool, arguments: Mapping[str, Any], place: PolicyScope, turn: trio.Lock
    ) -> Verdict:
        if arguments == {"name": "b"} and not decided.is_set():
            judging.set()
            await decided.wait()
        return await judge_off_loop(tool, arguments, place, turn)

    world.tool("rm", DESTRUCTIVE)
    world.plan("agent", use(call("rm", name="a"), call("rm", name="b")), say("done"))
    async with world.agent() as agent:
        id = (await agent.start_conversation("go")).conversation.id
        a, b = (await agent.get(id)).head.pending
    monkeypatch.setattr(call_judge, "judge_off_loop", slowly)
    async with world.agent() as agent:
        await agent.post_decision(a, {"approved": True})
        await judging.wait()
        await agent.post_decision(b, {"approved": True, "arguments": {"name": "c"}})
        await trio.testing.wait_all_tasks_blocked()
        decided.set()
        await trio.sleep(1)
        started = [event.body for event in await events(world.journal, id) if event.type == "tool.started"]
    assert sorted(body["arguments"]["name"] for body in started) == ["a", "c"]


@pytest.mark.repeat(20)
async def test_one_of_two_concurrent_decisions_wins(world: World, autojump_clock: MockClock) -> None:
    world.tool("wipe", DESTRUCTIVE)
    world.plan("agent", use(call("wipe")), say("done"))
    outcomes: list[str] = []
    async with world.agent() as agent:
        turn = await agent.start_conversation("go")
        [id] = turn.conversation.head.pending

        async def decide(yes: bool) -> None:
            try:
                await agent.decide(id, {"approved": yes})
                outcomes.append(f"won {yes}")
            except AgentError as error:
                stood = error.details["approval"].decision["approved"]
                outcomes.append(f"{error.code} {stood}")

        async with trio.open_nursery() as nursery:
            for yes in (True, False, True, False):
                nursery.start_soon(decide, yes)
        conversation = await agent.get(turn.conversation.id)
    [winner] = [outcome for outcome in outcomes if outcome.startswith("won")]
    stood = winner.removeprefix("won ")
    assert sorted(outcomes) == sorted([winner] + [f"already_decided {stood}"] * 3)
    assert world.called("wipe") == (stood == "True")
    assert [e.type for e in await events(world.journal, conversation.id)].count("approval.resolved") == 1


async def test_repeated_decision_gets_the_one_that_won(world: World, autojump_clock: MockClock) -> None:
    world.tool("wipe", DESTRUCTIVE)
    world.plan("agent", use(call("wipe")), say("done"))
    async with world.agent() as agent:
        turn = await agent.start_conversation("go")
        [id] = turn.conversation.head.pending
        await agent.decide(id, {"approved": True, "decided_by": "ada"})
        with pytest.raises(AgentError) as caught:
            await agent.decide(id, {"approved": False})
    assert caught.value.code == "already_decided"
    assert caught.value.details["approval"].decision["decided_by"] == "ada"


# --------------------------------------------------------------- all there is on record


async def test_every_message_call_result_and_approval_is_on_record(
    world: World, autojump_clock: MockClock
) -> None:
    world.tool("wipe", DESTRUCTIVE)
    world.tool("look", HARMLESS)
    world.plan("agent", use(call("look"), call("wipe"), text="I will."), say("done"))
    async with world.agent() as agent:
        turn = await agent.start_conversation("go")
        turn = await agent.decide(turn.conversation.head.pending[0], {"answer": "yes", "reason": "fine"})
        log = await types(world.journal, turn.conversation.id)
    conversation = turn.conversation
    assert [m.role for m in conversation.messages] == [
        *("system", "user", "assistant", "tool", "tool", "assistant")
    ]
    assert len({m.id for m in conversation.messages}) == 6
    [approval] = conversation.approvals.values()
    assert approval.decision is not None
    assert approval.decision["reason"] == "fine"
    for type in ("tool.started", "tool.finished", "approval.requested", "approval.resolved", "run.waiting"):
        assert type in log
    assert "run.resumed" in log


async def test_a_decision_has_one_time(world: World, autojump_clock: MockClock) -> None:
    """The time when it was made, even if the run applies it later."""
    world.journal = Slow(wall)
    world.tool("wipe", DESTRUCTIVE)
    world.plan("agent", use(call("wipe")), say("done"))
    async with world.agent() as agent:
        turn = await agent.start_conversation("go")
        (id,) = answer(turn).approval_ids
        made = wall()
        turn = await agent.decide(id, {"approved": True})
        approval = await agent.approval(id)
        assert approval.settled == turn.conversation.approvals[id].settled == made
    (resolved,) = [
        each for each in await events(world.journal, approval.stream) if each.type == "approval.resolved"
    ]
    assert resolved.at == made
    assert turn.conversation.updated > made


async def test_decision_beats_unprocessed_expire_command(world: World, autojump_clock: MockClock) -> None:
    world.tool("wipe", DESTRUCTIVE)
    world.plan("agent", use(call("wipe")), say("done"))
    world.settings["approval"] = {"expires_after": 30}
    async with world.agent() as agent:
        turn = await agent.start_conversation("go")
        id, [question] = turn.conversation.id, turn.conversation.head.pending
        await trio.sleep(10)
        assert not agent._cast.conversations.active  # what is put into its inbox now is found together
        await world.journal.deliver(NewCommand(id, f"expire/{question}", "expire", {"question": question}))
        turn = await agent.decide(question, {"approved": True})
        assert answer(turn).response == "done"
        assert await world.journal.inbox(id) == ()
    assert world.ledger == [("wipe", {})]
    assert "approval.expired" not in await types(world.journal, id)
