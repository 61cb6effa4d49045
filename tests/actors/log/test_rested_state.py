"""The state of a long conversation is kept while it is idle, and used only if the journal still has it."""

from __future__ import annotations

from typing import Any

import attrs
import pytest

from stopgo.actors.log.fold.extract import FEWEST as LONG
from stopgo.actors.log.fold.stored import read
from stopgo.actors.log.words import events as e
from stopgo.actors.log.words.outcomes import Replied
from stopgo.actors.log.writer.log import ConversationLog
from stopgo.actors.log.writer.logs import Logs
from stopgo.actors.log.writer.observer import Observer
from stopgo.actors.models.messages.messages import ToolCall
from stopgo.runtime.event_bus import EventBus
from stopgo.runtime.journal.lease import Lease
from stopgo.runtime.journal.memory.memory_journal import MemoryJournal
from stopgo.runtime.journal.ownership import Fence
from stopgo.runtime.journal.protocol import NewCommand
from tests.actors.log.test_fold import facts

ID = "c"


@attrs.define(eq=False)
class Idle:
    """A member, and a conversation that it has opened and released."""

    journal: MemoryJournal
    logs: Logs

    @classmethod
    async def member(cls, journal: MemoryJournal) -> Idle:
        lease = Lease(journal)
        await lease.renew()
        return cls(journal, Logs(journal, lease, EventBus(), lambda: 0.0, Observer()))

    async def open(self) -> ConversationLog:
        log = await self.logs.open(ID, start_soon=lambda work: None, progress=lambda: None)
        assert log is not None
        return log

    async def release(self, log: ConversationLog, *, in_order: bool = True) -> None:
        assert await self.journal.release(log.tenure.fence)
        log.close()
        self.logs.rest(log.state, in_order=in_order)

    async def created(self, messages: int = LONG) -> ConversationLog:
        await self.journal.deliver(
            NewCommand(ID, "k", "create", {"message": None, "session_id": None, "token": False}, new=True)
        )
        log = await self.open()
        await log.save(e.ConversationCreated("s", "p"), ack=["k"])
        await log.save(*(e.MessageAdded(f"message {number}", "k") for number in range(messages)))
        return log


@pytest.fixture
async def idle() -> Idle:
    return await Idle.member(MemoryJournal(lambda: 0.0))


async def test_a_long_conversation_is_not_read_again(idle: Idle) -> None:
    log = await idle.created()
    await idle.release(log)
    again = await idle.open()
    assert again.state is log.state
    await again.save(e.MessageAdded("more", "k2"))
    assert facts(attrs.evolve(again.state, kept=None)) == facts(await read(idle.journal, ID))


@pytest.mark.parametrize(("messages", "in_order"), [(3, True), (LONG, False)])
async def test_other_states_are_not_kept(idle: Idle, messages: int, in_order: bool) -> None:
    log = await idle.created(messages)
    await idle.release(log, in_order=in_order)
    assert (await idle.open()).state is not log.state
    assert idle.logs.kept.size == 0


async def test_a_conversation_with_a_run_is_read_again(idle: Idle) -> None:
    log = await idle.created()
    await log.save(e.RunStarted("r", 1, "k", "t", e.REPLAY_VERSION, False, {}))
    await idle.release(log)
    assert (await idle.open()).state is not log.state


async def test_a_state_ends_when_another_member_writes(idle: Idle) -> None:
    log = await idle.created()
    await idle.release(log)
    other = await Idle.member(idle.journal.another("other"))
    theirs = await other.open()
    await theirs.save(e.MessageAdded("theirs", "k2"))
    await other.release(theirs)
    again = await idle.open()
    assert again.state is not log.state
    assert again.state.messages[-1].content == "theirs"


async def test_a_state_ends_with_its_conversation(idle: Idle) -> None:
    """The new one with the same id has as many events."""
    log = await idle.created()
    await idle.release(log)
    other = await Idle.member(idle.journal.another("other"))
    fence = await other.journal.claim(ID)
    assert isinstance(fence, Fence)
    await other.journal.delete(fence)
    other.journal._wall = lambda: 1.0  # the new one has another time
    made = await other.created()
    await other.release(made)
    again = await idle.open()
    assert (again.state.last_seq, again.state.created) == (log.state.last_seq, 1.0)


async def test_everything_in_a_kept_state_counts(idle: Idle) -> None:
    """Not the texts only: most of a long conversation may be arguments."""
    log = await idle.created()
    await log.save(*_call({"file": ["x" * 1000]}))
    await idle.release(log)
    small = idle.logs.kept.size
    log = await idle.open()
    await log.save(*_call({"file": ["x" * 100_000]}))
    await idle.release(log)
    assert idle.logs.kept.size > small + 100_000


def _call(arguments: dict[str, Any]) -> list[e.LogEvent]:
    """A run with one call, which is cancelled."""
    asked = Replied(text="", tool_calls=[ToolCall("c", "t", arguments)])
    return [
        e.RunStarted("r", 1, "k", "t", e.REPLAY_VERSION, False, {}),
        e.StepFinished.of("1/:1", "model", "n", asked),
        e.RunCancelled("r", []),
    ]


async def test_a_state_beyond_the_bound_drops_no_others(idle: Idle) -> None:
    other = idle.logs.kept.of("other")
    other.keep("key", "form", 10)
    log = await idle.created()
    idle.logs.kept.most = 1000
    await idle.release(log)
    assert (other.get("key", str), idle.logs.kept.size) == ("form", 10)
    assert idle.logs.kept.kept(ID) is None


async def test_nothing_is_left_of_a_state_that_has_no_room(idle: Idle) -> None:
    log = await idle.created()
    await idle.release(log)
    other = idle.logs.kept.of("other")
    other.keep("key", "form", idle.logs.kept.most)
    assert idle.logs.kept.kept(ID) is None
    assert idle.logs.kept.size == idle.logs.kept.most
