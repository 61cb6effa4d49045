"""A conversation that cannot continue: its commands are refused, and others work."""

from __future__ import annotations

import logging
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from stopgo.actors.agent.agent import Agent
from stopgo.actors.common.errors import AgentError
from stopgo.actors.log.words import events as e
from stopgo.actors.log.writer.topics import ReplyTopic
from stopgo.actors.nodes import llm as module
from stopgo.runtime.journal.errors import JournalError
from stopgo.runtime.journal.memory.memory_journal import MemoryJournal
from stopgo.runtime.journal.protocol import Commit, NewCommand, NewEvent, Saved
from stopgo.runtime.journal.summary import Summary
from tests.actors.world import (
    DESTRUCTIVE,
    HARMLESS,
    World,
    after,
    answer,
    call,
    code_of,
    events,
    say,
    sequential,
    types,
    use,
    wall,
)
from tests.runtime.journal.kept import claimed


async def write(world: World, id: str, *new: NewEvent, summary: Summary | None = None) -> None:
    """Write an event that no version of this code would write."""
    fence = await claimed(world.journal, id)
    last = len(await world.journal.events_since(id, 0))
    await world.journal.save(Commit(fence, last, new, summary=summary))


# --------------------------------------------------------------------- it cannot be read


BROKEN = [
    NewEvent("tool.finished", {"key": "1/:1.0", "attempt": 1, "result": {"content": "", "is_error": False}}),
    NewEvent("run.finished", {"run": "r", "text": "t", "settles": []}),
    NewEvent("approval.resolved", {"id": "x", "decision": {}, "command": "k", "token": False}),
    NewEvent("message.added", {}),
    NewEvent("message.added", {"text": 7, "command": "k"}),
    NewEvent("message.added", {"text": None, "command": "k"}),
    NewEvent("run.started", {"run": "r"}),
    NewEvent("step.finished", {"key": "1/:1", "kind": "model"}),
]


@pytest.mark.parametrize("event", BROKEN, ids=lambda event: event.type)
async def test_contradictory_log_is_refused_and_others_work(
    world: World, autojump_clock: MockClock, event: NewEvent, caplog: pytest.LogCaptureFixture
) -> None:
    async with world.agent() as agent:
        sound = (await agent.start_conversation("sound")).conversation.id
        broken = (await agent.start_conversation(key="k")).conversation.id
    await write(world, broken, event)
    async with world.agent() as agent:
        assert await code_of(agent.get(broken)) == "conversation_broken"
        assert await code_of(agent.send(broken, "one")) == "conversation_broken"
        assert await code_of(agent.send(broken, "two", token="secret")) == "conversation_broken"  # at once
        await trio.sleep(60)
        assert await code_of(agent.send(broken, "three")) == "conversation_broken"  # after a while
        assert answer(await agent.send(sound, "more")).state == "finished"
        listed = {item.id for item in (await agent.conversations()).conversations}
        assert listed == {sound, broken}
        listed = {item.id for item in (await agent.conversations(full=True)).conversations}
        assert sound in listed  # one that cannot be shown in full hides no other
        assert await world.journal.inbox(broken) == ()
        assert not agent._cast.services.tokens._tokens
        assert agent.health().ready
        last = (await events(world.journal, broken))[-1]
        assert last.type == event.type  # it stays as it is
        await agent.delete(broken)
        assert await code_of(agent.get(broken)) == "conversation_not_found"
        assert answer(await agent.start_conversation("anew", key="k")).state == "finished"
    assert f"conversation {broken} is broken: event " in caplog.text


async def test_an_event_of_a_newer_version_makes_a_conversation_read_only(
    world: World, autojump_clock: MockClock
) -> None:
    async with world.agent() as agent:
        turn = await agent.start_conversation("one")
    id = turn.conversation.id
    await write(world, id, NewEvent("branch.merged", {"anything": [1]}))
    async with world.agent() as agent:
        conversation = await agent.get(id)
        assert conversation.read_only
        assert [m.content for m in conversation.messages] == ["You help.", "one", "agent done"]
        for command in (agent.send(id, "two"), agent.complete(id), agent.cancel(id)):
            assert await code_of(command) == "conversation_read_only"
        assert conversation.last_seq == (await agent.get(id)).last_seq
        await agent.delete(id)
        assert await code_of(agent.get(id)) == "conversation_not_found"
    assert len(world.requests) == 1


async def test_unknown_command_is_refused(world: World, autojump_clock: MockClock) -> None:
    async with world.agent() as agent:
        id = (await agent.start_conversation("one")).conversation.id
        with agent._cast.services.logs.bus.subscribe(ReplyTopic(id, "k")) as replies:
            await world.journal.deliver(NewCommand(id, "k", "dance", {}))
            agent._cast.services.wake(id)
            refused: Any = await anext(replies)
        assert refused["error"]["code"] == "invalid_request"
        assert "dance" in refused["error"]["message"]
        assert answer(await agent.send(id, "two")).response == "agent done"
        assert await world.journal.inbox(id) == ()


async def test_a_run_with_an_event_of_a_newer_version_does_not_go_on(
    world: World, autojump_clock: MockClock
) -> None:
    """Continuing without understanding an event could repeat or undo work."""
    world.tool("put", HARMLESS)
    world.plan("agent", after(20, use(call("put"))), say("done"))
    async with world.agent() as agent:
        with trio.move_on_after(1):
            await agent.start_conversation("go", key="k")
        await agent.drain(0)
        [row] = (await world.journal.list()).rows
    world.requests.clear()
    await write(world, row.stream, NewEvent("branch.merged", {}))
    before = await types(world.journal, row.stream)
    async with world.agent() as agent:
        await trio.sleep(100)
        assert (await agent.get(row.stream)).read_only
        assert await code_of(agent.send(row.stream, "hello")) == "conversation_read_only"
        assert await types(world.journal, row.stream) == before
        await agent.delete(row.stream)
        assert await types(world.journal, row.stream) == []
    assert world.requests == []
    assert world.ledger == []


async def test_a_decision_in_a_read_only_conversation_waits_for_the_newer_version(
    world: World, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.tool("wipe", DESTRUCTIVE)
    world.plan("agent", use(call("wipe")), say("done"))
    async with world.agent() as agent:
        turn = await agent.start_conversation("go")
    id, [question] = turn.conversation.id, turn.conversation.head.pending
    await write(world, id, NewEvent("branch.merged", {}))
    async with world.agent() as agent:
        refused = agent.decide(question, {"approved": True}, key="d", token="secret")
        assert await code_of(refused) == "conversation_read_only"
        assert not agent._cast.services.tokens._tokens
        assert await code_of(agent.decide(question, {"approved": False})) == "already_decided"
        await trio.sleep(60)
        repeated = agent.decide(question, {"approved": True}, key="d", token="secret")
        assert await code_of(repeated) == "conversation_read_only"
    assert world.ledger == []
    # It was the first decision, so it is the one that counts.
    monkeypatch.setattr(e, "TYPES", {**e.TYPES, "branch.merged": e.ConversationCompleted})
    async with world.agent() as agent:
        await trio.sleep(60)
        assert (await agent.get(id)).messages[-1].content == "done"
    assert world.called("wipe") == 1


# ------------------------------------------------------------------- it crashes as it works


class Failing(MemoryJournal):
    """A journal that fails to save certain events, or refusals, a number of times."""

    def __init__(self) -> None:
        super().__init__(wall)
        self.fails: dict[str, tuple[str, int]] = {}

    async def save(self, commit: Commit) -> Saved:
        type, left = self.fails.get(commit.fence.stream, ("", 0))
        written = [*(event.type for event in commit.events), *(["refusal"] if commit.refuse else [])]
        if left and type in written:
            self.fails[commit.fence.stream] = (type, left - 1)
            await trio.lowlevel.checkpoint()
            raise JournalError("this row is cursed")
        return await super().save(commit)


@pytest.fixture
def failing(world: World) -> Failing:
    world.journal = journal = Failing()
    return journal


async def begin(agent: Agent, failing: Failing, type: str, times: int) -> str:
    id = (await agent.start_conversation()).conversation.id
    failing.fails[id] = (type, times)
    return id


@pytest.mark.parametrize("type", ["message.added", "step.finished", "tool.started", "run.finished"])
async def test_occasional_crashes_are_survived(
    world: World, autojump_clock: MockClock, failing: Failing, type: str
) -> None:
    world.tool("put", HARMLESS)
    world.plan("agent", use(call("put")), say("done"))
    async with world.agent() as agent:
        id = await begin(agent, failing, type, 2)
        assert answer(await agent.send(id, "go")).response == "done"
        assert world.called("put") == 1
        assert [*await types(world.journal, id)].count("run.finished") == 1
        await trio.sleep(10)
        assert agent._cast.services.logs.active_runs.count == 0


async def test_run_that_always_crashes_is_failed(
    world: World, autojump_clock: MockClock, failing: Failing, caplog: pytest.LogCaptureFixture
) -> None:
    world.tool("put", HARMLESS)
    world.plan("agent", use(call("put")), say("done"), turn=1)
    world.plan("agent", say("second"), turn=2)
    async with world.agent() as agent:
        id = await begin(agent, failing, "tool.started", 1000)
        other = (await agent.start_conversation("other")).conversation.id
        async with trio.open_nursery() as nursery:
            nursery.start_soon(agent.send, other, "meanwhile")
            result = answer(await agent.send(id, "go"))
        assert (result.state, result.code) == ("failed", "internal_error")
        error_id = result.response.rstrip(".").split()[-1]
        assert any(error_id in record.getMessage() for record in caplog.records)
        assert "cursed" not in result.response  # an id, never what the code tripped over
        assert "tool.started" not in await types(world.journal, id)
        assert answer(await agent.send(id, "next")).response == "second"
        assert (await agent.get(other)).messages[-1].role == "assistant"


async def test_a_command_that_always_crashes_is_refused(
    world: World, autojump_clock: MockClock, failing: Failing
) -> None:
    async with world.agent() as agent:
        id = await begin(agent, failing, "message.added", 1000)
        with pytest.raises(AgentError):
            await agent.send(id, "cursed")
        failing.fails.clear()
        turn = await agent.send(id, "fine")
        assert [m.content for m in turn.conversation.messages if m.role == "user"][-1] == "fine"


async def test_a_conversation_that_was_given_up_survives_the_next_crash(
    world: World, autojump_clock: MockClock, failing: Failing
) -> None:
    world.plan("agent", say("second"), turn=2)
    async with world.agent() as agent:
        id = await begin(agent, failing, "step.finished", 1000)
        assert answer(await agent.send(id, "go")).code == "internal_error"
        failing.fails[id] = ("step.finished", 1)  # before it has left memory
        assert answer(await agent.send(id, "next")).response == "second"


async def test_message_behind_a_failed_run_gets_its_own_run(
    world: World, autojump_clock: MockClock, failing: Failing
) -> None:
    world.tool("put", HARMLESS)
    world.plan("agent", after(5, use(call("put"))), turn=1)
    world.plan("agent", say("second"), turn=2)
    async with world.agent() as agent:
        id = await begin(agent, failing, "tool.started", 1000)
        await agent.post(id, "go")
        await trio.sleep(1)
        assert (await types(world.journal, id))[-1] == "run.started"
        assert answer(await agent.send(id, "next")).response == "second"
    assert (await types(world.journal, id)).count("run.failed") == 1


async def test_a_conversation_that_crashes_as_it_begins_fails_its_first_run(
    world: World, autojump_clock: MockClock, failing: Failing
) -> None:
    world.plan("agent", say("never said"), turn=1)
    id = "first"
    failing.fails[id] = ("step.finished", 1000)
    async with world.agent() as agent:
        assert answer(await agent.start_conversation("go", id=id)).code == "internal_error"
    begun = ["conversation.created", "message.added", "run.started", "run.failed"]
    assert [*await types(world.journal, id)] == begun


@pytest.mark.parametrize("last", [NewEvent("conversation.completed", {}), NewEvent("branch.merged", {})])
async def test_no_run_starts_for_a_command_that_takes_no_message(
    world: World, autojump_clock: MockClock, failing: Failing, last: NewEvent
) -> None:
    async with world.agent() as agent:
        id = (await agent.start_conversation("one")).conversation.id
    await write(world, id, last)
    failing.fails[id] = ("refusal", 3)
    async with world.agent() as agent:
        assert await code_of(agent.send(id, "two")) == "internal_error"
    assert (await types(world.journal, id))[-1] == last.type


async def test_read_only_run_is_not_failed_after_crashes(
    world: World, autojump_clock: MockClock, failing: Failing
) -> None:
    world.plan("agent", after(20, say("done")))
    async with world.agent() as agent:
        id = (await agent.post_conversation("one")).conversation.id
        await trio.sleep(1)
        await agent.drain(0)
    await write(world, id, NewEvent("branch.merged", {}))
    failing.fails[id] = ("refusal", 3)
    async with world.agent() as agent:
        assert await code_of(agent.send(id, "two")) == "internal_error"
    assert (await types(world.journal, id))[-1] == "branch.merged"


async def test_a_node_that_crashes_is_an_internal_error_with_an_id(
    world: World, autojump_clock: MockClock, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def bug(*_: Any) -> str:
        raise ZeroDivisionError("a bug with a secret in it")

    async with world.agent() as agent:
        with monkeypatch.context() as patch:
            patch.setattr(module, "fill", bug)
            turn = await agent.start_conversation("go")
        result = answer(turn)
        assert (result.state, result.code) == ("failed", "internal_error")
        assert "secret" not in result.response
        [record] = [
            r for r in caplog.records if r.levelno >= logging.ERROR and "internal error" in r.getMessage()
        ]
        assert record.getMessage().split()[2] in result.response
        assert turn.conversation.head.status == "active"
        assert answer(await agent.send(turn.conversation.id, "next")).response == "agent done"


# ------------------------------------------------------------------------ another's replay


REPLIED = {
    "key": "1/.0:1",
    "kind": "model",
    "node": "somebody else",
    "fingerprint": "model somebody else",
    "text": "",
    "tool_calls": [{"id": "c", "name": "put", "arguments": {}}],
}
TRIED = {
    "key": "1/.0!",
    "kind": "attempt",
    "node": "somebody else",
    "fingerprint": "attempt somebody else",
    "error": {"code": "model_error", "message": "m", "fatal": False},
}


TRIED_AT_ROOT = {**TRIED, "key": "1/!"}


@pytest.mark.parametrize("step", [REPLIED, TRIED, TRIED_AT_ROOT], ids=lambda step: step["key"])
async def test_replay_mismatch_fails_the_run_before_any_call(
    world: World, autojump_clock: MockClock, step: dict[str, Any]
) -> None:
    node = {"type": "llm", "name": "agent", "retries": 1}
    world.settings["agent"] = node if step is TRIED_AT_ROOT else sequential("root", node)
    world.tool("put", HARMLESS)
    world.plan("agent", use(call("put")), say("done"))
    async with world.agent() as agent:
        with trio.move_on_after(0.5):
            world.plan("agent", after(20, use(call("put"))), say("done"))
            await agent.start_conversation("go", key="k")
        await agent.drain(0)
        [row] = (await world.journal.list()).rows
    await write(world, row.stream, NewEvent("step.finished", step))
    async with world.agent() as agent:
        result = answer(await agent.start_conversation("go", key="k"))
        assert (result.state, result.code) == ("failed", "replay_mismatch")
        assert world.ledger == []
        turn = await agent.send(row.stream, "next")
        assert answer(turn).state == "finished"


async def test_other_replay_version_fails_the_run_before_any_call(
    world: World, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.tool("wipe", DESTRUCTIVE)
    world.plan("agent", use(call("wipe")), say("done"))
    async with world.agent() as agent:
        turn = await agent.start_conversation("go")
    monkeypatch.setattr(e, "REPLAY_VERSION", e.REPLAY_VERSION + 1)
    async with world.agent() as agent:
        turn = await agent.decide(turn.conversation.head.pending[0], {"approved": True})
        assert (answer(turn).state, answer(turn).code) == ("failed", "replay_mismatch")
    assert world.ledger == []
