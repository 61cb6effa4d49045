"""Cancel, complete and delete, in every state a conversation can be in."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import pytest
import trio
import trio.testing
from trio.testing import MockClock

from stopgo.actors.agent.agent import Agent
from stopgo.actors.common.errors import AgentError
from stopgo.actors.log.fold.past import NOT_SENT
from stopgo.actors.log.fold.state import fold
from stopgo.runtime.journal.memory.memory_journal import MemoryJournal
from stopgo.runtime.journal.protocol import Commit, Saved
from stopgo.runtime.journal.summary import Row
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
    sequential,
    types,
    use,
    wall,
)
from tests.runtime.journal.kept import intents_of

STATES = ["new", "model", "tool", "waiting", "parked", "finished", "failed", "cancelled"]


async def reach(world: World, agent: Agent, state: str, nursery: trio.Nursery) -> str:
    """A conversation in a state; its first client waits in the nursery, if it has to wait."""
    world.plan("agent", say("ok"))
    steps: dict[str, Any] = {
        "model": [after(30, say("late"))],
        "tool": [use(call("slow"))],
        "waiting": [use(call("wipe"))],
        "parked": [use(call("wipe"))],
        "failed": [ValueError("broken")],
        "cancelled": [use(call("wipe"))],
    }
    if state in steps:
        world.plan("agent", *steps[state], say("done"), turn=1)
    id = (await agent.start_conversation()).conversation.id
    if state != "new":
        nursery.start_soon(send, agent, id)
        await trio.sleep(0.5)
    if state == "parked":
        await trio.sleep(30)
    if state == "cancelled":
        await agent.cancel(id)
    return id


async def send(agent: Agent, id: str) -> None:
    with suppress(AgentError):  # whoever waits for a conversation that is deleted is told so
        await agent.send(id, "go")


async def slow(_: Mapping[str, Any]) -> str:
    await trio.sleep(3)
    return "slow ok"


@pytest.mark.parametrize("state", STATES)
async def test_cancel_in_every_state(world: World, autojump_clock: MockClock, state: str) -> None:
    world.tool("slow", HARMLESS, slow)
    world.tool("wipe", DESTRUCTIVE)
    async with world.agent() as agent, trio.open_nursery() as nursery:
        id = await reach(world, agent, state, nursery)
        question = next(iter((await agent.get(id)).head.pending), None)
        turn = await agent.cancel(id, key="c")
        head = turn.conversation.head
        assert head.status == "active"
        assert head.pending == ()
        live = state in ("model", "tool", "waiting", "parked")
        if live:
            assert answer(turn).state == "cancelled"
            assert head.run is not None
            assert head.run.state == "cancelled"
        if question is not None:
            assert (await agent.approval(question)).state == "void"
            with pytest.raises(AgentError) as caught:
                await agent.decide(question, {"approved": True})
            assert caught.value.code == "void"
            assert caught.value.hint == "The run or the call that it was about has ended."
        log = await types(world.journal, id)
        assert log.count("run.cancelled") == (live or state == "cancelled")
        assert world.called("wipe") == 0
        # It goes on with the next message, and cancelling again does nothing.
        await agent.cancel(id)
        assert answer(await agent.send(id, "next")).response == "ok"
        assert answer(await agent.send(id, "next")).state == "finished"


async def test_call_in_flight_gets_five_seconds_on_cancel(world: World, autojump_clock: MockClock) -> None:
    world.tool("slow", HARMLESS, slow)
    world.plan("agent", use(call("slow")), say("never"))
    async with world.agent() as agent, trio.open_nursery() as nursery:
        nursery.start_soon(agent.start_conversation, "go")
        await trio.sleep(1)
        [item] = (await agent.conversations()).conversations
        start = trio.current_time()
        turn = await agent.cancel(item.id)
        assert trio.current_time() - start == pytest.approx(2)
        log = await types(world.journal, item.id)
        assert log[-2:] == ["tool.finished", "run.cancelled"]
        assert [m.call.result for m in turn.conversation.messages if m.call] == ["slow ok"]


async def test_cancelled_call_without_result_is_unknown_unasked(
    world: World, autojump_clock: MockClock
) -> None:
    world.tool("wipe", DESTRUCTIVE, never)
    world.plan("agent", use(call("wipe")), say("never"), turn=1)
    async with world.agent() as agent, trio.open_nursery() as nursery:
        id = (await agent.start_conversation("go")).conversation.id
        [question] = (await agent.get(id)).head.pending
        nursery.start_soon(agent.decide, question, {"approved": True})
        await trio.sleep(1)
        start = trio.current_time()
        turn = await agent.cancel(id)
        assert trio.current_time() - start == pytest.approx(5)
        log = await types(world.journal, id)
        assert log[-2:] == ["tool.unknown", "run.cancelled"]
        assert len(turn.conversation.approvals) == 1
        [intent] = await intents_of(world.journal, id)
        assert (intent.effect, intent.state) == ("once", "unknown")
        await agent.send(id, "next")
    assert world.called("wipe") == 1


async def test_queued_call_of_a_cancelled_run_is_not_sent(world: World, autojump_clock: MockClock) -> None:
    world.tool("wipe", DESTRUCTIVE)
    world.out_of_reach = 4
    world.plan("agent", use(call("wipe")), say("never"), turn=1)
    async with world.agent() as agent, trio.open_nursery() as nursery:
        id = (await agent.start_conversation("go")).conversation.id
        [question] = (await agent.get(id)).head.pending
        nursery.start_soon(agent.decide, question, {"approved": True})
        await trio.sleep(1)
        start = trio.current_time()
        turn = await agent.cancel(id)
        assert trio.current_time() == start
        assert (await types(world.journal, id))[-2:] == ["tool.finished", "run.cancelled"]
        [shown] = [message.call for message in turn.conversation.messages if message.call]
        assert (shown.state, shown.result, shown.is_error) == ("finished", NOT_SENT, True)
        [intent] = await intents_of(world.journal, id)
        assert intent.state == "finished"
        await trio.sleep(10)
    assert world.called("wipe") == 0


async def test_cancel_while_an_intent_is_saved_sends_nothing(
    world: World, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.tool("wipe", DESTRUCTIVE)
    world.plan("agent", use(call("wipe")), say("never"), turn=1)
    save = world.journal.save

    async def slow_disk(commit: Commit) -> Saved:
        with trio.CancelScope(shield=True):  # a commit is never cancelled half-way
            saved = await save(commit)
            await trio.sleep(2 if commit.intents else 0)
        return saved

    monkeypatch.setattr(world.journal, "save", slow_disk)
    async with world.agent() as agent, trio.open_nursery() as nursery:
        id = (await agent.start_conversation("go")).conversation.id
        [question] = (await agent.get(id)).head.pending
        nursery.start_soon(agent.decide, question, {"approved": True})
        await trio.sleep(1)
        turn = await agent.cancel(id)
        log = await types(world.journal, id)
        assert log[-3:] == ["tool.started", "tool.finished", "run.cancelled"]
        assert [m.call.result for m in turn.conversation.messages if m.call] == [NOT_SENT]
    assert world.called("wipe") == 0


@pytest.mark.repeat(2)
@pytest.mark.parametrize("ticks", range(0, 66, 2))
async def test_cancel_at_any_moment(world: World, autojump_clock: MockClock, ticks: int) -> None:
    """Nothing is sent afterwards, nothing is left open, and the log can be folded."""
    world.tool("put", HARMLESS, slow)
    world.tool("look", READ_ONLY, slow)
    world.tool("wipe", DESTRUCTIVE, slow)
    world.settings["agent"] = sequential("root", parallel("fan", llm("a"), llm("b")), llm("c"))
    world.plan("a", use(call("put"), call("look")), turn=1)
    world.plan("b", use(call("wipe"), call("missing")), turn=1)
    async with world.agent() as agent:
        id = (await agent.start_conversation()).conversation.id
        async with trio.open_nursery() as nursery:
            nursery.start_soon(agent.send, id, "go")
            for _ in range(ticks):
                await trio.lowlevel.checkpoint()
            await agent.cancel(id)
            sent = len(world.ledger)
        await trio.sleep(30)
        if "run.cancelled" in await types(world.journal, id):  # else the message came after the cancel
            assert len(world.ledger) == sent
        assert all(intent.state != "started" for intent in await intents_of(world.journal, id))
        assert agent._cast.services.logs.active_runs.count == 0
        assert answer(await agent.send(id, "again")).response == "c done"
        assert fold(id, await events(world.journal, id)).live_run is None
        assert agent._cast.services.logs.active_runs.count == 0


# ------------------------------------------------------------------------------ complete


@pytest.mark.parametrize("state", STATES)
async def test_complete_in_every_state(world: World, autojump_clock: MockClock, state: str) -> None:
    world.tool("slow", HARMLESS, slow)
    world.tool("wipe", DESTRUCTIVE)
    async with world.agent() as agent, trio.open_nursery() as nursery:
        id = await reach(world, agent, state, nursery)
        if state in ("model", "tool", "waiting", "parked"):
            assert await code_of(agent.complete(id)) == "run_in_progress"
            await agent.cancel(id)
        turn = await agent.complete(id)
        assert turn.conversation.head.status == "completed"
        assert await code_of(agent.send(id, "more")) == "conversation_completed"
        await agent.complete(id)
        assert (await types(world.journal, id)).count("conversation.completed") == 1
        assert (await agent.conversations(status="completed")).conversations[0].id == id


# -------------------------------------------------------------------------------- delete


def everything(journal: Any) -> str:
    assert isinstance(journal, MemoryJournal)
    return repr(vars(journal)) + json.dumps([repr(stream) for stream in journal._streams.values()])


@pytest.mark.parametrize("state", STATES)
async def test_delete_in_every_state_leaves_nothing(
    world: World, autojump_clock: MockClock, state: str
) -> None:
    world.tool("slow", HARMLESS, slow)
    world.tool("wipe", DESTRUCTIVE)
    outcomes: list[str] = []
    async with world.agent() as agent:
        with trio.CancelScope() as scope:
            async with trio.open_nursery() as nursery:
                id = await reach(world, agent, state, nursery)
                question = next(iter((await agent.get(id)).head.pending), None)
                await agent.delete(id)
                assert id not in everything(world.journal)
                assert await code_of(agent.get(id)) == "conversation_not_found"
                with pytest.raises(AgentError):
                    await agent.delete(id)
                if question is not None:
                    assert await code_of(agent.approval(question)) == "approval_not_found"
                sent = len(world.ledger)
                await trio.sleep(60)
                assert len(world.ledger) == sent
                assert id not in everything(world.journal)
                assert not agent._cast.conversations.active
                outcomes.append("ok")
                scope.cancel()
    assert outcomes == ["ok"]
    async with world.agent() as agent:
        assert (await agent.conversations()).conversations == ()


async def test_waiting_sender_gets_an_error_on_delete(world: World, autojump_clock: MockClock) -> None:
    world.plan("agent", after(30, say("late")))
    outcomes: list[str] = []
    async with world.agent() as agent:
        id = (await agent.start_conversation()).conversation.id

        async def send(text: str) -> None:
            try:
                outcomes.append(answer(await agent.send(id, text)).state)
            except AgentError as error:
                outcomes.append(error.code)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(send, "running")
            await trio.sleep(1)
            nursery.start_soon(send, "queued")
            await trio.sleep(1)
            await agent.delete(id)
    assert set(outcomes) <= {"cancelled", "conversation_not_found"}
    assert len(outcomes) == 2


@pytest.mark.repeat(3)
@pytest.mark.parametrize("ticks", range(24))
async def test_concurrent_message_and_delete_both_end(
    world: World, autojump_clock: MockClock, ticks: int
) -> None:
    outcomes: list[str] = []
    async with world.agent() as agent:
        id = (await agent.start_conversation(key="k")).conversation.id

        async def send() -> None:
            try:
                outcomes.append(answer(await agent.send(id, "hi")).state)
            except AgentError as error:
                outcomes.append(error.code)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(agent.delete, id)
            for _ in range(ticks):
                await trio.lowlevel.checkpoint()
            nursery.start_soon(send)
        assert set(outcomes) <= {"finished", "cancelled", "conversation_not_found"}
        assert len(outcomes) == 1
        assert id not in everything(world.journal)
        # Whatever its actor still does, a conversation made anew is heard.
        await agent.start_conversation(key="k")


class DeletedAfterRow(MemoryJournal):
    """The conversation is deleted after its row was read and before its events are."""

    agent: Agent | None = None

    async def row(self, stream: str) -> Row | None:
        found = await super().row(stream)
        if self.agent is not None:
            agent, self.agent = self.agent, None
            await agent.delete(stream)
        return found


async def test_reader_gets_an_error_if_deleted_meanwhile(world: World, autojump_clock: MockClock) -> None:
    journal = world.journal = DeletedAfterRow(wall)
    async with world.agent() as agent:
        id = (await agent.start_conversation("hi")).conversation.id
        await trio.sleep(60)  # it has left memory
        journal.agent = agent
        assert await code_of(agent.get(id)) == "conversation_not_found"


@pytest.mark.repeat(10)
async def test_concurrent_deletes_both_succeed(world: World, autojump_clock: MockClock) -> None:
    async with world.agent() as agent:
        id = (await agent.start_conversation("hi")).conversation.id
        errors = []

        async def delete() -> None:
            try:
                await agent.delete(id)
            except AgentError as error:
                errors.append(error.code)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(delete)
            nursery.start_soon(delete)
    assert set(errors) <= {"conversation_not_found"}
    assert len(errors) < 2


async def test_deleted_conversation_can_be_recreated_with_its_key(
    world: World, autojump_clock: MockClock
) -> None:
    async with world.agent() as agent:
        first = await agent.start_conversation("hi", key="k")
        await agent.delete(first.conversation.id)
        again = await agent.start_conversation("hi", key="k")
    assert again.conversation.id == first.conversation.id
    assert len(world.requests) == 2


@pytest.mark.repeat(10)
async def test_concurrent_decision_and_cancel(world: World, autojump_clock: MockClock) -> None:
    """The second command is refused; a call that was approved too late is not sent."""
    world.tool("wipe", DESTRUCTIVE)
    world.plan("agent", use(call("wipe")), say("done"), turn=1)
    outcomes: list[str] = []
    async with world.agent() as agent:
        turn = await agent.start_conversation("go")
        [question] = turn.conversation.head.pending
        id = turn.conversation.id

        async def decide() -> None:
            try:
                outcomes.append(answer(await agent.decide(question, {"approved": True})).state)
            except AgentError as error:
                outcomes.append(error.code)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(decide)
            nursery.start_soon(agent.cancel, id)
        await trio.sleep(30)
        state = (await agent.approval(question)).state
        conversation = await agent.get(id)
        assert conversation.approvals[question].state == state
        assert conversation.head.run is not None
        assert conversation.head.run.state in ("cancelled", "finished")
        assert state == ("void" if outcomes == ["void"] else "decided")
        [call_] = [m.call for m in conversation.messages if m.call]
        assert (call_.state in ("finished", "unknown", "started")) == (world.called("wipe") == 1)
        assert answer(await agent.send(id, "next")).state == "finished"
