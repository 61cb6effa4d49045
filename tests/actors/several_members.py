"""Several agents on one journal: the members of the tests."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import attrs
import trio

from stopgo.actors.agent.agent import Agent
from stopgo.actors.agent.open_agent import open_agent
from stopgo.runtime.journal.memory.memory_journal import MemoryJournal
from stopgo.runtime.journal.protocol import Journal
from tests.actors.world import DESTRUCTIVE, World, after, call, say, use, wall
from tests.waiting import virtual_limit

LEASE = 10.0
LONGEST = 2000.0
"""Seconds after which a test fails that would wait for ever: its agents never stop to poll."""
YES = {"approved": True}


@attrs.define(eq=False)
class Member:
    world: World
    suspended: float = 0.0
    """Seconds that only the lease clock has counted."""
    renews: trio.Event = attrs.field(factory=trio.Event)
    """Set when the member renews its lease after a pause."""

    def lease_clock(self) -> float:
        return trio.current_time() + self.suspended


@attrs.define(eq=False)
class Members:
    folder: Path
    store: MemoryJournal
    members: dict[str, Member] = attrs.field(factory=dict)

    def world(self, name: str, journal: Journal | None = None) -> World:
        folder = self.folder / name
        folder.mkdir()
        world = World(folder, journal or (self.store if name == "a" else self.store.another(name)))
        self.members[name] = Member(world)
        world.tool("wipe", DESTRUCTIVE)
        world.plan("agent", use(call("wipe")), after(1, say("done")))
        return world

    @asynccontextmanager
    async def agent(self, name: str) -> AsyncIterator[Agent]:
        member = self.members[name]
        async with open_agent(
            member.world.config(),
            journal=member.world.journal,
            wall=wall,
            open_server=member.world.open_server,
            open_model=member.world.open_model,
            open_remote_agent=member.world.open_remote_agent,
            open_channel=member.world.open_channel,
            lease_clock=member.lease_clock,
        ) as agent:
            yield agent

    @asynccontextmanager
    async def agents(self, *names: str) -> AsyncIterator[list[Agent]]:
        async with AsyncExitStack() as stack:
            stack.enter_context(virtual_limit(LONGEST))
            for name in names:
                if name not in self.members:
                    self.world(name)
            yield [await stack.enter_async_context(self.agent(name)) for name in names]

    def pause(self, name: str) -> None:
        """Pause a process: time goes on for it, and it learns nothing from the journal. What it does next is
        what it would do first after the pause."""
        member = self.members[name]
        member.suspended += 2 * LEASE
        journal: Any = member.world.journal
        renew = journal.renew

        async def renew_later() -> object:
            await member.renews.wait()
            return await renew()

        for method in ("inbox", "marks", "owns", "row", "open_work", "events_since"):
            setattr(journal, method, never)
        journal.renew = renew_later

    def kill(self, name: str) -> None:
        """Let the next cancellation of the process look like its death."""
        journal: Any = self.members[name].world.journal
        journal.leave = trio.lowlevel.checkpoint

    def calls(self, name: str) -> int:
        return self.members[name].world.called("wipe")


async def never(*_: Any, **__: Any) -> Any:
    await trio.sleep_forever()
