"""When a conversation may be unloaded: not before the waiting senders have their answer."""

from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from stopgo.actors.conversation.conversation import IDLE
from stopgo.runtime.journal.memory.memory_journal import MemoryJournal
from stopgo.runtime.journal.protocol import Commit, Saved
from tests.actors.world import DESTRUCTIVE, World, after, answer, call, use, wall


class SlowJournal(MemoryJournal):
    """A journal so slow that a conversation seems idle during a save."""

    async def save(self, commit: Commit) -> Saved:
        await trio.sleep(0.7 * IDLE)
        return await super().save(commit)


async def test_idle_timeout_during_announcement_is_retried(world: World, autojump_clock: MockClock) -> None:
    world.journal = SlowJournal(wall)
    world.tool("rm", DESTRUCTIVE)
    world.plan("agent", use(call("rm")))
    async with world.agent() as agent:
        with trio.fail_after(60):
            turn = await agent.start_conversation("remove it")
        assert answer(turn).state == "waiting"
        await trio.sleep(10 * IDLE)
        assert agent._cast.conversations.active == 0


async def test_message_that_waits_for_an_approval_keeps_nothing_in_memory(
    world: World, autojump_clock: MockClock
) -> None:
    world.tool("rm", DESTRUCTIVE)
    world.plan("agent", after(1, use(call("rm"))))
    async with world.agent() as agent:
        turn = await agent.post_conversation("remove it")
        await agent.post(turn.conversation.id, "and then?")
        await trio.sleep(1 + 3 * IDLE)
        for _ in range(10):
            await trio.sleep(0.3 * IDLE)
            assert agent._cast.conversations.active == 0


async def test_stray_wake_of_a_deleted_conversation_is_harmless(
    world: World, autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    async with world.agent() as agent:
        id = (await agent.start_conversation("hi", key="k")).conversation.id
        await agent.delete(id)
        await trio.sleep(10 * IDLE)
        agent._cast.services.wake(id)
        await wait_all_tasks_blocked()
        anew = await agent.start_conversation("hi", key="k")
        assert (anew.conversation.id, answer(anew).state) == (id, "finished")
    assert caplog.messages == []
