"""Messages to a conversation: in order, bounded, repeatable, never lost, never run twice."""

from __future__ import annotations

from typing import Any

import pytest
import trio
import trio.testing
from trio.testing import MockClock

from stopgo.actors.agent.agent import QUEUE_LIMIT, Agent
from stopgo.actors.common.errors import AgentError
from stopgo.actors.conversation.result import Turn
from stopgo.actors.log.words.events import RunFinished
from stopgo.actors.tools.tokens import Token
from stopgo.runtime.journal.memory.memory_journal import MemoryJournal
from stopgo.runtime.journal.protocol import Commit, DeliveryOutcome, NewCommand, Saved
from tests.actors.world import (
    DESTRUCTIVE,
    World,
    after,
    answer,
    call,
    code_of,
    events,
    once,
    say,
    types,
    use,
    wall,
)
from tests.runtime.journal.kept import claimed


def users(turn: Turn) -> list[str]:
    return [m.content for m in turn.conversation.messages if m.role == "user"]


# ------------------------------------------------------------------------- what is sent


@pytest.mark.parametrize("text", ["", "  \n", None, 3, ["x"]])
async def test_a_message_is_required(world: World, autojump_clock: MockClock, text: Any) -> None:
    async with world.agent() as agent:
        id = (await agent.start_conversation()).conversation.id
        with pytest.raises(AgentError, match=r"^message is required$") as caught:
            await agent.send(id, text)
        assert caught.value.code == "message_required"
        if text is not None:
            assert await code_of(agent.start_conversation(text)) == "message_required"


async def test_unknown_conversation_is_not_found(world: World, autojump_clock: MockClock) -> None:
    async with world.agent() as agent:
        for command in (
            agent.send("x", "hi"),
            agent.get("x"),
            agent.cancel("x"),
            agent.complete("x"),
            agent.delete("x"),
            agent.resume("x", token="t"),
        ):
            assert await code_of(command) == "conversation_not_found"


async def test_any_text_is_passed_unchanged(world: World, autojump_clock: MockClock) -> None:
    text = "Ω \u2028 \0 'quotes\" {agent} ${HOME}\n\ttabs"
    async with world.agent() as agent:
        turn = await agent.start_conversation(text)
    assert users(turn) == [text]
    assert world.requests[0].user == text


# ----------------------------------------------------------------------------- queueing


@pytest.mark.repeat(5)
async def test_messages_sent_at_once_run_one_after_another(world: World, autojump_clock: MockClock) -> None:
    world.plan("agent", after(1, say("ok")))
    async with world.agent() as agent:
        id = (await agent.start_conversation()).conversation.id
        async with trio.open_nursery() as nursery:
            for n in range(8):
                nursery.start_soon(agent.send, id, f"m{n}")
        turn = await agent.send(id, "last")
        log = await types(world.journal, id)
        assert not agent._sender._waits
    assert sorted(users(turn)) == sorted(["last", *(f"m{n}" for n in range(8))])
    runs = [t for t in log if t in ("run.started", "run.finished")]
    assert runs == ["run.started", "run.finished"] * 9
    # Each was asked with the turns before it in its history, none with half a turn.
    assert [len(r.messages) for r in world.requests] == [1 + 2 * n for n in range(9)]


@pytest.mark.parametrize("first", ["message", "create"])
@pytest.mark.parametrize("since", [0, 1], ids=["the start is not written yet", "the start is written"])
async def test_seventeenth_queued_message_is_refused(
    world: World, autojump_clock: MockClock, first: str, since: float
) -> None:
    go = trio.Event()
    world.plan("agent", once(go, say("ok")))
    refused = []
    async with world.agent() as agent:
        async with trio.open_nursery() as nursery:
            if first == "create":
                id = (await agent.post_conversation("running")).conversation.id
            else:
                id = (await agent.start_conversation()).conversation.id
                nursery.start_soon(agent.send, id, "running")
            await trio.testing.wait_all_tasks_blocked()
            await trio.sleep(since)
            for n in range(QUEUE_LIMIT):
                nursery.start_soon(agent.send, id, f"m{n}")
            await trio.testing.wait_all_tasks_blocked()
            for key in ("k", "k"):
                refused.append(await code_of(agent.send(id, "one too many", key=key)))
            go.set()
        assert QUEUE_LIMIT == 16
        assert refused == ["queue_full"] * 2
        # A refusal used up nothing.
        turn = await agent.send(id, "one too many", key="k")
        assert answer(turn).state == "finished"
        assert len(users(turn)) == QUEUE_LIMIT + 2
        assert users(turn)[-1] == "one too many"


async def test_fifty_concurrent_messages_are_answered_or_refused(
    world: World, autojump_clock: MockClock
) -> None:
    world.plan("agent", after(1, say("ok")))
    outcomes: list[str] = []
    async with world.agent() as agent:
        id = (await agent.start_conversation()).conversation.id

        async def send(n: int) -> None:
            try:
                outcomes.append(answer(await agent.send(id, f"m{n}")).state)
            except AgentError as error:
                outcomes.append(error.code)

        async with trio.open_nursery() as nursery:
            for n in range(50):
                nursery.start_soon(send, n)
        turn = await agent.send(id, "last")
    assert len(outcomes) == 50
    assert set(outcomes) == {"finished", "queue_full"}
    assert len(users(turn)) == outcomes.count("finished") + 1 >= QUEUE_LIMIT


async def test_queued_message_is_answered_when_the_run_blocks(
    world: World, autojump_clock: MockClock
) -> None:
    world.tool("wipe", DESTRUCTIVE)
    world.plan("agent", after(10, use(call("wipe"))), say("wiped"), turn=1)
    world.plan("agent", say("second"), turn=2)
    results: dict[str, Any] = {}
    async with world.agent() as agent:
        id = (await agent.start_conversation()).conversation.id

        async def send(text: str) -> None:
            results[text] = answer(await agent.send(id, text, key=text))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(send, "first")
            await trio.sleep(1)
            nursery.start_soon(send, "queued")
        assert (results["first"].state, results["first"].waiting_approval) == ("waiting", True)
        assert (results["queued"].state, results["queued"].waiting_approval) == ("queued", True)
        conversation = await agent.get(id)
        assert results["queued"].approval_ids == conversation.head.pending
        assert len(world.requests) == 1
        turn = await agent.decide(conversation.head.pending[0], {"approved": True})
        assert answer(turn).response == "wiped"
        await trio.sleep(5)
        turn = await agent.send(id, "queued", key="queued")
        assert answer(turn).state == "queued"  # what its sender was told, with the conversation as it is now
        assert users(turn) == ["first", "queued"]
        assert turn.conversation.messages[-1].content == "second"


async def test_queued_message_survives_passivation_and_cancel(
    world: World, autojump_clock: MockClock
) -> None:
    world.tool("wipe", DESTRUCTIVE)
    world.plan("agent", after(10, use(call("wipe"))), say("wiped"), turn=1)
    world.plan("agent", say("second"), turn=2)
    async with world.agent() as agent:
        id = (await agent.start_conversation()).conversation.id
        async with trio.open_nursery() as nursery:
            nursery.start_soon(agent.send, id, "first")
            await trio.sleep(1)
            nursery.start_soon(agent.send, id, "queued")
        await trio.sleep(60)  # nobody is in memory any more
        await agent.cancel(id)
        await trio.sleep(5)
        conversation = await agent.get(id)
        assert conversation.messages[-1].content == "second"
        assert world.called("wipe") == 0


class OneCommit(MemoryJournal):
    """The first run ends when it may. While it waits for that, two commands share a commit."""

    def __init__(self) -> None:
        super().__init__(wall)
        self.ends, self.may_end, self.both = trio.Event(), trio.Event(), trio.Event()
        self.delivered = 0

    async def deliver(self, command: NewCommand) -> DeliveryOutcome:
        outcome = await super().deliver(command)
        if self.ends.is_set() and not self.both.is_set():
            self.delivered += 1
            if self.delivered == 2:
                self.both.set()
            await self.both.wait()
        return outcome

    async def save(self, commit: Commit) -> Saved:
        if any(event.type == RunFinished.type for event in commit.events):
            self.ends.set()
            await self.may_end.wait()
        return await super().save(commit)


async def test_queued_message_runs_if_the_run_ends_during_a_look(
    world: World, autojump_clock: MockClock
) -> None:
    journal = world.journal = OneCommit()
    world.plan("agent", say("second"), turn=2)
    async with world.agent() as agent, trio.open_nursery() as nursery:
        id = (await agent.start_conversation()).conversation.id
        nursery.start_soon(agent.send, id, "first")
        await journal.ends.wait()
        nursery.start_soon(agent.send, id, "queued")
        await trio.testing.wait_all_tasks_blocked()
        nursery.start_soon(code_of, agent.complete(id))  # refused, behind the end of the run
        await trio.testing.wait_all_tasks_blocked()
        journal.may_end.set()
        await trio.sleep(60)
        assert (await agent.get(id)).messages[-1].content == "second"


async def test_message_after_a_queued_completion_is_refused(world: World, autojump_clock: MockClock) -> None:
    async with world.agent() as agent:
        id = (await agent.start_conversation()).conversation.id
        await world.journal.deliver(NewCommand(id, "c", "complete", {}))  # and nobody has looked at it yet
        assert await code_of(agent.post(id, "late")) == "conversation_completed"
        agent._cast.services.wake(id)
        await trio.sleep(1)
        assert (await agent.get(id)).head.completed


async def test_completion_is_refused_while_a_message_is_queued(
    world: World, autojump_clock: MockClock
) -> None:
    go = trio.Event()
    world.plan("agent", once(go, say("never")), turn=1)
    world.plan("agent", say("second"), turn=2)
    async with world.agent() as agent:
        id = (await agent.post_conversation("first")).conversation.id
        await trio.sleep(1)
        await agent.post(id, "queued")
        await trio.sleep(1)
        for kind in ("cancel", "complete"):
            await world.journal.deliver(NewCommand(id, kind, kind, {}))
        agent._cast.services.wake(id)
        await trio.sleep(1)
        conversation = await agent.get(id)
    assert conversation.messages[-1].content == "second"
    assert not conversation.head.completed


# ------------------------------------------------------------------------ while it waits


async def test_a_message_while_an_approval_is_pending_is_not_stored(
    world: World, autojump_clock: MockClock
) -> None:
    world.tool("wipe", DESTRUCTIVE)
    world.plan("agent", use(call("wipe")), say("done"), turn=1)
    world.plan("agent", say("second"), turn=2)
    async with world.agent() as agent:
        turn = await agent.start_conversation("go")
        id, pending = turn.conversation.id, turn.conversation.head.pending
        seq = turn.conversation.last_seq
        turn = await agent.send(id, "hello?", key="k")
        result = answer(turn)
        assert (result.waiting_approval, result.code, result.approval_ids) == (
            True,
            "waiting_approval",
            pending,
        )
        assert turn.conversation.last_seq == seq
        assert users(turn) == ["go"]
        assert await world.journal.inbox(id) == ()
        await agent.decide(pending[0], {"approved": True})
        # Its key was not used up.
        assert answer(await agent.send(id, "another", key="k")).response == "second"


# --------------------------------------------------------------------------------- keys


async def test_conversation_id_derives_from_the_key(world: World, autojump_clock: MockClock) -> None:
    async with world.agent() as agent:
        first = await agent.start_conversation("hi", key="k")
        again = await agent.start_conversation("hi", key="k")
        other = await agent.start_conversation("hi", key="l")
    assert first.conversation.id == again.conversation.id != other.conversation.id
    assert answer(first) == answer(again)
    assert len(world.requests) == 2


async def test_repeat_during_the_first_gets_the_same_answer(world: World, autojump_clock: MockClock) -> None:
    world.plan("agent", after(10, say("slow")))
    results = []
    async with world.agent() as agent:
        id = (await agent.start_conversation()).conversation.id

        async def send() -> None:
            results.append(answer(await agent.send(id, "hi", key="k")))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(send)
            await trio.sleep(1)
            nursery.start_soon(send)
        results.append(answer(await agent.send(id, "hi", key="k")))
    assert results[0] == results[1] == results[2]
    assert len(world.requests) == 1


@pytest.mark.repeat(10)
async def test_repeat_keeps_its_token_if_the_first_is_cancelled(
    world: World, autojump_clock: MockClock
) -> None:
    world.plan("agent", after(10, say("ok")))
    async with world.agent() as agent:
        id = (await agent.start_conversation()).conversation.id
        async with trio.open_nursery() as nursery:

            async def send() -> None:
                await agent.send(id, "hi", key="k", token="secret")

            with trio.CancelScope() as scope:
                async with trio.open_nursery() as first:
                    scope.cancel()
                    first.start_soon(send)
                    nursery.start_soon(send)
            await trio.sleep(1)
            assert agent._cast.services.tokens.get(id, "k") == Token("secret")
        await trio.sleep(10)
        assert agent._cast.services.tokens.get(id, "k") is None


async def test_repeat_gets_first_result_and_present_conversation(
    world: World, autojump_clock: MockClock
) -> None:
    async with world.agent() as agent:
        first = await agent.start_conversation("one", key="k")
        await agent.send(first.conversation.id, "two")
    async with world.agent() as agent:  # also after a restart
        again = await agent.start_conversation("one", key="k")
    assert answer(again) == answer(first)
    assert users(again) == ["one", "two"]
    assert len(world.requests) == 2


async def test_reused_key_with_another_body_is_refused(world: World, autojump_clock: MockClock) -> None:
    async with world.agent() as agent:
        turn = await agent.start_conversation("one", key="k")
        id = turn.conversation.id
        assert await code_of(agent.start_conversation("other", key="k")) == "idempotency_key_reused"
        assert await code_of(agent.start_conversation(key="k")) == "idempotency_key_reused"
        await agent.send(id, "two", key="l")
        assert await code_of(agent.send(id, "three", key="l")) == "idempotency_key_reused"
        turn = await agent.send(id, "two", key="l")
    assert users(turn) == ["one", "two"]


async def test_commands_of_every_kind_can_be_repeated(world: World, autojump_clock: MockClock) -> None:
    world.tool("wipe", DESTRUCTIVE)
    world.plan("agent", use(call("wipe")), say("done"))

    async def all_twice(agent: Agent, id: str, first: bool) -> None:
        conversation = await agent.get(id)
        [question] = conversation.approvals
        for _ in range(2 if first else 1):
            turn = await agent.decide(question, {"approved": True}, key="decide")
            assert answer(turn).response == "done"
        for _ in range(2 if first else 1):
            await agent.cancel(id, key="cancel")
        for _ in range(2 if first else 1):
            await agent.complete(id, key="complete")

    async with world.agent() as agent:
        id = (await agent.start_conversation("go")).conversation.id
        await all_twice(agent, id, first=True)
        seq = (await agent.get(id)).last_seq
    async with world.agent() as agent:
        await all_twice(agent, id, first=False)
        assert (await agent.get(id)).last_seq == seq
        [question] = (await agent.get(id)).approvals
        refused = agent.decide(question, {"approved": False}, key="decide")
        assert await code_of(refused) == "idempotency_key_reused"
    assert world.called("wipe") == 1


async def test_refused_command_leaves_its_key_free(world: World, autojump_clock: MockClock) -> None:
    go = trio.Event()
    world.plan("agent", once(go, say("ok")))
    async with world.agent() as agent:
        id = (await agent.start_conversation()).conversation.id
        async with trio.open_nursery() as nursery:
            nursery.start_soon(agent.send, id, "hi")
            await trio.testing.wait_all_tasks_blocked()
            assert await code_of(agent.complete(id, key="k")) == "run_in_progress"
            go.set()
        turn = await agent.complete(id, key="k")
        assert turn.conversation.head.status == "completed"


async def test_a_session_is_kept_from_the_start(world: World, autojump_clock: MockClock) -> None:
    async with world.agent() as agent:
        given = await agent.start_conversation("hi", session_id="abc-123")
        made = await agent.start_conversation("hi")
        assert given.conversation.head.session_id == "abc-123"
        session = made.conversation.head.session_id
        assert len(session) == 8
        int(session, 16)
        turn = await agent.send(made.conversation.id, "again")
        assert turn.conversation.head.session_id == session


# ------------------------------------------------------------------------ going away


@pytest.mark.repeat(5)
@pytest.mark.parametrize("ticks", range(0, 30, 3))
async def test_disconnected_client_does_not_stop_its_run(
    world: World, autojump_clock: MockClock, ticks: int
) -> None:
    world.plan("agent", after(1, say("ok")))
    async with world.agent() as agent:
        id = (await agent.start_conversation()).conversation.id
        with trio.CancelScope() as scope:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(agent.send, id, "hi")
                for _ in range(ticks):
                    await trio.lowlevel.checkpoint()
                scope.cancel()
        delivered = len(await world.journal.inbox(id)) or (await agent.get(id)).last_seq > 1
        await trio.sleep(10)
        conversation = await agent.get(id)
        assert await world.journal.inbox(id) == ()
    # What was accepted was carried out, by nobody's help; what was not left no trace.
    assert [m.role for m in conversation.messages] == [
        "system",
        *(["user", "assistant"] if delivered else []),
    ]


async def test_send_without_waiting_returns_no_result(world: World, autojump_clock: MockClock) -> None:
    world.plan("agent", after(10, say("ok")))
    async with world.agent() as agent:
        start = trio.current_time()
        turn = await agent.post_conversation("hi", key="k")
        assert turn.result is None
        assert trio.current_time() == start
        assert turn.conversation.id
        assert answer(await agent.start_conversation("hi", key="k")).response == "ok"


async def test_a_command_with_the_earlier_keyword_is_posted(world: World, autojump_clock: MockClock) -> None:
    world.plan("agent", after(10, say("ok")))
    async with world.agent() as agent:
        turn = await agent.start_conversation("hi", wait=False)  # type: ignore[call-overload]
        assert turn.result is None
        assert (await agent.send(turn.conversation.id, "you", wait=False)).result is None  # type: ignore[call-arg]
        assert answer(await agent.send(turn.conversation.id, "there", wait=True)).response  # type: ignore[call-arg]


async def test_conversation_is_shown_before_its_first_event(world: World, autojump_clock: MockClock) -> None:
    async with world.agent() as agent:
        await trio.sleep(10)
        asked = wall()
        new = (await agent.post_conversation("hi", session_id="mine")).conversation
        assert (new.last_seq, new.updated) == (0, asked)
        await trio.sleep(10)
        begun = await agent.get(new.id)
        assert (new.created, new.head.session_id, new.messages) == (asked, "mine", begun.messages[:1])
        assert (begun.created, begun.head.session_id) == (asked, "mine")


async def test_conversation_whose_create_was_refused_is_unknown(
    world: World, autojump_clock: MockClock
) -> None:
    """Its id was taken, and the command that was to make it is gone."""
    async with world.agent() as agent:
        await world.journal.deliver(NewCommand("x", "k", "create", {}, new=True))
        fence = await claimed(world.journal, "x")
        await world.journal.save(Commit(fence, 0, refuse={"k": {}}))
        assert await code_of(agent.get("x")) == "conversation_not_found"


async def test_reads_activate_nothing(world: World, autojump_clock: MockClock) -> None:
    async with world.agent() as agent:
        id = (await agent.start_conversation("hi")).conversation.id
        await trio.sleep(60)
        before = await events(world.journal, id)
        conversation = await agent.get(id)
        page = await agent.conversations()
        await agent.approvals()
        assert not agent._cast.conversations.active
        assert [item.id for item in page.conversations] == [id]
        assert conversation.last_seq == len(before) == len(await events(world.journal, id))
