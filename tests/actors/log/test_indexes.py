"""The indexes of the journal agree with the events after every save."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

import attrs
import pytest
import trio
from trio.testing import MockClock

from stopgo.actors.common.errors import AgentError
from stopgo.actors.log.fold.state import fold
from stopgo.actors.tools.tool import ToolOutcomeUnknown
from stopgo.runtime.journal.memory.memory_journal import MemoryJournal
from stopgo.runtime.journal.protocol import Commit, Event, NewCommand, Saved
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
    sequential,
    use,
    wall,
)

ENDS = {"tool.finished": "finished", "tool.unknown": "unknown"}


class Checked(MemoryJournal):
    """Rebuilds its indexes from the events after every save, and compares."""

    def __init__(self) -> None:
        super().__init__(wall)
        self.saves = 0

    async def save(self, commit: Commit) -> Saved:
        saved, fence = await super().save(commit), commit.fence
        self.saves += 1
        kept = self._streams[fence.stream]
        conversation = fold(fence.stream, kept.events)
        assert kept.summary == conversation.head.summary()
        if kept.events:
            assert (kept.created, kept.updated) == (conversation.created, conversation.updated)
        assert list(kept.questions) == list(conversation.approvals)
        for id, question in kept.questions.items():
            folded = conversation.approvals[id]
            if question.state == "decided" and folded.state == "pending":
                continue  # a decision is in the inbox from the moment it counts
            assert (question.state, question.kind) == (folded.state, folded.kind)
            assert question.body == folded.body
            assert (question.decision or {}).items() >= (folded.decision or {}).items()
        intents = {place: intent.state for place, intent in kept.intents.items()}
        assert intents == intents_of(kept.events)
        commands = Counter(
            event.body["command"]
            for event in kept.events
            if event.type in ("message.added", "approval.resolved") and "command" in event.body
        )
        assert set(commands.values()) <= {1}
        open_ones = {key for key, row in kept.inbox.items() if row.state == "open"}
        assert not open_ones & set(commands)
        settled = {key for event in kept.events for key in event.body.get("settles", ())}
        assert settled <= {key for key, row in kept.inbox.items() if row.reply is not None}
        return saved


def intents_of(events: list[Event]) -> dict[tuple[str, int], str]:
    found: dict[tuple[str, int], str] = {}
    for event in events:
        if event.type == "tool.started":
            found[event.body["key"], event.body["attempt"]] = "started"
        elif event.type in ENDS:
            found[event.body["key"], event.body["attempt"]] = ENDS[event.type]
    return found


@pytest.fixture
def checked(world: World) -> Checked:
    world.journal = journal = Checked()

    async def lost_once(_: Mapping[str, Any]) -> str:
        await trio.sleep(1)
        if world.called("wipe") == 1:
            raise ToolOutcomeUnknown("lost")
        return "wiped"

    world.tool("wipe", DESTRUCTIVE, lost_once)
    world.tool("drop", DESTRUCTIVE)
    world.tool("look", READ_ONLY)
    world.settings |= {
        "approval": {"in_parallel": "ask"},
        "agent": sequential("root", parallel("fan", llm("a", output_key="k"), llm("b")), llm("c")),
    }
    world.plan("a", use(call("wipe", name="x"), call("look")), say("A"), turn=1)
    world.plan("b", use(call("drop"), call("missing")), after(5, say("B")), turn=1)
    return journal


@pytest.mark.repeat(3)
@pytest.mark.parametrize("ending", ["done", "retry", "reject", "cancel", "cancel while it works", "delete"])
async def test_indexes_agree_with_the_events_after_every_save(
    world: World, checked: Checked, autojump_clock: MockClock, ending: str
) -> None:
    async with world.agent() as agent:
        turn = await agent.start_conversation("go", key="k")
        id = turn.conversation.id
        by_tool = {(await agent.approval(q)).body["tool_name"]: q for q in turn.conversation.head.pending}
        await agent.decide(by_tool["wipe"], {"approved": True, "arguments": {"name": "y"}}, key="d")
        if ending == "cancel while it works":
            await agent.post_decision(by_tool["drop"], {"approved": True})
            await trio.sleep(1)
        elif ending in ("done", "retry", "reject"):
            await agent.decide(by_tool["drop"], {"approved": ending != "reject", "reason": "r"})
            [unknown] = (await agent.get(id)).head.pending
            action = "retry" if ending == "retry" else "done"
            turn = await agent.decide(unknown, {"action": action})
            assert answer(turn).state == "finished"
        if ending == "delete":
            await agent.delete(id)
            with pytest.raises(AgentError):
                await agent.get(id)
        else:
            await agent.cancel(id)
            assert answer(await agent.send(id, "next")).state == "finished"
            await agent.complete(id)
            row = await checked.row(id)
            assert row is not None
            assert row.summary is not None
            assert row.summary.status == "completed"
    assert checked.saves > 5
    async with world.agent() as agent:
        await trio.sleep(5)
        assert await checked.open_work() == ()


async def test_lists_have_the_times_of_the_events(
    world: World, checked: Checked, autojump_clock: MockClock
) -> None:
    body = {"message": "go", "session_id": None, "token": False}
    await checked.deliver(NewCommand("c", "k", "create", body, new=True))
    asked_for = wall()
    await trio.sleep(60)  # no process takes it up before
    async with world.agent() as agent:
        await trio.sleep(60)
        await agent.cancel("c")
        await trio.sleep(60)
        await agent.cancel("c")  # there is nothing to cancel, so nothing happens
        [item] = (await agent.conversations()).conversations
        conversation = await agent.get("c")
        assert (item.created, item.updated) == (conversation.created, conversation.updated)
        assert (item.created, item.updated) == (asked_for, asked_for + 120)


async def test_lists_agree_with_folded_conversations(
    world: World, checked: Checked, autojump_clock: MockClock
) -> None:
    async with world.agent() as agent:
        first = await agent.start_conversation("waiting for somebody")
        second = await agent.start_conversation()
        await agent.complete((await agent.start_conversation()).conversation.id)
        page = await agent.conversations()
        assert dict(page.summary) == {"waiting_approval": 1, "active": 1, "completed": 1}
        for item in page.conversations:
            conversation = await agent.get(item.id)
            assert item.head == conversation.head
            assert (item.created, item.updated) == (conversation.created, conversation.updated)
            assert item.last_seq == conversation.last_seq
            assert item.approvals == tuple(conversation.approvals.values())
        [only] = (await agent.conversations(status="waiting_approval")).conversations
        assert (only.id, len(only.pending_approvals)) == (first.conversation.id, 2)
        assert [i.id for i in (await agent.conversations(q="SOMEBODY")).conversations] == [only.id]
        full = (await agent.conversations(full=True)).conversations
        assert all(item.conversation is not None for item in full)
        small = await agent.conversations(limit=2)
        rest = await agent.conversations(limit=2, cursor=small.next_cursor)
        assert [i.id for i in (*small.conversations, *rest.conversations)] == [
            i.id for i in page.conversations
        ]
        assert rest.next_cursor is None
        inbox = await agent.approvals()
        assert [q.id for q in inbox.approvals] == list(first.conversation.head.pending)
        for bad in ("x", "!"):
            for listing in (agent.conversations(cursor=bad), agent.approvals(cursor=bad)):
                assert await code_of(listing) == "invalid_cursor"
        assert second.conversation.head.status == "active"
        assert attrs.asdict(inbox)["next_cursor"] is None
