"""Runs the story of a seed on one to four members at a time, on one journal.

Members are killed, paused and shut down at random, and start again under new names, some with an older
version. The users do what clients behind a load balancer do: each request goes to any member, and is repeated
with the same key when its member dies or does not answer.

A pause holds a member at its next access to the journal, and before its calls leave. Time goes on for it, so
that its lease runs out.
"""

from __future__ import annotations

import copy
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from random import Random
from typing import Any, cast

import attrs
import pytest
import trio

from stopgo.actors.agent.agent import Agent
from stopgo.actors.agent.open_agent import LOG_VERSION, open_agent
from stopgo.actors.common.errors import AgentError
from stopgo.actors.workers import other_members
from stopgo.actors.workers.other_members import POLL
from stopgo.gateway.testing.killing_journal import EDGES, Kill, Killed, KillingJournal
from stopgo.gateway.testing.virtual_time import run_in_virtual_time
from stopgo.runtime.event_bus import Crashed, Subscription
from stopgo.runtime.journal.errors import JournalUnavailable, NeedsNewer
from stopgo.runtime.journal.local_member import LocalMember
from stopgo.runtime.journal.memory.memory_journal import MemoryJournal
from stopgo.runtime.journal.ownership import HINTS_LOST
from stopgo.runtime.journal.protocol import Event, Journal
from stopgo.runtime.journal.sqlite.sqlite_journal import open_sqlite
from tests.actors.watcher_audit import Watcher
from tests.crash.noting_journal import NotingJournal

from .audit import difference
from .lives import Simulation
from .person import PATIENCE, Person
from .plan import plan
from .short_extracts import short_extracts
from .world import ServerCrash, World

LEASE = 10.0
TROUBLE = 600.0
"""Seconds during which members are killed, paused and shut down. Afterwards each runs until the end."""
PAUSES = (0.5, 5.0, 9.5, 11.0, 30.0, 30.0, 200.0)
"""Lengths of pauses in seconds."""
POLLS = (POLL, 5 * POLL, 5 * POLL)
"""Seconds between two polls for the changes of other members. Often long: polls take most of the time."""
HEARD_AFTER = 60.0
"""Seconds after which a member without trouble has told its watchers of everything, or of a gap."""
REPEATED = frozenset({"shutting_down", "journal_unavailable", "node_unavailable", "needs_newer_version"})
"""Codes after which clients repeat a request with its key, at another member."""
LOST_HINTS = 0.2
"""The share of the hints that are lost."""
HINTS_LOST_AFTER = 10.0
"""Seconds until a member hears that hints were lost: as long as it takes to listen again."""


@attrs.define(eq=False)
class MemberJournal:
    """The journal as one member uses it: it can be paused, and loses hints."""

    _journal: Any
    _rng: Random
    nursery: trio.Nursery
    tell: Callable[[str], None]
    claimed: Callable[[str], Awaitable[object]]
    """Called when the member has claimed a stream: what the owner before had not saved is lost."""
    running: trio.Event = attrs.field(factory=trio.Event)
    """Set unless the member is paused."""
    is_away: bool = False
    """The member cannot reach the store. Some of its writes arrive, and only their answers are lost."""

    lost_answers: bool = False
    """Writes were made whose answers were lost. Until they end, activations do not know of these events."""

    def __attrs_post_init__(self) -> None:
        self.running.set()

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._journal, name)
        if name in ("member", "version"):
            return method

        async def use(*args: Any, **kwargs: Any) -> Any:
            await self.here(0.01)
            if self.is_away and self._rng.random() < 0.7:
                await trio.sleep(0.1)
                raise JournalUnavailable("the connection was refused")
            outcome = await method(*args, **kwargs)
            with trio.CancelScope(shield=True):  # as a journal: what has begun returns its outcome
                if name == "claim":
                    await self.claimed(args[0])
                await self.here(0.01)
            if self.is_away:
                self.lost_answers = True
                raise JournalUnavailable("the connection was lost")
            return outcome

        return use

    async def here(self, chance: float) -> None:
        """A place at which the member may be paused."""
        if self.running.is_set() and trio.current_time() < TROUBLE and self._rng.random() < chance:
            self.pause(self._rng.choice(PAUSES))
        await self.running.wait()

    def pause(self, seconds: float) -> None:
        async def go_on() -> None:
            await trio.sleep(seconds)
            self.running.set()
            self.tell("goes on")

        if self.running.is_set():
            self.running = trio.Event()
            self.tell(f"is paused for {seconds} s")
            self.nursery.start_soon(go_on)

    @contextmanager
    def watch(self) -> Iterator[Subscription]:
        with self._journal.watch() as hints:
            heard = hints._wants

            async def tell() -> None:
                await trio.sleep(HINTS_LOST_AFTER)
                hints._offer(HINTS_LOST)

            def hears(hint: Any) -> bool:
                if hint is not HINTS_LOST and self._rng.random() < LOST_HINTS:
                    self.nursery.start_soon(tell)
                    return False
                return bool(heard(hint))

            hints._wants = hears
            yield hints


@attrs.define(eq=False)
class Member:
    world: World
    journal: MemberJournal
    killing: KillingJournal
    watcher: Watcher
    version: int
    agent: Agent | None = None
    requests: trio.Nursery | None = None
    """Runs the requests that the member serves; None if it takes none."""


@attrs.define(eq=False)
class _Answer:
    done: trio.Event = attrs.field(factory=trio.Event)
    found: Any = None
    refused: AgentError | None = None
    came: bool = False


@attrs.define(eq=False)
class Fleet:
    """A user's view of the agent: any member. It has the methods of `Agent` that users call."""

    rng: Random
    people: Sequence[Person]
    _journal: Journal
    """The store, for users who look."""
    members: list[Member] = attrs.field(factory=list)
    draining: trio.Event = attrs.field(factory=trio.Event)

    def __getattr__(self, name: str) -> Callable[..., Awaitable[Any]]:
        async def request(*args: Any, **kwargs: Any) -> Any:
            # A creation that arrived after the deletion would create the conversation anew.
            may_repeat = (
                (lambda: not self._is_deleted(kwargs["key"])) if name == "start_conversation" else None
            )
            return await self._request(lambda agent: getattr(agent, name)(*args, **kwargs), may_repeat)

        return request

    def _is_deleted(self, key: str) -> bool:
        return any(person.deleting for person in self.people if person._first == key)

    async def _request(
        self, ask: Callable[[Agent], Awaitable[Any]], may_repeat: Callable[[], bool] | None
    ) -> Any:
        while True:
            member = await self._any()
            answer, requests = _Answer(), member.requests
            if requests is None:
                continue
            requests.start_soon(_serve, ask, member, answer)
            with trio.move_on_after(PATIENCE if may_repeat else self.rng.choice([5.0, 100.0, PATIENCE])):
                await answer.done.wait()
            code = None if answer.refused is None else answer.refused.code
            if answer.came and code not in REPEATED:
                if answer.refused is not None:
                    raise answer.refused
                return answer.found
            if may_repeat is not None and not may_repeat():
                raise AgentError("conversation_not_found", "it was deleted")
            await trio.sleep(self.rng.choice([0.0, 0.1, 1.0]))

    async def _any(self) -> Member:
        while True:
            open_ones = [member for member in self.members if member.requests is not None]
            if open_ones:
                return self.rng.choice(open_ones)
            await trio.sleep(0.5)


async def _serve(ask: Callable[[Agent], Awaitable[Any]], member: Member, answer: _Answer) -> None:
    try:
        await member.journal.running.wait()
        assert member.agent is not None
        try:
            answer.found = await ask(member.agent)
        except AgentError as error:
            answer.refused = error
        except (JournalUnavailable, NeedsNewer):  # the gateway answers as below
            answer.refused = AgentError("journal_unavailable", "")
        await member.journal.running.wait()
        answer.came = True
    finally:
        answer.done.set()


@attrs.define(eq=False)
class MemberWorld(World):
    """The world of one member: it shares with the others all but what belongs to the process."""

    member_journal: MemberJournal | None = None

    async def pause(self) -> None:
        assert self.member_journal is not None
        await self.member_journal.here(0.1)


@attrs.define(eq=False)
class FleetSimulation(Simulation):
    """The story of a seed on several members."""

    _names: int = 0
    _pauses: trio.Nursery = attrs.field(init=False)
    """Ends the pauses of members."""

    def run(self) -> None:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(other_members, "POLL", self.plan.rng("poll").choice(POLLS))
            self._tell(lambda: run_in_virtual_time(self._story))

    async def _story(self) -> None:
        rng = self.plan.rng("fleet")
        self.world._past = 1_000_000.0
        if self.folder is None:
            await self._with(rng, MemoryJournal(self.world.wall, lease=LEASE, member="observer"))
            return
        async with open_sqlite(
            self.folder, wall=self.world.wall, inline=True, lease=LEASE, member="observer"
        ) as store:
            await self._with(rng, store)

    async def _with(self, rng: Random, store: Journal) -> None:
        self.world.store = store
        fleet = Fleet(self.plan.rng("doors"), self.people, store)
        async with trio.open_nursery() as nursery:
            self._pauses = nursery
            for number in range(rng.choice([1, 2, 2, 3, 4])):
                nursery.start_soon(self._slot, fleet, store, self.plan.rng("slot", number), number)
            with trio.move_on_after(4 * PATIENCE) as scope:
                async with trio.open_nursery() as people:
                    for person in self.people:
                        person.lateness = 2_000.0
                        people.start_soon(person.live, cast(Agent, fleet))
            if scope.cancelled_caught:
                waiting = {person.name: sorted(person._open) for person in self.people}
                self.world.wrongs.append(f"somebody waits for ever: {waiting}")
            else:
                await self._check_fleet(fleet, store)
            nursery.cancel_scope.cancel()
        await self._look_at_the_record_of(store)

    def _check_traces(self, person: Person) -> None:
        """Not of several members: spans that a member has not exported are lost with it."""

    # ------------------------------------------------------------------- members

    async def _slot(self, fleet: Fleet, store: Journal, rng: Random, number: int) -> None:
        """One member after another."""
        await trio.sleep(rng.choice([0.0, 0.0, 1.0, 30.0]))
        while True:
            self._names += 1
            name = f"{number}.{self._names}"
            await self._live_member(fleet, store, rng, name)
            self.world.tell(f"member {name} is gone")
            await self.world.look_back(store)
            await trio.sleep(rng.choice([0.1, 1.0, 30.0]))

    async def _live_member(self, fleet: Fleet, store: Journal, rng: Random, name: str) -> None:
        life = self.plan.lives[-1]
        calm = trio.current_time() > TROUBLE
        kill = Kill(rng.randint(1, 60), rng.choice(EDGES)) if not calm and rng.random() < 0.5 else None
        world = self._world_of(name)
        version = LOG_VERSION - int(not calm and rng.random() < 0.2)
        handle = cast(LocalMember, store).another(name, version=version)
        killing = KillingJournal(cast(Journal, NotingJournal(cast(Journal, handle), self.commands)), kill)
        journal = world.member_journal = MemberJournal(
            killing,
            self.plan.rng("hints", name),
            self._pauses,
            lambda what: self.world.tell(f"member {name} {what}"),
            partial(self.world.look_back, store),
        )
        world.journal, world.life = killing, life
        member = Member(world, journal, killing, Watcher(world.wall, late=HEARD_AFTER), version)
        skew = rng.choice([0.0, 0.0, -3600.0, 86_400.0])
        self.world.tell(f"member {name} starts with version {version}: {kill}, its clock is {skew} s ahead")
        fleet.members.append(member)
        try:
            async with open_agent(
                self.plan.config(life),
                journal=cast(Journal, journal),
                wall=lambda: world.wall() + skew,
                open_server=world.open_server,
                open_remote_agent=world.peer.agent.open,
                open_model=world.open_model,
                open_channel=world.open_channel,
                lease_clock=trio.current_time,
            ) as member.agent:
                async with trio.open_nursery() as nursery:
                    await nursery.start(self._hear, member)
                    await nursery.start(member.watcher.watch, member.agent)
                    async with trio.open_nursery() as requests:
                        member.requests = requests
                        try:
                            await self._suffer(member, rng, name)
                        finally:
                            member.requests = None
                        requests.cancel_scope.cancel()
                    nursery.cancel_scope.cancel()
        except BaseException as error:
            if not (killing.dead and has_killed(error)):
                raise
        finally:
            fleet.members.remove(member)

    def _world_of(self, name: str) -> MemberWorld:
        world = copy.copy(self.world)
        fields = {field.name: getattr(world, field.name) for field in attrs.fields(World) if field.init}
        member_world = MemberWorld(**{key.lstrip("_"): value for key, value in fields.items()})
        member_world.peer = self.world.peer
        member_world._working = type(member_world._working)()
        member_world.crashed = False
        return member_world

    async def _suffer(self, member: Member, rng: Random, name: str) -> None:
        """The events in the life of a member until its end. Returns for a clean shutdown."""
        while trio.current_time() < TROUBLE:
            await trio.sleep(rng.choice([0.1, 1.0, 5.0, 20.0, 100.0]))
            match rng.choice(["pause", "pause", "pause", "away", "drain", "kill"]):
                case "pause":
                    member.journal.pause(rng.choice(PAUSES))
                case "away":
                    self.world.tell(f"member {name} cannot reach the store")
                    member.journal.is_away = True
                    await trio.sleep(rng.choice([0.5, 5.0, 30.0]))
                    member.journal.is_away = False
                    self.world.tell(f"member {name} reaches the store")
                case "drain":
                    self.world.tell(f"member {name} shuts down")
                    assert member.agent is not None
                    await member.agent.drain(member.agent.config.shutdown_grace)
                    await trio.sleep(0.1)
                    return
                case "kill":
                    self.world.tell(f"member {name} is killed")
                    member.killing.dead = True
                    member.killing._die_if_dead()
        if member.version == LOG_VERSION:
            await trio.sleep_forever()

    async def _hear(self, member: Member, *, task_status: trio.TaskStatus[None]) -> None:
        """Every member publishes the same events."""
        assert member.agent is not None
        services, rng = member.agent._cast.services, self.plan.rng("listener", member.killing.member)
        with services.logs.bus.subscribe(None, buffer=10_000) as heard:
            task_status.started()
            async for item in heard:
                if isinstance(item, Crashed) and not (
                    isinstance(item.error, ServerCrash) or member.killing.dead
                ):
                    self.world.wrongs.append(f"an actor crashed: {item!r}")
                if isinstance(item, Event):
                    self._note(item)
                    if rng.random() < 0.05:
                        await self._compare_member(member)

    def _note(self, item: Event) -> None:
        if item.type == "conversation.deleted":
            return
        if item.seq not in self.seen[item.stream]:
            self.world.tell(f"    event {item.stream[:4]} {item.seq} {item.type} {dict(item.body)}")
        if self.seen[item.stream].setdefault(item.seq, item) != item:
            self.world.wrongs.append(f"event {item.seq} was another one before")

    async def _compare_member(self, member: Member) -> None:
        assert member.agent is not None
        assert self.world.store is not None
        if member.journal.lost_answers:
            return
        for id, log in list(member.agent._cast.services.logs.live.items()):
            events = await self.world.store.events_since(id, 0)
            if member.killing.dead or not cast(LocalMember, self.world.store)._owners.owns(log.tenure.fence):
                continue
            if len(events) >= log.state.last_seq and (told := difference(log.state, events)):
                self.world.wrongs.append(f"{id}: {told}")

    # ------------------------------------------------------------------- checks

    async def _check_fleet(self, fleet: Fleet, store: Journal) -> None:
        """At the end: every command is answered by its key on any member, and nothing is left."""
        for person in self.people:
            await person.check_answers(cast(Agent, fleet))
        await trio.sleep(max(60.0, TROUBLE + 400.0 - trio.current_time()))  # paused members go on
        await self._check_told()
        if open_work := await store.open_work():
            self.world.wrongs.append(f"there is open work: {open_work}")
        committed = {id: [*await store.events_since(id, 0)] for id in self.seen}
        for member in fleet.members:
            if member.agent is None or member.requests is None:
                continue
            self.world.wrongs += [
                f"a watcher at {member.killing.member}: {each}" for each in member.watcher.mistakes(committed)
            ]
            cast_ = member.agent._cast
            if cast_.conversations.active or cast_.services.logs.live:
                self.world.wrongs.append(
                    f"conversations are still in memory: {list(cast_.services.logs.live)}"
                )
            if cast_.services.logs.active_runs.count:
                self.world.wrongs.append(f"{cast_.services.logs.active_runs.count} runs count as moving")
            if cast_.services.tokens._tokens:
                self.world.wrongs.append(f"tokens are still held: {cast_.services.tokens._tokens}")


def has_killed(error: BaseException) -> bool:
    """Whether the member was killed. Other errors beside that are of tasks that unwind."""
    if isinstance(error, BaseExceptionGroup):
        return any(has_killed(each) for each in error.exceptions)
    return isinstance(error, Killed)


def simulate_fleet(seed: int, folder: Path | None = None) -> FleetSimulation:
    """Raises `Wrong`, with the story."""
    simulation = FleetSimulation(plan(seed), folder)
    with short_extracts():
        simulation.run()
    return simulation
