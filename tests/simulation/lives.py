"""Runs the story of a seed: process after process, until every command has its answer."""

from __future__ import annotations

import logging
import random
import traceback
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, cast, get_args

import attrs
import pytest
import trio
import trio._core._run
import trio.testing
import yaml

from stopgo.actors.agent.agent import Agent
from stopgo.actors.agent.open_agent import LOG_VERSION, open_agent
from stopgo.actors.log.fold.state import fold
from stopgo.actors.log.words.events import RunEnd
from stopgo.actors.log.writer import write_behind
from stopgo.actors.notify.delivery_store import KIND, read_deliveries
from stopgo.gateway.testing.crash_points import survive
from stopgo.gateway.testing.killing_journal import KillingJournal
from stopgo.gateway.testing.virtual_time import run_in_virtual_time
from stopgo.runtime.event_bus import Crashed
from stopgo.runtime.journal.memory.memory_journal import MemoryJournal
from stopgo.runtime.journal.protocol import Event, Journal
from stopgo.runtime.journal.sqlite.sqlite_journal import open_sqlite
from stopgo.runtime.stores.transfer import copy_journal
from tests.crash.noting_journal import NotingJournal
from tests.crash.verify_agents import check_agents
from tests.runtime.journal.kept import intents_of, reply_of

from .audit import Record, audit, difference
from .failing import FailingJournal, is_of_a_save
from .person import PATIENCE, Person
from .plan import Life, Plan, plan
from .short_extracts import short_extracts
from .traces import Traces
from .world import ServerCrash, World

RUN_ENDS = {each.type for each in get_args(RunEnd)}
MOST_WAITS = 500
"""The number of looks for notifications that wait."""
LIFE = 4 * PATIENCE
"""Seconds of simulated time for one process."""


class Wrong(AssertionError):
    """A violation, with the story in which it happened."""


@attrs.define(eq=False)
class Simulation:
    plan: Plan
    folder: Path | None = None
    """The data directory; None: the journal is in memory."""
    world: World = attrs.field(init=False)
    people: list[Person] = attrs.field(init=False)
    seen: dict[str, dict[int, Event]] = attrs.field(factory=lambda: defaultdict(dict))
    """Every event that was ever published, by conversation and seq."""
    commands: set[tuple[str, str]] = attrs.field(factory=set)
    traces: Traces = attrs.field(init=False)
    _memory: MemoryJournal | None = None

    def __attrs_post_init__(self) -> None:
        self.world = World(self.plan, self.plan.lives[0])
        self.traces = Traces(self.plan.lives, self.plan.saves_fail)
        self.people = [
            Person(self.world, f"c{n}", self.plan.rng("person", n), left=self.plan.commands)
            for n in range(self.plan.conversations)
        ]
        self.world.conversations = {person.name: person.id for person in self.people}

    def run(self) -> None:
        """Raises `Wrong`."""
        self._tell(*(partial(self._live, life) for life in self.plan.lives))

    def _tell(self, *parts: Callable[[], object]) -> None:
        """Run the parts of the story. Raises `Wrong`."""
        with _in_one_order(self.plan.seed), _flushed_after(self.plan), _errors_told(self.world):
            try:
                for part in parts:
                    part()
                    if self.world.wrongs:
                        raise Wrong(self.world.wrongs[0])
            except Exception as error:
                trace = "" if isinstance(error, Wrong) else "".join(traceback.format_exception(error))
                raise Wrong(f"{self.world.wrongs or error!r}\n{trace}\n{self.story()}") from error

    def _live(self, life: Life) -> None:
        self.world.life = life
        self.world.number += 1
        self._copy()
        survive(partial(self._process, life))
        run_in_virtual_time(self._look_at_the_record)

    def _copy(self) -> None:
        """Sometimes, the next life begins with a copy of the data directory."""
        number = self.world.number
        if self.folder is not None and number > 1 and self.plan.rng("copy", number).random() < 0.3:
            copy = self.folder / f"copy{number}"
            copy_journal(self.folder, copy)
            self.folder = copy
            self.world.told.append(f"the journal is copied to {copy.name}")

    # ---------------------------------------------------------------- a process

    async def _process(self, life: Life) -> None:
        world = self.world
        world.tell(f"a life begins: {life}")
        tasks = trio.lowlevel.current_statistics().tasks_living
        try:
            async with self._open_journal() as store:
                world.store = store
                world.closing = float("inf")
                for person in self.people:
                    await person.look_back(store)
                await world.look_back(store)
                kept = store
                if self.plan.saves_fail:
                    kept = cast(Journal, FailingJournal(store, self.plan.rng("saves", world.number)))
                noting = cast(Journal, NotingJournal(kept, self.commands))
                journal = world.journal = KillingJournal(noting, life.kill)
                async with open_agent(
                    self.plan.config(life),
                    journal=cast(Journal, journal),
                    wall=world.wall,
                    open_server=world.open_server,
                    open_remote_agent=world.peer.agent.open,
                    open_model=world.open_model,
                    open_channel=world.open_channel,
                    observers=[self.traces.observer(self.plan.config(life), world.wall)],
                ) as agent:
                    if world.halted and not agent.halt_state().halted:
                        world.wrongs.append("a halt was forgotten")
                    world.halted = agent.halt_state().halted
                    await self._through(agent, life)
                    world.closing = trio.current_time()
                await self._check_nothing_left(agent)
            living = trio.lowlevel.current_statistics().tasks_living
            if living != tasks:
                world.wrongs.append(f"{living - tasks} tasks are left")
        finally:
            world.tell("the life ends")
            world.night(self.plan.rng("night", world.number).choice([1.0, 60.0, 1000.0]))

    async def _through(self, agent: Agent, life: Life) -> None:
        async with trio.open_nursery() as nursery:
            await nursery.start(self._listen, agent)
            nursery.start_soon(self._halt, agent)
            with trio.move_on_after(LIFE) as scope:
                async with trio.open_nursery() as people:
                    for person in self.people:
                        people.start_soon(person.live, agent)
                    if life.drained_after is not None:
                        await trio.sleep(life.drained_after)
                        self.world.closing = trio.current_time()
                        await agent.drain(agent.config.shutdown_grace)
                        await trio.testing.wait_all_tasks_blocked()
                        people.cancel_scope.cancel()
            if scope.cancelled_caught:
                waiting = {person.name: sorted(person._open) for person in self.people}
                assert self.world.store is not None
                for person in self.people:
                    self.world.tell(f"{person.name} has left: {await self.world.store.inbox(person.id)}")
                self.world.wrongs.append(f"somebody waits for ever: {waiting}")
            elif life is self.plan.lives[-1]:
                await self._check_rest(agent)
            nursery.cancel_scope.cancel()

    async def _halt(self, agent: Agent) -> None:
        """Halt the agent now and then. Meanwhile no call leaves that may run once only."""
        world, rng = self.world, self.plan.rng("halts", self.world.number)
        for _ in range(self.plan.halts):
            if not agent.halt_state().halted:
                await trio.sleep(rng.choice([0.0, 0.1, 1.0, 10.0]))
                world.tell("the agent is being halted")
                state = await agent.halt()
                world.tell(f"the agent is halted, with {state.in_flight} calls in flight")
            world.halted = True
            await trio.sleep(rng.choice([0.0, 1.0, 10.0, 100.0]))
            world.halted = False
            world.tell("the halt ends")
            await agent.unhalt()

    async def _listen(self, agent: Agent, *, task_status: trio.TaskStatus[None]) -> None:
        """Receive all events, and compare live and stored state now and then."""
        rng = self.plan.rng("listener", self.world.number)
        services = agent._cast.services
        with services.logs.bus.subscribe(None, buffer=10_000) as heard:
            task_status.started()
            async for item in heard:
                if isinstance(item, Crashed):
                    await self._look_at_crash(item)
                if not isinstance(item, Event):
                    continue
                self.world.tell(f"    event {item.stream[:4]} {item.seq} {item.type} {_short(item.body)}")
                if self.seen[item.stream].setdefault(item.seq, item) != item:
                    self.world.wrongs.append(f"event {item.seq} was another one before")
                if rng.random() < 0.05:
                    await self._compare(agent)

    async def _look_at_crash(self, crash: Crashed) -> None:
        kind, _, id = crash.actor.partition(":")
        if not self._meant(crash.error):
            self.world.wrongs.append(f"an actor crashed: {crash!r}")
        elif kind == "conversation" and self.world.store is not None:
            await self.world.look_back(self.world.store, id)

    def _meant(self, crash: Exception) -> bool:
        return self.world.journal_is_dead or isinstance(crash, ServerCrash) or is_of_a_save(crash)

    async def _compare(self, agent: Agent) -> None:
        assert self.world.store is not None
        for id, log in list(agent._cast.services.logs.live.items()):
            events = await self.world.store.events_since(id, 0)
            live, now = log.state, agent._cast.services.logs.live.get(id)
            if self.world.journal_is_dead:
                return  # what unwinds does not matter any more
            if now is log and len(events) >= live.last_seq and (told := difference(live, events)):
                self.world.wrongs.append(f"{id}: {told}")

    # ------------------------------------------------------------------- checks

    async def _check_rest(self, agent: Agent) -> None:
        """At the end: no branch is active, no conversation is in memory, no approval is due."""
        for person in self.people:
            await person.check_answers(agent)
        await trio.sleep(30.0)
        await self._check_told()
        cast, wrongs = agent._cast, self.world.wrongs
        if cast.conversations.active or cast.services.logs.live:
            wrongs.append(f"{cast.conversations.active} conversations are still in memory")
        if cast.services.logs.active_runs.count:
            wrongs.append(f"{cast.services.logs.active_runs.count} runs count as moving")
        if cast.services.tokens._tokens:
            wrongs.append(f"tokens are still held: {list(cast.services.tokens._tokens.values())}")
        assert self.world.store is not None
        if open_work := await self.world.store.open_work():
            wrongs.append(f"there is open work: {open_work}")
        for stream, key in sorted(self.commands):
            person = next(person for person in self.people if person.id == stream)
            answer = person.answers.get(key)
            kept = person.deleting or isinstance(answer, str) or key.startswith("expire/")
            if not kept and key in person.answers and await reply_of(self.world.store, stream, key) is None:
                wrongs.append(f"{person.name}: {key} was accepted and never answered")

    async def _check_told(self) -> None:
        """At the end: each event that channels want is told once, or something newer is; and nothing else."""
        store, notify = self.world.store, self.plan.notify
        assert store is not None
        if notify is None:
            if await store.outbox(1) or await store.notes(KIND):
                self.world.wrongs.append("without channels, notifications are stored")
            return
        for _ in range(MOST_WAITS):
            deliveries = read_deliveries(await store.notes(KIND))
            if not (await store.outbox(1) or any(each.state == "pending" for each in deliveries.values())):
                break
            await trio.sleep(10.0)
        rows = await store.outbox(9)
        if rows:
            self.world.wrongs.append(f"rows are left in the outbox: {rows}")
        events = [each for person in self.people for each in await store.events_since(person.id, 0)]
        deleted = [person.id for person in self.people if person.deleting]
        self.world.wrongs += self.world.hooks.check(notify, events, deliveries, deleted)

    async def _check_nothing_left(self, agent: Agent) -> None:
        topics = {topic for topic in agent._cast.services.logs.bus._by_topic if topic is not None}
        if topics:
            self.world.wrongs.append(f"somebody still listens to {topics}")
        await trio.lowlevel.checkpoint()

    async def _look_at_the_record(self) -> None:
        async with self._open_journal() as store:
            await self._look_at_the_record_of(store)

    async def _look_at_the_record_of(self, store: Journal) -> None:
        for person in self.people:
            row = await store.row(person.id)
            events = await store.events_since(person.id, 0)
            if row is None or not row.last_seq:
                if (events or self.seen[person.id]) and not person.deleting:
                    self.world.wrongs.append(f"{person.name} is gone")
                continue
            page = await store.questions(state=None, streams=[person.id], limit=200)
            intents = await intents_of(store, person.id)
            inbox = await store.inbox(person.id)
            record = Record(person.id, events, row, page.questions, intents, inbox, self.world.came_to)
            self.world.wrongs += [f"{person.name}: {wrong}" for wrong in audit(record)]
            self._look_at_the_peer(person, events)
            self._check_traces(person)
            for seq, event in self.seen[person.id].items():
                if seq > len(events) or events[seq - 1].type != event.type:
                    self.world.wrongs.append(f"{person.name}: {event} was told and is lost")

    def _check_traces(self, person: Person) -> None:
        seen = self.seen[person.id].values()
        ended = [each.body["run"] for each in seen if each.type in RUN_ENDS]
        self.world.wrongs += [f"{person.name}: {wrong}" for wrong in self.traces.audit(ended)]

    def _look_at_the_peer(self, person: Person, events: Sequence[Event]) -> None:
        peer, wrongs = self.world.peer, self.world.wrongs
        wrongs += [f"{person.name}: {wrong}" for wrong in peer.check(person.name, events)]
        try:
            check_agents(events, fold(person.id, events).live_run is None, peer.agent)
        except AssertionError as wrong:
            wrongs.append(f"{person.name}: {wrong}")

    # ----------------------------------------------------------------- insides

    def _open_journal(self) -> AbstractAsyncContextManager[Journal]:
        if self.folder is not None:
            return open_sqlite(self.folder, wall=self.world.wall, inline=True, version=LOG_VERSION)
        if self._memory is None:
            self._memory = MemoryJournal(self.world.wall)
        return _kept(self._memory)

    def story(self) -> str:
        """The text of the story: the plan, and all that happened."""
        trees = "\n".join(yaml.safe_dump(tree, sort_keys=False) for tree in self.plan.trees)
        facts = attrs.asdict(self.plan, recurse=False, filter=lambda field, _: field.name != "trees")
        lines = [f"{key}: {value}" for key, value in facts.items()]
        return "\n".join([*lines, trees, *self.world.told, *self.world.wrongs])


@asynccontextmanager
async def _kept(journal: Journal) -> AsyncIterator[Journal]:
    yield journal


@contextmanager
def _in_one_order(seed: int) -> Iterator[None]:
    """Have trio schedule ready tasks in an order that the seed determines."""
    before = trio._core._run._ALLOW_DETERMINISTIC_SCHEDULING
    trio._core._run._ALLOW_DETERMINISTIC_SCHEDULING = True  # type: ignore[misc]
    trio._core._run._r.seed(seed)
    random.seed(seed)  # the jitter of restarts
    try:
        yield
    finally:
        trio._core._run._ALLOW_DETERMINISTIC_SCHEDULING = before  # type: ignore[misc]


@contextmanager
def _flushed_after(plan: Plan) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(write_behind, "MOMENT", plan.moment)
        patch.setattr(write_behind, "ROUNDS", plan.rounds)
        yield


class _Teller(logging.Handler):
    """Adds logged errors to the story."""

    def __init__(self, world: World) -> None:
        super().__init__(logging.ERROR)
        self._world = world

    def emit(self, record: logging.LogRecord) -> None:
        self._world.told.append(self.format(record))


@contextmanager
def _errors_told(world: World) -> Iterator[None]:
    logger, teller = logging.getLogger("stopgo"), _Teller(world)
    propagate, logger.propagate = logger.propagate, False
    logger.addHandler(teller)
    try:
        yield
    finally:
        logger.removeHandler(teller)
        logger.propagate = propagate


def _short(body: Any) -> str:
    shown = {key: body[key] for key in _SHOWN if key in body}
    return " ".join(f"{key}={value}" for key, value in shown.items())


_SHOWN = (
    "key",
    "kind",
    "outcome",
    "error",
    "attempt",
    "tool",
    "effect",
    "id",
    "code",
    "text",
    "settles",
    "on",
)


def simulate(seed: int, folder: Path | None = None) -> Simulation:
    """Raises `Wrong`, with the story."""
    simulation = Simulation(plan(seed), folder)
    with short_extracts():
        simulation.run()
    return simulation
