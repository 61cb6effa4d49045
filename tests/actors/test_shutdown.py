"""Shutdown: no new step starts, calls in flight finish, clients get an error, the next process resumes."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import pytest
import trio
import trio.testing
from trio.testing import MockClock

from stopgo.actors.common.errors import AgentError
from stopgo.actors.tools.tool import Hints, ToolOutcomeUnknown
from stopgo.runtime.journal.protocol import NewCommand
from tests.actors.world import (
    DESTRUCTIVE,
    HARMLESS,
    READ_ONLY,
    World,
    after,
    answer,
    call,
    code_of,
    events,
    llm,
    never,
    parallel,
    say,
    types,
    use,
)
from tests.runtime.journal.kept import intents_of


async def slow(_: Mapping[str, Any]) -> str:
    await trio.sleep(3)
    return "slow ok"


async def test_while_draining_every_command_is_refused_and_reads_go_on(
    world: World, autojump_clock: MockClock
) -> None:
    world.tool("wipe", DESTRUCTIVE)
    world.plan("agent", use(call("wipe")), say("done"))
    async with world.agent() as agent:
        turn = await agent.start_conversation("go")
        id, [question] = turn.conversation.id, turn.conversation.head.pending
        await agent.drain(10)
        for command in (
            agent.start_conversation("hi"),
            agent.send(id, "hi"),
            agent.decide(question, {"approved": True}),
            agent.cancel(id),
            agent.complete(id),
            agent.delete(id),
            agent.resume(id, token="t"),
        ):
            with pytest.raises(AgentError) as caught:
                await command
            assert (caught.value.code, caught.value.details["accepted"]) == ("shutting_down", False)
        assert (await agent.get(id)).head.status == "waiting_approval"
        assert (await agent.approval(question)).state == "pending"
        assert not agent.health().ready


async def test_a_call_in_flight_finishes_and_nothing_new_starts(
    world: World, autojump_clock: MockClock
) -> None:
    world.settings["mcp_servers"] = [{"name": "tools", "command": "none", "max_concurrency": 1}]
    world.tool("slow", HARMLESS, slow)
    world.plan("agent", use(call("slow"), call("slow"), call("slow"), call("slow")), say("done"))
    errors: list[AgentError] = []
    async with world.agent() as agent:

        async def start() -> None:
            with pytest.raises(AgentError) as caught:
                await agent.start_conversation("go", key="k")
            errors.append(caught.value)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(start)
            await trio.sleep(1)
            begun = trio.current_time()
            await agent.drain(10)
            # It waited for the call, and not for the calls that stood behind it.
            assert trio.current_time() - begun == pytest.approx(2)
    assert [(error.code, error.details["accepted"]) for error in errors] == [("shutting_down", True)]
    assert world.called("slow") == 1
    [item] = (await world.journal.list()).rows
    log = await types(world.journal, item.stream)
    assert log.count("tool.started") == log.count("tool.finished") == 1
    assert "run.finished" not in log
    assert "run.cancelled" not in log
    async with world.agent() as agent:
        assert answer(await agent.start_conversation("go", key="k")).response == "done"
    assert world.called("slow") == 4
    assert len(world.requests) == 2


async def test_a_model_call_in_flight_is_recorded_and_its_tool_calls_wait(
    world: World, autojump_clock: MockClock
) -> None:
    world.tool("put", HARMLESS)
    world.plan("agent", after(3, use(call("put"))), say("done"))
    async with world.agent() as agent:
        with trio.move_on_after(1):
            await agent.start_conversation("go", key="k")
        await agent.drain(10)
        assert world.ledger == []
    async with world.agent() as agent:
        assert answer(await agent.start_conversation("go", key="k")).response == "done"
    assert len(world.requests) == 2  # the reply was not asked for twice
    assert world.called("put") == 1


@pytest.mark.parametrize(
    ("hints", "rules"),
    [(DESTRUCTIVE, {}), (HARMLESS, {"rules": [{"tool": "wipe", "then": "ask"}]})],
    ids=["destructive", "only approved"],
)
async def test_call_that_outlasts_the_grace_asks_at_the_next_start(
    world: World, autojump_clock: MockClock, hints: Hints, rules: dict[str, Any]
) -> None:
    world.settings |= {"shutdown_grace": 4, "approval": {"unannotated": "run", **rules}}
    world.tool("wipe", hints, never)
    world.plan("agent", use(call("wipe")), say("done"))
    async with world.agent() as agent:
        turn = await agent.start_conversation("go")
        [question] = turn.conversation.head.pending
        await agent.post_decision(question, {"approved": True}, key="d")
        await trio.sleep(1)
        begun = trio.current_time()
    assert trio.current_time() - begun == 3  # the last second is for what follows the cancellation
    async with world.agent() as agent:
        turn = await agent.decide(question, {"approved": True}, key="d")
        assert answer(turn).state == "waiting"
        [unknown] = turn.conversation.head.pending
        asked = await agent.approval(unknown)
        assert asked.kind == "outcome_unknown"
        assert asked.body["tool_name"] == "wipe"
        response = answer(turn).response
        assert response == f"{asked.body['description']}\n\nPlease answer using the approval UUID: {unknown}"
        assert world.called("wipe") == 1  # never sent again by itself
        for words in ({"approved": True}, {"answer": "yes"}):
            assert await code_of(agent.decide(unknown, words)) == "decision_required"
        turn = await agent.decide(unknown, {"action": "done", "result": "it was done"})
        assert answer(turn).response == "done"
    assert world.requests[-1].messages[-1].content == "it was done"  # type: ignore[union-attr]
    assert world.called("wipe") == 1


@pytest.mark.parametrize(("action", "calls"), [("retry", 2), ("failed", 1), ("done", 1)])
async def test_decisions_about_an_unknown_outcome(
    world: World, autojump_clock: MockClock, action: str, calls: int
) -> None:
    async def lost(_: Mapping[str, Any]) -> str:
        if world.called("wipe") == 1:
            raise ToolOutcomeUnknown("the connection was lost")
        return "wiped"

    world.tool("wipe", DESTRUCTIVE, lost)
    world.plan("agent", use(call("wipe")), say("done"))
    async with world.agent() as agent:
        turn = await agent.start_conversation("go")
        turn = await agent.decide(turn.conversation.head.pending[0], {"approved": True})
        assert answer(turn).state == "waiting"
        [unknown] = turn.conversation.head.pending
        assert "connection was lost" in (await agent.approval(unknown)).body["description"]
        turn = await agent.decide(unknown, {"action": action, "reason": "I looked"})
        assert answer(turn).response == "done"
        attempts = [i.attempt for i in await intents_of(world.journal, turn.conversation.id)]
        assert len(turn.conversation.approvals) == 2  # a retry needs no second approval
    assert world.called("wipe") == calls
    assert attempts == list(range(1, calls + 1))
    last = world.requests[-1].messages[-1]
    assert last.is_error == (action == "failed")  # type: ignore[union-attr]
    if action == "failed":
        assert "I looked" in last.content  # type: ignore[union-attr]


async def test_lost_unapproved_call_is_reported_to_the_model(world: World, autojump_clock: MockClock) -> None:
    world.tool("put", HARMLESS, ToolOutcomeUnknown("it timed out"))
    world.plan("agent", use(call("put")), say("done"))
    async with world.agent() as agent:
        turn = await agent.start_conversation("go")
        assert answer(turn).response == "done"
        assert turn.conversation.approvals == {}
    assert world.called("put") == 1
    assert "unknown" in world.requests[-1].messages[-1].content  # type: ignore[union-attr]


async def test_a_read_that_is_lost_may_be_sent_again(world: World, autojump_clock: MockClock) -> None:
    async def lost_once(_: Mapping[str, Any]) -> str:
        if world.called("look") == 1:
            raise ToolOutcomeUnknown("it timed out")
        return "seen"

    world.tool("look", READ_ONLY, lost_once)
    world.plan("agent", use(call("look")), say("done"))
    async with world.agent() as agent:
        assert answer(await agent.start_conversation("go")).response == "done"
    assert world.called("look") == 2
    assert world.requests[-1].messages[-1].content == "seen"  # type: ignore[union-attr]


async def test_draining_at_the_very_moment_of_a_command(world: World, autojump_clock: MockClock) -> None:
    """Whatever the order: refused, or accepted and carried out by the next life; nobody waits for ever."""
    for ticks in range(12):
        key = f"k{ticks}"
        outcomes: list[bool] = []
        async with world.agent() as agent:

            async def start(key: str = key, outcomes: list[bool] = outcomes) -> None:
                try:
                    await agent.start_conversation("go", key=key)
                except AgentError as error:
                    outcomes.append(error.code == "shutting_down" and error.details["accepted"])
                else:
                    outcomes.append(True)

            async with trio.open_nursery() as nursery:
                nursery.start_soon(start)
                for _ in range(ticks):
                    await trio.lowlevel.checkpoint()
                await agent.drain(0)
        before = {row.stream for row in (await world.journal.list()).rows}
        async with world.agent() as agent:
            await trio.sleep(5)
            after_ = {item.id: item for item in (await agent.conversations()).conversations}
            assert len(after_) - len(before) in (0, 1)
            for item in after_.values():
                assert item.head.run is not None
                assert item.head.run.state == "finished"
            asked = len(world.requests)
            turn = await agent.start_conversation("go", key=key)
            assert (turn.conversation.id in after_) == outcomes[0]
            assert len(world.requests) == asked + (not outcomes[0])


# ----------------------------------------------------------------------- starting again


async def interrupted(world: World, count: int) -> None:
    """Conversations whose first run was going on when the process ended."""

    async def wait(_: Any) -> Any:
        await trio.sleep_forever()

    world.plan("agent", wait)
    async with world.agent() as agent:
        for _ in range(count):
            await agent.post_conversation("go")
        await trio.testing.wait_all_tasks_blocked()
        await agent.drain(0)
    world.requests.clear()


async def accepted(world: World, count: int) -> None:
    """Conversations whose first command was on disk when the process ended, and nothing else."""
    for number in range(count):
        body = {"message": "go", "session_id": None, "token": False}
        await world.journal.deliver(NewCommand(f"c-{number}", "k", "create", body, new=True))


@pytest.mark.parametrize("left_open", [interrupted, accepted])
async def test_a_start_resumes_thirty_two_at_a_time(
    world: World, autojump_clock: MockClock, left_open: Callable[[World, int], Awaitable[None]]
) -> None:
    await left_open(world, 80)
    now = most = 0

    async def busy(_: Any) -> Any:
        nonlocal now, most
        now += 1
        most = max(most, now)
        await trio.sleep(1)
        now -= 1
        return say("done")

    world.plan("agent", busy)
    async with world.agent() as agent:
        await trio.sleep(30)
        page = await agent.conversations(limit=200)
    assert len(page.conversations) == 80
    assert {item.head.run.state for item in page.conversations if item.head.run} == {"finished"}
    assert most == 32


async def test_start_does_not_wake_conversations_with_approvals(
    world: World, autojump_clock: MockClock
) -> None:
    world.tool("wipe", DESTRUCTIVE)
    world.plan("agent", use(call("wipe")), say("done"))
    async with world.agent() as agent:
        ids = [(await agent.start_conversation("go")).conversation.id for _ in range(3)]
    async with world.agent() as agent:
        for _ in range(20):
            await trio.lowlevel.checkpoint()
            assert not agent._cast.conversations.active
        for id in ids:
            turn = await agent.decide((await agent.get(id)).head.pending[0], {"approved": True})
            assert answer(turn).response == "done"


async def test_a_run_in_the_middle_of_branches_goes_on_where_it_was(
    world: World, autojump_clock: MockClock
) -> None:
    world.tool("put", HARMLESS)
    world.settings["agent"] = parallel("fan", llm("a"), llm("b"))
    world.plan("a", use(call("put", n=1)), say("A"))
    world.plan("b", after(20, use(call("put", n=2))), say("B"))
    async with world.agent() as agent:
        with trio.move_on_after(1):
            await agent.start_conversation("go", key="k")
        await agent.drain(0)
    async with world.agent() as agent:
        assert answer(await agent.start_conversation("go", key="k")).response == "A\nB"
    assert sorted(arguments["n"] for _, arguments in world.ledger) == [1, 2]
    assert len(world.asked("a")) == 2


async def test_an_idle_conversation_leaves_memory_and_comes_back(
    world: World, autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    world.tool("wipe", DESTRUCTIVE)
    world.plan("agent", use(call("wipe")), say("done"))
    async with world.agent() as agent:
        turn = await agent.start_conversation("go")
        [question] = turn.conversation.head.pending
        assert agent._cast.conversations.active == 1
        await trio.sleep(10)
        assert not agent._cast.conversations.active
        assert answer(await agent.decide(question, {"approved": True})).response == "done"
        await trio.sleep(10)
        assert not agent._cast.conversations.active
        assert agent._cast.services.logs.active_runs.count == 0
        assert not agent._cast.services.logs.live
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]


async def test_a_working_conversation_does_not_leave_memory(world: World, autojump_clock: MockClock) -> None:
    world.plan("agent", after(50, say("late")))
    async with world.agent() as agent:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(agent.start_conversation, "go")
            await trio.sleep(40)
            assert agent._cast.conversations.active == 1
        assert len(world.requests) == 1


@pytest.mark.repeat(10)
async def test_a_decision_as_the_actor_leaves(world: World, autojump_clock: MockClock) -> None:
    world.tool("wipe", DESTRUCTIVE)
    world.plan("agent", use(call("wipe")), say("done"))
    async with world.agent() as agent:
        turn = await agent.start_conversation("go")
        [question] = turn.conversation.head.pending
        await trio.sleep(1.0)  # to the tick when it has been idle long enough
        turn = await agent.decide(question, {"approved": True})
        assert answer(turn).response == "done"
        log = await events(world.journal, turn.conversation.id)
    assert [e.type for e in log].count("approval.resolved") == 1
    assert world.called("wipe") == 1


async def test_command_during_shutdown_waits_for_the_next_start(
    world: World, autojump_clock: MockClock
) -> None:
    async with world.agent() as agent:
        id = (await agent.start_conversation("first")).conversation.id
        agent.draining.set()
        await world.journal.deliver(NewCommand(id, "m", "message", {"message": "second", "token": False}))
        agent._cast.services.wake(id)
        await trio.sleep(1)
        assert [command.key for command in await world.journal.inbox(id)] == ["m"]
    async with world.agent() as agent:
        await trio.sleep(1)
        assert await world.journal.inbox(id) == ()
        run = (await agent.get(id)).head.run
        assert run is not None
        assert (run.turn, run.state) == (2, "finished")
