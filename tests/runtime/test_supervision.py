from __future__ import annotations

from typing import Any, TypeAlias

import attrs
import pytest
import trio
import trio.testing
from trio.testing import MockClock

from stopgo.runtime.context import Behaviour, Context
from stopgo.runtime.errors import ActorCrashed, ActorError, ActorUnavailable, Fatal, RestartLimitReached
from stopgo.runtime.event_bus import Crashed, EventBus, Restarting, Started, Stopped, Subscription
from stopgo.runtime.message import Request
from stopgo.runtime.ref import ActorRef
from stopgo.runtime.restart import Backoff, Intensity
from stopgo.runtime.supervision import open_supervisor

pytestmark = pytest.mark.repeat(10)
once = pytest.mark.repeat(1)
"""For tests with one task at a time: there is no other order to try."""

PLAIN = Backoff(first=1, factor=2, limit=30, jitter=0, healthy=50)
OFTEN = Intensity(restarts=1000, period=1)


@attrs.frozen
class Work(Request["Work", None]):
    """Takes `seconds`; negative: crashes."""

    seconds: float = 0.0


@attrs.define
class Log:
    """What workers did, with the time since the log was made."""

    entries: list[tuple[str, float]] = attrs.field(factory=list)
    began: float = attrs.field(factory=trio.current_time)

    def add(self, what: str) -> None:
        self.entries.append((what, trio.current_time() - self.began))

    def worker(self, name: str = "w", *, starts: float = 0, closes: float = 0) -> Behaviour[Work]:
        async def behaviour(ctx: Context[Work]) -> None:
            await trio.sleep(starts)
            self.add(f"{name} opens")

            async def handle(work: Work) -> None:
                if work.seconds < 0:
                    raise OSError("broken")
                await trio.sleep(work.seconds)
                self.add(f"{name} worked")

            try:
                await ctx.serve(handle)
                await trio.sleep(closes)
            finally:
                self.add(f"{name} closes")

        return behaviour


async def crash(ref: ActorRef[Work]) -> None:
    with pytest.raises(ActorCrashed):
        await ref.ask(Work(-1))


Asked: TypeAlias = list[object]


async def try_ask(asked: Asked, ref: ActorRef[Work], work: Work) -> None:
    try:
        await ref.ask(work)
        asked.append(None)
    except ActorError as error:
        asked.append(error)


async def ask_in_order(nursery: trio.Nursery, asked: Asked, ref: ActorRef[Work], *works: Work) -> None:
    for work in works:
        nursery.start_soon(try_ask, asked, ref, work)
        await trio.testing.wait_all_tasks_blocked()


async def lifecycle(subscription: Subscription) -> list[Any]:
    return [event async for event in subscription]


@once
async def test_start_waits_until_the_actor_serves(autojump_clock: MockClock) -> None:
    log = Log()
    async with open_supervisor(EventBus()) as supervisor:
        ref = await supervisor.start("w", log.worker(starts=3))
        assert trio.current_time() == log.began + 3
        assert ref.name == "w"
        with pytest.raises(ValueError, match="'w' is already running"):
            await supervisor.start("w", log.worker())


@once
async def test_a_failed_first_start_is_the_starters_error(autojump_clock: MockClock) -> None:
    async def broken(ctx: Context[Work]) -> None:
        async with trio.open_nursery():
            raise OSError("no such command")

    async def brief(ctx: Context[Work]) -> None:
        pass

    async def broken_beside(ctx: Context[Work]) -> None:
        ctx.start_soon(broken, ctx)
        await trio.sleep_forever()

    bus = EventBus()
    with bus.subscribe("actors") as seen:
        async with open_supervisor(bus) as supervisor:
            for behaviour in [broken, broken_beside]:
                with pytest.raises(OSError, match=r"^no such command$"):
                    await supervisor.start("s", behaviour)
            with pytest.raises(ActorUnavailable, match="s ended before it served"):
                await supervisor.start("s", brief)
            assert await supervisor.start("s", Log().worker())  # the name is free again
    assert [type(event) for event in await lifecycle(seen)] == [Started, Stopped]


@once
async def test_a_starter_that_gives_up_takes_the_start_with_it(autojump_clock: MockClock) -> None:
    log = Log()
    async with open_supervisor(EventBus()) as supervisor:
        with trio.move_on_after(1) as gave_up:
            await supervisor.start("w", log.worker(starts=5))
        assert gave_up.cancelled_caught
        await trio.sleep(10)
        assert log.entries == []
        assert await supervisor.start("w", log.worker())  # the name is free again


@pytest.mark.parametrize("begun", [False, True])
async def test_an_actor_that_is_stopped_while_it_starts(autojump_clock: MockClock, begun: bool) -> None:
    log = Log()
    begins = trio.Event()
    async with open_supervisor(EventBus(), grace=1) as supervisor:

        async def starter() -> None:
            begins.set()
            with pytest.raises(
                ActorUnavailable, match=f"w (ended{'' if begun else '|was stopped'}) before it served"
            ):
                await supervisor.start("w", log.worker(starts=100))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(starter)
            await begins.wait()
            if begun:
                await trio.testing.wait_all_tasks_blocked()
            await supervisor.close()
    assert log.entries == []


@once
async def test_an_actor_that_is_stopped_while_it_rests(autojump_clock: MockClock) -> None:
    log = Log()
    async with open_supervisor(EventBus(), backoff=PLAIN) as supervisor:
        ref = await supervisor.start("w", log.worker())
        await crash(ref)
        await trio.sleep(0.5)
        await supervisor.close()
        assert trio.current_time() == log.began + 0.5
        with pytest.raises(ActorUnavailable, match="w has stopped"):
            await ref.ask(Work())
        await trio.sleep(10)
    assert log.entries == [("w opens", 0), ("w closes", 0)]


@once
async def test_a_crash_restarts_that_child_alone(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    log = Log()
    bus = EventBus()
    with bus.subscribe("actors") as seen:
        async with open_supervisor(bus, backoff=PLAIN) as supervisor:
            first = await supervisor.start("a", log.worker("a"))
            second = await supervisor.start("b", log.worker("b"))
            await crash(first)
            with pytest.raises(ActorUnavailable, match="a is waiting to be restarted"):
                await first.ask(Work())
            await second.ask(Work())
            await trio.sleep(1.5)
            await first.ask(Work())
    assert [entry for entry, _ in log.entries] == [
        "a opens",
        "b opens",
        "a closes",
        "b worked",
        "a opens",
        "a worked",
        "b closes",
        "a closes",
    ]
    events = await lifecycle(seen)
    assert events == [
        Started("a", 1),
        Started("b", 1),
        Crashed("a", events[2].error),
        Restarting("a", 1),
        Started("a", 2),
        Stopped("b"),
        Stopped("a"),
    ]
    assert isinstance(events[2].error, OSError)  # itself, not the nursery's group
    [record] = caplog.records
    assert record.getMessage() == "a crashed; restarting in 1.0 s"
    assert record.exc_info is not None
    assert record.exc_info[1] is events[2].error


@once
async def test_fatal_error_does_not_restart_a_child(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    async def told(ctx: Context[Work]) -> None:
        async def handle(_: Work) -> None:
            raise Fatal("the disk is full")

        await ctx.serve(handle)

    async with open_supervisor(EventBus()) as supervisor:
        ref = await supervisor.start("w", told)
        await crash(ref)
        await trio.sleep(100)
        with pytest.raises(ActorUnavailable, match="w has stopped"):
            await ref.ask(Work())
    assert caplog.records == []


@once
async def test_a_child_that_ends_by_itself_is_not_restarted(autojump_clock: MockClock) -> None:
    async def brief(ctx: Context[Work]) -> None:
        async def handle(work: Work) -> None:
            ctx.stop()

        await ctx.serve(handle)

    async with open_supervisor(EventBus()) as supervisor:
        ref = await supervisor.start("w", brief)
        await ref.ask(Work())  # the message that stops it is still answered
        with pytest.raises(ActorUnavailable, match=r"w (is stopping|has stopped)"):
            await ref.ask(Work())
        await trio.testing.wait_all_tasks_blocked()
        with pytest.raises(ActorUnavailable, match="w has stopped"):
            await ref.ask(Work())
        assert await supervisor.start("w", Log().worker())  # the name is free again


@once
async def test_back_off_is_per_child_and_forgets_after_a_healthy_period(autojump_clock: MockClock) -> None:
    bus = EventBus()
    with bus.subscribe("actors") as seen:
        async with open_supervisor(bus, backoff=PLAIN, intensity=OFTEN) as supervisor:
            first = await supervisor.start("a", Log().worker())
            second = await supervisor.start("b", Log().worker())
            for wait in [1.5, 2.5, 4.5]:
                await crash(first)
                await trio.sleep(wait)
            await crash(second)
            await trio.sleep(49)
            await crash(first)  # one second short of healthy
            await trio.sleep(8.5)
            await trio.sleep(50)
            await crash(first)
    restarts = [(event.actor, event.delay) for event in await lifecycle(seen) if type(event) is Restarting]
    assert restarts == [("a", 1), ("a", 2), ("a", 4), ("b", 1), ("a", 8), ("a", 1)]


@once
async def test_back_off_has_jitter(autojump_clock: MockClock) -> None:
    log = Log()
    backoff = Backoff(first=8, jitter=0.5, random=lambda: 0.5)
    async with open_supervisor(EventBus(), backoff=backoff) as supervisor:
        await crash(await supervisor.start("w", log.worker()))
        await trio.sleep(10)
    assert log.entries == [("w opens", 0), ("w closes", 0), ("w opens", 6), ("w closes", 10)]


@once
async def test_a_restart_that_fails_is_one_more_crash(autojump_clock: MockClock) -> None:
    lives = 0

    async def behaviour(ctx: Context[Work]) -> None:
        nonlocal lives
        lives += 1
        if 1 < lives < 4:
            raise OSError("still broken")
        await Log().worker()(ctx)

    bus = EventBus()
    with bus.subscribe("actors") as seen:
        async with open_supervisor(bus, backoff=PLAIN, intensity=OFTEN) as supervisor:
            ref = await supervisor.start("w", behaviour)
            await crash(ref)
            await trio.sleep(1 + 2 + 4 + 0.5)
            await ref.ask(Work())
    starts = [event.incarnation for event in await lifecycle(seen) if type(event) is Started]
    assert starts == [1, 4]


async def test_too_many_restarts_end_the_supervisor(autojump_clock: MockClock) -> None:
    log = Log()

    async def crash_too_often() -> None:
        async with open_supervisor(EventBus(), intensity=Intensity(2, 60), backoff=PLAIN) as supervisor:
            first = await supervisor.start("a", log.worker("a"))
            await supervisor.start("b", log.worker("b"))
            for wait in [1.5, 2.5]:
                await crash(first)
                await trio.sleep(wait)
            await crash(first)
            await trio.sleep_forever()

    with pytest.raises(RestartLimitReached, match=r"^a: more than 2 restarts in 60 s$") as reached:
        await crash_too_often()
    assert isinstance(reached.value.__cause__, OSError)
    assert log.entries[-1] == ("b closes", 4)


@once
async def test_restarts_long_ago_do_not_count(autojump_clock: MockClock) -> None:
    async with open_supervisor(EventBus(), intensity=Intensity(1, 60), backoff=PLAIN) as supervisor:
        ref = await supervisor.start("w", Log().worker())
        for _ in range(5):
            await crash(ref)
            await trio.sleep(60)


async def test_a_graceful_stop_drains_what_was_accepted(autojump_clock: MockClock) -> None:
    asked: Asked = []
    async with open_supervisor(EventBus()) as supervisor:
        ref = await supervisor.start("w", Log().worker(), mailbox=1)
        async with trio.open_nursery() as nursery:
            await ask_in_order(nursery, asked, ref, Work(1), Work(1), Work(1))  # the last one finds no room
            nursery.start_soon(supervisor.close)
            nursery.start_soon(supervisor.close)  # twice at once is no trouble
            await trio.testing.wait_all_tasks_blocked()
            with pytest.raises(ActorUnavailable, match="w is stopping"):
                await ref.ask(Work())
        with pytest.raises(ActorUnavailable, match="w has stopped"):
            await ref.ask(Work())
    assert [type(answer) for answer in asked] == [ActorUnavailable, type(None), type(None)]


async def test_grace_is_bounded_and_remaining_asks_fail(autojump_clock: MockClock) -> None:
    asked: Asked = []
    log = Log()
    async with open_supervisor(EventBus(), grace=1.5) as supervisor:
        ref = await supervisor.start("w", log.worker())
        async with trio.open_nursery() as nursery:
            await ask_in_order(nursery, asked, ref, Work(1), Work(1), Work(1))
            await supervisor.close()
            assert trio.current_time() == log.began + 1.5
    assert asked[0] is None
    assert [str(error) for error in asked[1:]] == ["w was stopped before it answered"] * 2
    assert all(isinstance(error, ActorCrashed) and error.__cause__ is None for error in asked[1:])
    assert log.entries == [("w opens", 0), ("w worked", 1), ("w closes", 1.5)]


async def test_leaving_the_block_stops_all_in_reverse_under_one_deadline(autojump_clock: MockClock) -> None:
    log = Log()
    async with open_supervisor(EventBus(), grace=5) as supervisor:
        for name in "abcd":
            await supervisor.start(name, log.worker(name, closes=2))
    assert log.entries[4:] == [("d closes", 2), ("c closes", 4), ("b closes", 5), ("a closes", 5)]


async def test_a_group_stops_side_by_side_in_the_turn_of_its_last(autojump_clock: MockClock) -> None:
    log = Log()
    async with open_supervisor(EventBus(), grace=7) as supervisor:
        for name, closes, group in [
            ("a", 1, None),
            ("b", 9, "g"),
            ("c", 2, "g"),
            ("d", 1, "g"),
            ("e", 1, None),
        ]:
            await supervisor.start(name, log.worker(name, closes=closes), group=group)
    assert log.entries[5:] == [
        ("e closes", 1),
        ("d closes", 2),
        ("c closes", 3),
        ("b closes", 7),
        ("a closes", 7),
    ]


async def test_later_children_may_still_use_earlier_ones_while_they_drain(autojump_clock: MockClock) -> None:
    log = Log()
    async with trio.open_nursery() as askers:
        async with open_supervisor(EventBus()) as supervisor:
            base = await supervisor.start("base", log.worker("base"))

            async def user(ctx: Context[Work]) -> None:
                async def handle(work: Work) -> None:
                    await trio.sleep(1)
                    await base.ask(work)

                await ctx.serve(handle)

            ref = await supervisor.start("user", user)
            askers.start_soon(ref.ask, Work(1))
            await trio.testing.wait_all_tasks_blocked()
    assert log.entries == [("base opens", 0), ("base worked", 2), ("base closes", 2)]


async def test_close_refuses_new_actors_and_restarts(autojump_clock: MockClock) -> None:
    log = Log()
    bus = EventBus()
    async with open_supervisor(bus, backoff=PLAIN) as supervisor:
        resting = await supervisor.start("resting", log.worker("resting"))
        crashing = await supervisor.start("crashing", log.worker("crashing", closes=1))
        await crash(resting)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(try_ask, [], crashing, Work(1.5))  # longer than the other rests
            await trio.testing.wait_all_tasks_blocked()
            nursery.start_soon(try_ask, [], crashing, Work(-1))
            await trio.testing.wait_all_tasks_blocked()
            with bus.subscribe("actors") as seen:
                await supervisor.close()
        with pytest.raises(ActorUnavailable, match="cannot start new: its supervisor is closing"):
            await supervisor.start("new", log.worker())
        await supervisor.close()
        assert trio.current_time() == log.began + 1.5
    assert [type(event) for event in await lifecycle(seen)] == [Crashed]
    assert [entry for entry, _ in log.entries if "opens" in entry] == ["resting opens", "crashing opens"]


async def test_an_error_in_the_block_leaves_as_it_is_after_the_drain(autojump_clock: MockClock) -> None:
    log = Log()
    async with trio.open_nursery() as askers:

        async def fail() -> None:
            async with open_supervisor(EventBus()) as supervisor:
                ref = await supervisor.start("w", log.worker())
                askers.start_soon(ref.ask, Work(1))
                await trio.testing.wait_all_tasks_blocked()
                raise OSError("mine")

        with pytest.raises(OSError, match=r"^mine$"):
            await fail()
    assert log.entries == [("w opens", 0), ("w worked", 1), ("w closes", 1)]


async def test_a_supervisor_nests_in_an_actor(autojump_clock: MockClock) -> None:
    log = Log()

    async def parent(ctx: Context[Work]) -> None:
        async with open_supervisor(EventBus(), intensity=Intensity(0)) as children:
            child = await children.start("child", log.worker("child"))

            async def handle(work: Work) -> None:
                await child.ask(work)

            await ctx.serve(handle)

    bus = EventBus()
    with bus.subscribe("actors") as seen:
        async with open_supervisor(bus, backoff=PLAIN) as supervisor:
            ref = await supervisor.start("parent", parent)
            await crash(ref)
            await trio.sleep(1.5)
            await ref.ask(Work())
    crashed = next(event for event in await lifecycle(seen) if type(event) is Crashed)
    assert isinstance(crashed.error, ActorCrashed | RestartLimitReached | ExceptionGroup)
    assert log.entries[-2:] == [("child worked", 1.5), ("child closes", 1.5)]


async def test_nothing_is_left_running(autojump_clock: MockClock) -> None:
    tasks = trio.lowlevel.current_statistics().tasks_living
    async with open_supervisor(EventBus(), grace=1) as supervisor:
        refs: list[ActorRef[Work]] = []

        async def behaviour(ctx: Context[Work]) -> None:
            ctx.start_soon(trio.sleep_forever)
            ctx.start_soon(ctx.ask_new, "child", Log().worker(), Work(1000))
            await Log().worker()(ctx)

        for number in range(5):
            refs.append(await supervisor.start(str(number), behaviour))
        await crash(refs[1])
        await crash(refs[3])
        async with trio.open_nursery() as nursery:
            await ask_in_order(nursery, [], refs[0], Work(100), Work(100))
            await supervisor.close()
    assert trio.lowlevel.current_statistics().tasks_living == tasks
