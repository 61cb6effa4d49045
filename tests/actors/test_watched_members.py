"""Watchers of all conversations at several members: each event comes once, or a gap follows.

An auditor compares what they got with the journal, after random stories: conversations move between members,
hints are lost, members stop and are killed.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any

import attrs
import pytest
import trio
from trio.testing import MockClock

from stopgo.actors.agent.agent import Agent
from stopgo.actors.agent.watch import Announced, Gap
from stopgo.actors.common.errors import AgentError
from stopgo.actors.conversation.conversation import IDLE
from stopgo.actors.log.writer.log import ConversationLog
from stopgo.actors.log.writer.relay import Relay
from stopgo.actors.workers.other_members import POLL
from stopgo.runtime.journal.memory.memory_journal import MemoryJournal
from stopgo.runtime.journal.ownership import HINTS_LOST
from stopgo.runtime.journal.protocol import Event
from tests.actors.several_members import LEASE, Members
from tests.actors.watcher_audit import Watcher
from tests.actors.world import after, say, wall

WATCH_FIRST = 5.0
"""Seconds after which new conversations count as created during the watch, whatever the clocks say."""
LATEST = LEASE + 2 * POLL + 1.0
"""Seconds until a watcher hears at the latest that events are missing."""


@pytest.fixture
def members(tmp_path: Path) -> Members:
    return Members(tmp_path, MemoryJournal(wall, lease=LEASE, member="a"))


@pytest.mark.parametrize("watched_for", [0.0, WATCH_FIRST])
async def test_conversation_that_moves_before_the_hint_of_its_creation(
    members: Members, autojump_clock: MockClock, watched_for: float
) -> None:
    """The hint comes when the conversation is loaded at the second member."""
    members.world("a").plan("agent", say("done"))
    members.world("b").plan("agent", say("done"))
    watcher = Watcher(wall, late=LATEST)
    async with members.agents("a", "b") as (a, b), trio.open_nursery() as nursery:
        await nursery.start(watcher.watch, b)
        await trio.sleep(watched_for)
        with _late_hints(members.store):
            id = (await a.start_conversation()).conversation.id
            await b.send(id, "go")
        await trio.sleep(2 * POLL)
        nursery.cancel_scope.cancel()
    kinds = [type(each) for _, each in watcher.got]
    assert (Gap in kinds) == (watched_for == 0.0), "a gap only if it is not known what was missed"
    assert [*watcher.mistakes({id: [*await members.store.events_since(id, 0)]})] == []


@contextmanager
def _late_hints(store: Any) -> Iterator[None]:
    """The hints of the first member come at the end of the block."""
    late: list[tuple[Any, ...]] = []
    store._changed = lambda *changed: late.append(changed)
    yield
    del store._changed
    for each in late:
        store._changed(*each)


async def test_deletion_of_a_conversation_from_before_the_watch(
    members: Members, autojump_clock: MockClock
) -> None:
    async with members.agents("a", "b") as (a, b):
        id = (await a.start_conversation()).conversation.id
        await trio.sleep(60)
        with b.all_events() as watched:
            await a.delete(id)
            assert await anext(watched) == Gap()


@pytest.mark.parametrize("messages", [0, 3], ids=["shorter", "longer"])
async def test_conversation_that_is_created_again_before_the_hint_of_its_deletion(
    members: Members, autojump_clock: MockClock, messages: int
) -> None:
    """Its new log is shorter or longer than what the watcher has of the first one."""
    members.world("a").plan("agent", *[say("done")] * (messages + 1))
    watcher = Watcher(wall, late=LATEST)
    async with members.agents("a", "b") as (a, b), trio.open_nursery() as nursery:
        await nursery.start(watcher.watch, b)
        await trio.sleep(WATCH_FIRST)
        id = (await a.start_conversation()).conversation.id
        await a.send(id, "go")
        await trio.sleep(2 * POLL)
        first = len(watcher.got)
        with _late_hints(members.store):
            await a.delete(id)
            await a.start_conversation(id=id)
            for _ in range(messages):
                await a.send(id, "again")
        await trio.sleep(2 * POLL)
        nursery.cancel_scope.cancel()
    got = [each.event for _, each in watcher.got[first:] if isinstance(each, Announced)]
    assert [each.type for each in got[:1]] == ["conversation.deleted"]
    assert got[1:] == [*await members.store.events_since(id, 0)]


async def test_conversation_that_another_member_takes_while_it_is_loaded(
    members: Members, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The member that loads it is suspended at its last step, then publishes the work of the other one."""
    for name in "ab":
        members.world(name).plan("agent", say("done"))
    journal: Any = members.members["b"].world.journal
    goes_on, load, renew = trio.Event(), Relay.load, journal.renew

    async def load_late(relay: Relay, log: ConversationLog) -> None:
        if relay._journal is journal:
            await goes_on.wait()
        await load(relay, log)

    async def renew_late() -> object:
        await goes_on.wait()
        return await renew()

    watcher = Watcher(wall, late=LATEST)
    async with members.agents("a", "b") as (a, b), trio.open_nursery() as nursery:
        await nursery.start(watcher.watch, b)
        await trio.sleep(WATCH_FIRST)
        id = (await a.start_conversation()).conversation.id
        await trio.sleep(2 * IDLE)
        monkeypatch.setattr(Relay, "load", load_late)
        await b.post(id, "go")
        journal.renew = renew_late
        await trio.sleep(3 * LEASE)
        assert [*await members.store.events_since(id, 0)][-1].type == "run.finished"
        goes_on.set()
        await trio.sleep(2 * POLL)
        nursery.cancel_scope.cancel()
    assert [*watcher.mistakes({id: [*await members.store.events_since(id, 0)]})] == []


# ------------------------------------------------------------------------ stories


@attrs.define(eq=False)
class Hints:
    """The hints of a member, which come late, or are lost."""

    journal: Any
    delay: float
    nursery: trio.Nursery
    lost: bool = False

    def changed(self, *change: Any) -> None:
        if not self.lost:
            self.nursery.start_soon(self._tell, change)

    async def _tell(self, change: tuple[Any, ...]) -> None:
        await trio.sleep(self.delay)
        if not self.lost:
            MemoryJournal._changed(self.journal, *change)


@attrs.define(eq=False)
class Story:
    """Random requests to random members, whose lives end."""

    members: Members
    rng: Random
    nursery: trio.Nursery
    lives: dict[str, tuple[Agent, trio.CancelScope, Hints]] = attrs.field(factory=dict)
    watchers: dict[str, Watcher] = attrs.field(factory=dict)
    committed: dict[str, list[Event]] = attrs.field(factory=dict)
    started: int = 0

    async def live(self, name: str, *, task_status: trio.TaskStatus[None]) -> None:
        world = self.members.world(name, self.members.store.another(name))
        world.plan("agent", after(self.rng.choice([0.01, 2.0]), say("done")))
        journal: Any = world.journal
        hints = Hints(journal, self.rng.choice([0.0, 0.01, 0.3]), self.nursery)
        journal._changed = hints.changed
        with trio.CancelScope() as life:
            async with self.members.agent(name) as agent:
                self.lives[name] = (agent, life, hints)
                task_status.started()
                await trio.sleep_forever()

    async def start(self) -> None:
        self.started += 1
        name = f"n{self.started}"
        await self.nursery.start(self.live, name)
        watcher = self.watchers[name] = Watcher(wall, late=LATEST)
        agent = self.lives[name][0]
        await self.nursery.start(watcher.watch, agent)

    async def end(self, name: str) -> None:
        """A kill loses the hints of the last commits, and leaves the lease."""
        _, life, hints = self.lives.pop(name)
        self.watchers[name].until = wall()
        if self.rng.random() < 0.6:
            self.members.kill(name)
            hints.lost = True
            await trio.sleep(self.rng.choice([0.0, 0.5]))
        life.cancel()

    async def lose_hints(self, name: str) -> None:
        hints = self.lives[name][2]
        hints.lost = True
        await trio.sleep(self.rng.choice([0.1, 3.0]))
        if name in self.lives:
            hints.lost = False
            hints.journal._hints.publish("hints", HINTS_LOST)

    async def request(self, name: str) -> None:
        agent = self.lives[name][0]
        existing = [id for id in self.committed if await self.members.store.row(id) is not None]
        try:
            if not existing or self.rng.random() < 0.3:
                turn = await agent.post_conversation(self.rng.choice([None, "go"]))
                self.committed[turn.conversation.id] = []
            elif self.rng.random() < 0.8:
                await agent.post(self.rng.choice(existing), "go")
            else:
                await self.note()
                await agent.delete(self.rng.choice(existing))
        except AgentError:
            pass  # the member stops, or the conversation is gone

    async def note(self) -> None:
        for id in self.committed:
            self.committed[id] = [*await self.members.store.events_since(id, 0)] or self.committed[id]

    async def run(self) -> None:
        for _ in range(3):
            await self.start()
        for _ in range(30):
            await trio.sleep(self.rng.choice([0.0, 0.0, 0.01, 0.5, 3.0, 20.0]))
            await self.note()
            name = self.rng.choice(sorted(self.lives))
            match self.rng.choice(["request"] * 8 + ["lose", "end"]):
                case "request":
                    await self.request(name)
                case "lose":
                    self.nursery.start_soon(self.lose_hints, name)
                case _ if len(self.lives) > 1:
                    await self.end(name)
                    await self.start()
        await trio.sleep(LATEST)
        await self.note()
        self.nursery.cancel_scope.cancel()


@pytest.mark.parametrize(
    "seed", [*range(12), *(pytest.param(n, marks=pytest.mark.crash) for n in range(12, 60))]
)
async def test_each_event_comes_once_or_a_gap_follows(
    members: Members, autojump_clock: MockClock, seed: int
) -> None:
    async with trio.open_nursery() as nursery:
        story = Story(members, Random(seed), nursery)
        await story.run()
    mistakes = [
        f"{name}: {each}"
        for name, watcher in story.watchers.items()
        for each in watcher.mistakes(story.committed)
    ]
    assert mistakes == []
