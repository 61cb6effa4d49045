"""When a conversation may leave memory: not before those who wait know what for."""

from __future__ import annotations

from typing import Any

import trio
from trio.testing import MockClock

from stopgo.actors.conversation import IDLE
from stopgo.runtime.journal.memory import MemoryJournal
from stopgo.runtime.journal.protocol import Saved
from tests.actors.world import DESTRUCTIVE, World, answer, call, use, wall


class SlowJournal(MemoryJournal):
    """Takes so long for every save that a conversation seems idle in the middle of one."""

    async def save(self, *args: Any, **more: Any) -> Saved:
        await trio.sleep(0.7 * IDLE)
        return await super().save(*args, **more)


async def test_idle_time_that_ends_while_the_wait_is_announced(
    world: World, autojump_clock: MockClock
) -> None:
    world.journal = SlowJournal(wall)
    world.tool("rm", DESTRUCTIVE)
    world.plan("agent", use(call("rm")))
    async with world.agent() as agent:
        with trio.fail_after(60):
            turn = await agent.start_conversation("remove it")
        assert answer(turn).state == "waiting"
        await trio.sleep(10 * IDLE)
        assert not agent._cast.conversations.is_active(turn.conversation.id)
