"""Virtual actors: activation, passivation, restarts, poisoning and shutdown."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any
from weakref import WeakSet

import attrs
import pytest
import trio
import trio.testing
from trio.testing import MockClock

from stopgo.runtime.context import Behaviour, Context
from stopgo.runtime.event_bus import Crashed, EventBus, Restarting, Started, Stopped
from stopgo.runtime.journal.errors import Fenced, JournalBroken
from stopgo.runtime.message import Message
from stopgo.runtime.restart import Backoff
from stopgo.runtime.supervision import Supervisor, open_supervisor
from stopgo.runtime.virtual import VirtualActors

PLAIN = Backoff(first=1, factor=2, limit=60, jitter=0)
IDLE = 300.0


@attrs.frozen
class Wake(Message["Wake"]):
    pass


@attrs.define
class Inbox:
    """Commands that outlast their actors, and actors that process them when woken, like conversations.

    Asserts that no key has two incarnations at once, and that commands are processed in order.
    """

    waiting: dict[str, list[str]] = attrs.field(factory=dict)
    done: list[str] = attrs.field(factory=list)
    alive: set[str] = attrs.field(factory=set)
    activations: int = 0
    handled: int = 0
    loading: float = 0.0
    saving: float = 0.0
    working: float = 0.0
    busy: Callable[[], bool] = lambda: False
    progress: bool = False
    idle: float = IDLE

    def actors(self, supervisor: Supervisor, **options: Any) -> VirtualActors[Wake]:
        options.setdefault("poisoned", self.poisoned)
        return VirtualActors("v", self.behaviour, supervisor, backoff=PLAIN, **options)

    def put(self, actors: VirtualActors[Wake], key: str, *commands: str) -> None:
        self.waiting.setdefault(key, []).extend(commands)
        actors.wake(key, Wake())

    def behaviour(self, key: str) -> Behaviour[Wake]:
        async def behaviour(ctx: Context[Wake]) -> None:
            assert key not in self.alive
            self.alive.add(key)
            self.activations += 1
            try:
                await trio.sleep(self.loading)

                async def handle(wake: Wake) -> None:
                    assert wake == Wake()
                    self.handled += 1
                    while commands := self.waiting.get(key):
                        command = commands[0]
                        await trio.sleep(self.working)
                        if command == "crash":
                            raise OSError(f"{key} is broken")
                        if command == "fenced":
                            raise Fenced(f"another node owns {key}")
                        assert commands.pop(0) == command
                        self.done.append(command)
                        if self.progress:
                            ctx.progress()

                await ctx.serve(handle, idle_timeout=self.idle, busy=lambda: self.busy())
                await trio.sleep(self.saving)
            finally:
                self.alive.discard(key)

        return behaviour

    def poisoned(self, key: str, error: Exception) -> Behaviour[Wake]:
        async def behaviour(ctx: Context[Wake]) -> None:
            assert key not in self.alive
            self.done.append(f"poisoned by {error}")
            self.waiting[key].clear()

        return behaviour


async def test_wake_activates_and_idle_timeout_passivates(autojump_clock: MockClock) -> None:
    inbox = Inbox(saving=5)
    bus = EventBus()
    with bus.subscribe("actors") as seen:
        async with open_supervisor(bus) as supervisor:
            actors = inbox.actors(supervisor)
            assert actors.active == 0
            inbox.put(actors, "k", "a")
            assert actors.active == 1
            await trio.testing.wait_all_tasks_blocked()
            assert inbox.done == ["a"]
            await trio.sleep(IDLE + 4)
            assert actors.active == 1  # still saving
            await trio.sleep(2)
            assert actors.active == 0
            assert not actors._activations
    assert [event async for event in seen] == [Started("v:k", 1), Stopped("v:k")]


async def test_activation_whose_work_goes_on_elsewhere_ends(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    inbox, bus = Inbox(), EventBus()
    with bus.subscribe("actors") as seen:
        async with open_supervisor(bus) as supervisor:
            actors = inbox.actors(supervisor)
            inbox.put(actors, "k", "a", "fenced", "b")
            await trio.sleep(1000)
            assert (inbox.done, inbox.activations, actors.active) == (["a"], 1, 0)
            inbox.waiting["k"].pop(0)
            actors.wake("k", Wake())
            await trio.sleep(1000)
            assert (inbox.done, inbox.activations) == (["a", "b"], 2)
    assert [event async for event in seen] == [Started("v:k", 1), Stopped("v:k")] * 2
    assert not caplog.records


@pytest.mark.repeat(10)
async def test_wakes_are_combined_into_the_queued_one(autojump_clock: MockClock) -> None:
    inbox = Inbox(loading=1, working=1)
    async with open_supervisor(EventBus()) as supervisor:
        actors = inbox.actors(supervisor)
        for _ in range(10):
            actors.wake("k", Wake())
        await trio.sleep(0.5)
        for _ in range(10):
            actors.wake("k", Wake())
        await trio.sleep(1)
        assert (inbox.activations, inbox.handled) == (1, 1)
        inbox.put(actors, "k", "a")
        await trio.testing.wait_all_tasks_blocked()
        for _ in range(10):  # the handler runs once more, because it may have looked too early
            actors.wake("k", Wake())
        await trio.sleep(5)
        assert (inbox.activations, inbox.handled) == (1, 3)


@pytest.mark.repeat(20)
async def test_wake_at_the_idle_deadline_is_served_once(autojump_clock: MockClock) -> None:
    inbox = Inbox(idle=1)
    async with open_supervisor(EventBus()) as supervisor:
        actors = inbox.actors(supervisor)
        for number in range(50):
            inbox.put(actors, "k", str(number))
            await trio.sleep(1)
        await trio.sleep(10)
        assert inbox.done == [str(number) for number in range(50)]
        assert actors.active == 0


@pytest.mark.repeat(10)
@pytest.mark.parametrize("at", [0.5, 1, 1.5, 2, 2.5, 3, 3.5, 4])
async def test_wake_at_any_point_of_an_activation_is_served(autojump_clock: MockClock, at: float) -> None:
    """Loading until 1, idle until 3, saving until 4."""
    inbox = Inbox(loading=1, idle=2, saving=1)
    async with open_supervisor(EventBus()) as supervisor:
        actors = inbox.actors(supervisor)
        actors.wake("k", Wake())
        await trio.sleep(at)
        inbox.put(actors, "k", "a")
        await trio.sleep(10)
        assert inbox.done == ["a"]
        assert inbox.activations in ([1] if at < 3 else [1, 2])
        assert actors.active == 0


@pytest.mark.repeat(10)
async def test_busy_actor_is_not_passivated(autojump_clock: MockClock) -> None:
    busy = True
    inbox = Inbox(busy=lambda: busy)
    async with open_supervisor(EventBus()) as supervisor:
        actors = inbox.actors(supervisor)
        actors.wake("k", Wake())
        await trio.sleep(10 * IDLE)
        assert actors.active == 1
        busy = False
        await trio.sleep(IDLE + 1)
        assert actors.active == 0
        assert inbox.activations == 1


@pytest.mark.repeat(10)
async def test_crashed_key_restarts_without_affecting_others(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    inbox = Inbox()
    bus = EventBus()
    with bus.subscribe("actors") as seen:
        async with open_supervisor(bus) as supervisor:
            actors = inbox.actors(supervisor)
            inbox.put(actors, "other", "a")
            inbox.put(actors, "k", "crash")
            await trio.sleep(0.5)
            assert actors.active == 2
            inbox.waiting["k"] = ["b"]  # without a wake: the next incarnation looks anyway
            await trio.sleep(1)
            assert sorted(inbox.done) == ["a", "b"]
    events = [event async for event in seen if getattr(event, "actor", "") == "v:k"]
    assert [type(event) for event in events] == [Started, Crashed, Restarting, Started, Stopped]
    assert events[3] == Started("v:k", 2)
    delay = next(event.delay for event in events if isinstance(event, Restarting))
    [record] = caplog.records
    assert record.getMessage() == f"v:k crashed; restarting in {delay:.1f} s"
    assert record.exc_info is not None


async def test_key_is_poisoned_once_after_three_crashes(autojump_clock: MockClock) -> None:
    inbox = Inbox()
    bus = EventBus()
    with bus.subscribe("actors") as seen:
        async with open_supervisor(bus) as supervisor:
            actors = inbox.actors(supervisor)
            inbox.put(actors, "k", "crash")
            for _ in range(20):  # wakes neither shorten the back-off nor count as attempts
                await trio.sleep(0.1)
                actors.wake("k", Wake())
            await trio.sleep(0.5)
            assert inbox.activations == 2
            await trio.sleep(1)
            assert inbox.done == ["poisoned by k is broken"]
            assert inbox.activations == 3
            await trio.sleep(1000)
            assert actors.active == 0
            inbox.put(actors, "k", "a")
            await trio.sleep(1)
            assert inbox.done[1:] == ["a"]
    delays = [event.delay for event in [e async for e in seen] if isinstance(event, Restarting)]
    assert delays == [1, 2]


@pytest.mark.parametrize(
    "error", [JournalBroken("full"), ExceptionGroup("both", [OSError("x"), JournalBroken("full")])]
)
async def test_fatal_error_does_not_restart_a_key(
    error: Exception, autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    incarnations = 0

    def behaviour(key: str) -> Behaviour[Wake]:
        nonlocal incarnations
        incarnations += 1
        raise error

    async with open_supervisor(EventBus()) as supervisor:
        actors = Inbox().actors(supervisor)
        actors._behaviour = behaviour
        actors.wake("k", Wake())
        await trio.sleep(1000)
        assert (incarnations, actors.active) == (1, 0)
    assert caplog.records == []


async def test_progress_resets_the_crash_count(autojump_clock: MockClock) -> None:
    inbox = Inbox(progress=True)
    async with open_supervisor(EventBus()) as supervisor:
        actors = inbox.actors(supervisor)
        inbox.put(actors, "k", "crash")
        await trio.sleep(1.5)  # two crashes
        inbox.waiting["k"].insert(0, "progress")  # the third makes progress, then crashes
        await trio.sleep(2)
        assert inbox.done == ["progress"]
        await trio.sleep(1 + 2)
        assert inbox.activations == 5
        assert inbox.done == ["progress", "poisoned by k is broken"]


async def test_key_stays_inactive_if_the_poisoned_behaviour_crashes(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    inbox = Inbox()
    poisonings = 0

    def poisoned(key: str, error: Exception) -> Behaviour[Wake]:
        nonlocal poisonings
        poisonings += 1
        raise OSError("even this")

    async with open_supervisor(EventBus()) as supervisor:
        actors = inbox.actors(supervisor, poisoned=poisoned)
        inbox.put(actors, "k", "crash")
        await trio.sleep(1000)
        assert (inbox.activations, poisonings, actors.active) == (3, 1, 0)
        assert "k crashed again and will not restart" in caplog.records[-1].getMessage()
        assert "even this" in caplog.text
        actors.wake("k", Wake())
        await trio.sleep(1000)
        assert (inbox.activations, poisonings, actors.active) == (6, 2, 0)
        inbox.waiting["k"].clear()
        inbox.put(actors, "k", "a")
        await trio.sleep(1)
        assert inbox.done == ["a"]


async def test_key_restarts_if_the_poisoned_behaviour_progressed(autojump_clock: MockClock) -> None:
    inbox = Inbox()

    def poisoned(key: str, error: Exception) -> Behaviour[Wake]:
        async def behaviour(ctx: Context[Wake]) -> None:
            inbox.waiting[key][:] = ["a"]
            ctx.progress()
            raise OSError("something else")

        return behaviour

    async with open_supervisor(EventBus()) as supervisor:
        actors = inbox.actors(supervisor, poisoned=poisoned, attempts=1)
        inbox.put(actors, "k", "crash")
        await trio.sleep(0.5)
        assert (inbox.activations, inbox.done) == (1, [])  # the back-off comes first
        await trio.sleep(1)
        assert (inbox.activations, inbox.done) == (2, ["a"])


@pytest.mark.repeat(10)
@pytest.mark.parametrize("poison_crashes", [False, True])
async def test_wake_during_the_poisoned_behaviour_is_not_lost(
    autojump_clock: MockClock, poison_crashes: bool
) -> None:
    inbox = Inbox()

    def poisoned(key: str, error: Exception) -> Behaviour[Wake]:
        async def behaviour(ctx: Context[Wake]) -> None:
            inbox.waiting[key].clear()
            await trio.sleep(10)
            if poison_crashes:
                raise OSError("even this")

        return behaviour

    async with open_supervisor(EventBus()) as supervisor:
        actors = inbox.actors(supervisor, poisoned=poisoned, attempts=1)
        inbox.put(actors, "k", "crash")
        await trio.sleep(5)
        inbox.put(actors, "k", "a")
        await trio.sleep(5.5)
        assert inbox.activations == (1 if poison_crashes else 2)  # the back-off comes first
        await trio.sleep(1)
        assert inbox.done == ["a"]
        assert inbox.activations == 2


async def test_normal_end_resets_the_crash_count(autojump_clock: MockClock) -> None:
    inbox = Inbox(idle=1, saving=2)
    async with open_supervisor(EventBus()) as supervisor:
        actors = inbox.actors(supervisor)
        inbox.put(actors, "k", "crash")
        await trio.sleep(1.5)
        inbox.waiting["k"] = ["a"]
        await trio.sleep(3)  # the third incarnation has served and is saving
        assert inbox.activations == 3
        inbox.put(actors, "k", "crash")
        await trio.sleep(1.5 + 1 + 0.5)  # two more crashes
        inbox.waiting["k"] = ["b"]
        await trio.sleep(100)
        assert inbox.done == ["a", "b"]
        assert inbox.activations == 3 + 3


@pytest.mark.repeat(20)
async def test_close_does_not_wait_for_ended_actors(autojump_clock: MockClock) -> None:
    inbox = Inbox(idle=1)
    with trio.fail_after(2):
        async with open_supervisor(EventBus(), grace=1000) as supervisor:
            actors = inbox.actors(supervisor)
            for number in range(10):
                actors.wake(str(number), Wake())
            await trio.testing.wait_all_tasks_blocked()
            await trio.sleep(1)


async def test_crash_during_stop_is_not_poisoned(autojump_clock: MockClock) -> None:
    inbox = Inbox(working=1)
    async with open_supervisor(EventBus()) as supervisor:
        inbox.put(inbox.actors(supervisor, attempts=1), "k", "crash")
        await trio.testing.wait_all_tasks_blocked()
    assert inbox.activations == 1
    assert inbox.done == []


async def test_poisoned_behaviour_that_crashes_in_stop_is_not_restarted(autojump_clock: MockClock) -> None:
    inbox = Inbox()
    began = trio.current_time()

    def poisoned(key: str, error: Exception) -> Behaviour[Wake]:
        async def behaviour(ctx: Context[Wake]) -> None:
            await trio.sleep(3)
            raise OSError("even this")

        return behaviour

    async with open_supervisor(EventBus()) as supervisor:
        actors = inbox.actors(supervisor, poisoned=poisoned, attempts=1)
        inbox.put(actors, "k", "crash")
        await trio.sleep(1)
        actors.wake("k", Wake())
    assert trio.current_time() == began + 3
    assert inbox.activations == 1


async def test_behaviour_that_does_not_serve_runs_once_per_wake(autojump_clock: MockClock) -> None:
    runs: list[str] = []

    def brief(key: str) -> Behaviour[Wake]:
        async def behaviour(ctx: Context[Wake]) -> None:
            runs.append(key)
            await trio.sleep(1)

        return behaviour

    async with open_supervisor(EventBus()) as supervisor:
        actors = VirtualActors("v", brief, supervisor, poisoned=lambda key, error: brief(key))
        actors.wake("k", Wake())
        await trio.sleep(10)
        assert runs == ["k"]
        actors.wake("k", Wake())
        await trio.sleep(0.5)
        actors.wake("k", Wake())  # the behaviour may have looked already, so it must run again
        await trio.sleep(10)
        assert runs == ["k"] * 3
        assert actors.active == 0


async def test_failing_factory_counts_as_a_crash(autojump_clock: MockClock) -> None:
    poisonings: list[str] = []

    def broken(key: str) -> Behaviour[Wake]:
        raise OSError("no such key")

    def poisoned(key: str, error: Exception) -> Behaviour[Wake]:
        async def behaviour(ctx: Context[Wake]) -> None:
            poisonings.append(str(error))

        return behaviour

    async with open_supervisor(EventBus()) as supervisor:
        actors = VirtualActors("v", broken, supervisor, poisoned=poisoned, backoff=PLAIN)
        actors.wake("k", Wake())
        await trio.sleep(10)
        assert poisonings == ["no such key"]


@pytest.mark.repeat(10)
async def test_close_stops_all_keys_concurrently_in_start_order(autojump_clock: MockClock) -> None:
    inbox = Inbox(working=2)
    closed: list[tuple[str, float]] = []

    def named(name: str) -> Behaviour[Wake]:
        async def behaviour(ctx: Context[Wake]) -> None:
            async def handle(_: Wake) -> None:
                pass

            await ctx.serve(handle)
            actors.wake("late", Wake())  # served only before the keys are stopped
            closed.append((name, trio.current_time() - began))

        return behaviour

    bus = EventBus()
    async with open_supervisor(bus, grace=5) as supervisor:
        await supervisor.start("earlier", named("earlier"))
        actors = inbox.actors(supervisor)
        await supervisor.start("later", named("later"))
        for key in "abc":
            inbox.put(actors, key, key)
        inbox.put(actors, "long", "1", "2", "3", "4")
        inbox.put(actors, "broken", "crash")
        await trio.testing.wait_all_tasks_blocked()
        began = trio.current_time()
        with pytest.raises(ValueError, match="'v' is already running"):
            inbox.actors(supervisor)
    assert closed == [("later", 0), ("earlier", 5)]
    assert sorted(inbox.done) == ["1", "2", "a", "b", "c"]
    assert not inbox.alive
    assert inbox.activations == 6  # including `late`, and `broken` once: it crashed in the close
    actors.wake("k", Wake())
    assert actors.active == 0


@pytest.mark.repeat(10)
@pytest.mark.parametrize("how", ["cancelled", "waiting to restart"])
async def test_no_task_outlives_the_supervisor(autojump_clock: MockClock, how: str) -> None:
    inbox = Inbox(loading=3)
    tasks = trio.lowlevel.current_statistics().tasks_living
    with trio.CancelScope() as scope:
        async with open_supervisor(EventBus()) as supervisor:
            actors = inbox.actors(supervisor)
            await supervisor.start("later", inbox.behaviour("later"))  # stopped before the keys
            inbox.put(actors, "k", "crash")
            if how == "cancelled":
                await trio.sleep(1)
                scope.cancel()
                await trio.sleep_forever()
            await trio.sleep(3.5)
    assert trio.lowlevel.current_statistics().tasks_living == tasks
    assert inbox.activations == 2
    actors.wake("k", Wake())
    assert actors.active == 0
    assert not inbox.alive


@pytest.mark.repeat(20)
async def test_wake_at_the_end_of_the_block_does_not_delay_it(autojump_clock: MockClock) -> None:
    inbox = Inbox(loading=3)
    began = trio.current_time()
    async with open_supervisor(EventBus(), grace=100) as supervisor:
        inbox.put(inbox.actors(supervisor), "k", "a")
    elapsed = trio.current_time() - began
    assert (inbox.activations, inbox.done, elapsed) in [(0, [], 0), (1, ["a"], 3)]


@pytest.mark.repeat(20)
async def test_commands_run_once_in_order_despite_crashes(autojump_clock: MockClock) -> None:
    inbox = Inbox(idle=1, loading=1, saving=1, working=0.5, progress=True)
    flaky = iter(range(10**6))

    def behaviour(key: str) -> Behaviour[Wake]:
        async def sometimes_broken(ctx: Context[Wake]) -> None:
            if next(flaky) % 3 == 0:
                raise OSError("bad luck")
            await inbox.behaviour(key)(ctx)

        return sometimes_broken

    async with open_supervisor(EventBus(), grace=1000) as supervisor:
        actors = VirtualActors(
            "v", behaviour, supervisor, poisoned=lambda key, error: inbox.behaviour(key), backoff=PLAIN
        )
        for number in range(30):
            for key in ["a", "b", "c"]:
                inbox.put(actors, key, f"{key}{number}")
            await trio.sleep(number % 7 / 2)
        await trio.sleep(200)
        assert actors.active == 0
    for key in ["a", "b", "c"]:
        assert [c for c in inbox.done if c[0] == key] == [f"{key}{number}" for number in range(30)]


async def test_ended_actor_leaves_no_garbage(autojump_clock: MockClock) -> None:
    incarnations = WeakSet[Any]()

    def behaviour(key: str) -> Behaviour[Wake]:
        async def serve(ctx: Context[Wake]) -> None:
            incarnations.add(ctx._incarnation)
            ctx.start_soon(trio.lowlevel.checkpoint)

            async def handle(_: Wake) -> None:
                await trio.lowlevel.checkpoint()

            await ctx.serve(handle, idle_timeout=IDLE)

        return serve

    gc.disable()
    try:
        async with open_supervisor(EventBus()) as supervisor:
            actors = VirtualActors("v", behaviour, supervisor, poisoned=lambda key, error: behaviour(key))
            actors.wake("a", Wake())
            await trio.sleep(IDLE / 2)
            assert len(incarnations) == 1
            await trio.sleep(IDLE)
            assert len(incarnations) == 0
    finally:
        gc.enable()
