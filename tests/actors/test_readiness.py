"""Readiness asks the journal, and answers whatever the journal does."""

from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock

from stopgo.runtime.journal.errors import JournalUnavailable
from stopgo.runtime.journal.memory.memory_journal import MemoryJournal
from stopgo.runtime.journal.protocol import Commit
from tests.actors.world import World, answer, code_of, wall
from tests.runtime.journal.kept import claimed, row_of


class Hanging(MemoryJournal):
    """Its reads can hang, as those of a thread that waits for a server: they cannot be cancelled."""

    hang: trio.Event | None = None
    failure: JournalUnavailable | None = None
    reads = 0

    async def need_newer(self) -> int:
        self.reads += 1
        if self.failure is not None:
            raise self.failure
        if self.hang is not None:
            with trio.CancelScope(shield=True):
                await self.hang.wait()
        return await super().need_newer()


@pytest.fixture
def journal(world: World) -> Hanging:
    journal = Hanging(wall)
    world.journal = journal
    return journal


async def test_agent_is_not_ready_while_the_journal_does_not_answer(
    world: World, autojump_clock: MockClock, journal: Hanging
) -> None:
    async with world.agent() as agent:
        assert (await agent.readiness()).ready
        journal.hang, journal.reads = trio.Event(), 0
        began = trio.current_time()
        async with trio.open_nursery() as nursery:
            for _ in range(5):
                nursery.start_soon(agent.readiness)
        health = await agent.readiness()
        assert trio.current_time() == began + 4.0  # five together, then one
        assert (health.ready, health.store.state) == (False, "unavailable")
        assert health.store.error == "it has not answered within 2 s"
        assert journal.reads == 1, "a journal that hangs is not asked again and again"
        load = await agent.load()
        assert (load.stored, load.fleet, load.working) == (None, None, 0)
        journal.hang.set()
        journal.hang = None
        assert (await agent.readiness()).ready or (await agent.readiness()).ready
        assert (await agent.load()).stored is not None


async def test_agent_is_not_ready_while_the_journal_is_unavailable(
    world: World, autojump_clock: MockClock, journal: Hanging
) -> None:
    async with world.agent() as agent:
        journal.failure = JournalUnavailable("the server is gone")
        health = await agent.readiness()
        assert (health.ready, health.store.error) == (False, "the server is gone")
        journal.failure = None
        assert (await agent.readiness()).ready


async def test_conversations_of_a_newer_version(
    world: World, autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    """They are refused at once, counted, and go on when a process of that version comes."""
    journal = world.journal = MemoryJournal(wall, lease=10.0, version=1, member="old")
    async with world.agent() as agent:
        id = (await agent.start_conversation()).conversation.id
    newer = journal.another("newer", version=2)
    fence = await claimed(newer, id)
    await newer.save(Commit(fence, (await row_of(newer, id)).last_seq))
    await newer.release(fence)
    async with world.agent() as agent:
        began = trio.current_time()
        for request in (agent.send(id, "hello"), agent.delete(id)):
            assert await code_of(request) == "needs_newer_version"
        assert trio.current_time() == began
        health = await agent.readiness()
        assert (health.ready, health.need_newer, (await agent.fleet()).need_newer) == (True, 1, 1)
        assert "conversations that need a newer version of the agent: 1" in caplog.text
        assert answer(await agent.start_conversation("hello")).state == "finished"
