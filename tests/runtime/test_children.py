"""What lives inside an actor: background tasks, and children for one request."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import attrs
import pytest
import trio
import trio.testing
from trio.testing import MockClock

from stopgo.runtime.context import Behaviour, Context
from stopgo.runtime.errors import ActorCrashed, ActorUnavailable, AskCycle, Refused
from stopgo.runtime.event_bus import Crashed, EventBus, Started, Stopped
from stopgo.runtime.message import Request
from stopgo.runtime.restart import Backoff
from stopgo.runtime.supervision import open_supervisor
from stopgo.runtime.tasks import Background

pytestmark = pytest.mark.repeat(10)
once = pytest.mark.repeat(1)
"""For tests with one task at a time: there is no other order to try."""


@attrs.frozen
class Do(Request["Do", str]):
    what: str


def doing(log: list[str]) -> Behaviour[Do]:
    async def behaviour(ctx: Context[Do]) -> None:
        log.append("open")

        async def handle(message: Do) -> str:
            match message.what:
                case "crash":
                    raise OSError("broken")
                case "no":
                    raise Refused("no")
                case "wait":
                    await trio.sleep_forever()
                case "last":
                    ctx.stop()
            return message.what.upper()

        try:
            await ctx.serve(handle)
        finally:
            log.append("close")

    return behaviour


async def test_background_tasks_end_with_the_behaviour(autojump_clock: MockClock) -> None:
    log: list[str] = []

    async def behaviour(ctx: Context[Do]) -> None:
        async def tick(unwinds: float) -> None:
            try:
                while True:
                    await trio.sleep(1)
                    log.append("tick")
            finally:
                ctx.start_soon(trio.sleep_forever)  # who comes now is cancelled with the others
                with trio.CancelScope(shield=True):
                    await trio.sleep(unwinds)
                log.append("ticked")

        ctx.start_soon(tick, 5, name="ticking")
        ctx.start_soon(tick, 10)
        await doing(log)(ctx)

    async with open_supervisor(EventBus(), grace=20) as supervisor:
        ref = await supervisor.start("a", behaviour)
        await trio.sleep(1.5)
        began = trio.current_time()
        await supervisor.close()
        assert trio.current_time() == began + 10  # what is cancelled is waited for
        with pytest.raises(ActorUnavailable):
            await ref.ask(Do("x"))
    assert log == ["open", "tick", "tick", "close", "ticked", "ticked"]


async def test_a_crash_in_the_background_is_a_crash_of_the_actor(autojump_clock: MockClock) -> None:
    log: list[str] = []
    lives = 0

    async def behaviour(ctx: Context[Do]) -> None:
        nonlocal lives
        lives += 1

        async def fail() -> None:
            await trio.sleep(1)
            raise OSError("lost the connection")

        if lives == 1:
            ctx.start_soon(fail)
        try:
            await doing(log)(ctx)
        finally:
            with trio.CancelScope(shield=True):
                await trio.sleep(0.5)

    async with open_supervisor(EventBus(), backoff=Backoff(first=1, jitter=0)) as supervisor:
        ref = await supervisor.start("a", behaviour)
        with pytest.raises(ActorCrashed, match="a crashed: OSError") as crashed:
            await ref.ask(Do("wait"))
        assert isinstance(crashed.value.__cause__, OSError)
        with pytest.raises(ActorUnavailable, match="a has crashed"):
            await ref.ask(Do("x"))  # it is still tearing down
        await trio.sleep(1)
        await trio.sleep(1.5)
        assert await ref.ask(Do("x")) == "X"
    assert log == ["open", "close", "open", "close"]


async def test_crashes_of_behaviour_and_background_are_both_kept(autojump_clock: MockClock) -> None:
    async def behaviour(ctx: Context[Do]) -> None:
        async def fail() -> None:
            try:
                await trio.sleep_forever()
            finally:
                raise ValueError("could not clean up")

        ctx.start_soon(fail)
        await doing([])(ctx)

    bus = EventBus()
    with bus.subscribe("actors") as seen:
        async with open_supervisor(bus) as supervisor:
            ref = await supervisor.start("a", behaviour)
            with pytest.raises(ActorCrashed, match="OSError"):
                await ref.ask(Do("crash"))
    error = next(event.error for event in [e async for e in seen] if isinstance(event, Crashed))
    assert isinstance(error, ExceptionGroup)
    assert {type(each) for each in error.exceptions} == {OSError, ValueError}


@once
async def test_background_task_inherits_its_starters_context(autojump_clock: MockClock) -> None:
    """Also the first one, whose nursery is opened by another task."""
    cycles: list[tuple[str, ...]] = []

    async def behaviour(ctx: Context[Do]) -> None:
        done = trio.Event()

        async def ask_back() -> None:
            try:
                await ctx.ref.ask(Do("x"))
            except AskCycle as cycle:
                cycles.append(cycle.path)
            done.set()

        async def handle(message: Do) -> str:
            ctx.start_soon(ask_back)
            await done.wait()
            return ""

        await ctx.serve(handle)

    async with open_supervisor(EventBus()) as supervisor:
        ref = await supervisor.start("a", behaviour)
        await ref.ask(Do("x"))
    assert cycles == [("a", "a")]


async def test_a_context_of_the_past_starts_nothing(autojump_clock: MockClock) -> None:
    contexts: list[Context[Do]] = []

    async def plain(ctx: Context[Do]) -> None:
        contexts.append(ctx)
        await doing([])(ctx)

    async def with_background(ctx: Context[Do]) -> None:
        ctx.start_soon(trio.sleep_forever)
        await plain(ctx)

    async with open_supervisor(EventBus()) as supervisor:
        await supervisor.start("plain", plain)
        await supervisor.start("with_background", with_background)
        await supervisor.close()
        for ctx in contexts:
            with pytest.raises(RuntimeError, match="has ended"):
                ctx.start_soon(trio.sleep_forever)


def asks_new(name: str, child: Behaviour[Do]) -> Behaviour[Do]:
    """Has each of its requests answered by a child of its own."""

    async def behaviour(ctx: Context[Do]) -> None:
        async def handle(message: Do) -> str:
            return await ctx.ask_new(name, child, message)

        await ctx.serve(handle, concurrency=4)

    return behaviour


@once
async def test_a_child_starts_and_ends_with_its_request(autojump_clock: MockClock) -> None:
    log: list[str] = []
    bus = EventBus()
    with bus.subscribe("actors") as seen:
        async with open_supervisor(bus) as supervisor:
            ref = await supervisor.start("parent", asks_new("child", doing(log)))
            assert await ref.ask(Do("x")) == "X"
            assert log == ["open", "close"]
    assert [event async for event in seen] == [
        Started("parent", 1),
        Started("child", 1),
        Stopped("child"),
        Stopped("parent"),
    ]


@once
async def test_a_childs_crash_reaches_its_asker_and_the_bus_only(autojump_clock: MockClock) -> None:
    children: list[Context[Do]] = []

    async def child(ctx: Context[Do]) -> None:
        children.append(ctx)
        await doing([])(ctx)

    async def careful(ctx: Context[Do]) -> None:
        async def handle(message: Do) -> str:
            try:
                return await ctx.ask_new("child", child, message)
            except ActorCrashed as error:
                return repr(error.__cause__)

        await ctx.serve(handle)

    bus = EventBus()
    async with open_supervisor(bus) as supervisor:
        ref = await supervisor.start("parent", careful)
        with bus.subscribe("actors") as seen:
            assert await ref.ask(Do("crash")) == "OSError('broken')"
            await trio.testing.wait_all_tasks_blocked()
        assert await ref.ask(Do("x")) == "X"
        await trio.sleep(100)
        with pytest.raises(ActorUnavailable, match="child has stopped"):
            await children[0].ref.ask(Do("x"))  # it is not restarted
        assert len(children) == 2
    crashed: list[Any] = [event async for event in seen if isinstance(event, Crashed)]
    assert [event.actor for event in crashed] == ["child"]


@once
async def test_a_child_that_has_done_its_one_thing_leaves_nothing(autojump_clock: MockClock) -> None:
    async with open_supervisor(EventBus()) as supervisor:
        ref = await supervisor.start("parent", asks_new("child", doing([])))
        await ref.ask(Do("last"))
        await trio.testing.wait_all_tasks_blocked()
        tasks = trio.lowlevel.current_statistics().tasks_living
        for _ in range(20):
            assert await ref.ask(Do("last")) == "LAST"
        await trio.testing.wait_all_tasks_blocked()
        assert trio.lowlevel.current_statistics().tasks_living == tasks


async def test_a_child_for_one_request_is_gone_when_the_asker_goes_on(autojump_clock: MockClock) -> None:
    log: list[str] = []

    async def child(ctx: Context[Do]) -> None:
        async def stay() -> None:
            try:
                await trio.sleep_forever()
            finally:
                with trio.CancelScope(shield=True):
                    await trio.sleep(10)
                log.append("its task is gone")

        ctx.start_soon(stay)
        await doing(log)(ctx)

    async def behaviour(ctx: Context[Do]) -> None:
        async def handle(message: Do) -> str:
            try:
                with trio.move_on_after(1):
                    return await ctx.ask_new("child", child, message)
                return "given up"
            finally:
                log.append("goes on")

        await ctx.serve(handle)

    async with open_supervisor(EventBus(), grace=100) as supervisor:
        ref = await supervisor.start("parent", behaviour)
        for what, answer in (("last", "LAST"), ("x", "X"), ("wait", "given up")):
            log.clear()
            assert await ref.ask(Do(what)) == answer
            assert log == ["open", "close", "its task is gone", "goes on"]
        with pytest.raises(Refused, match="no"):
            await ref.ask(Do("no"))
        assert log[-1] == "goes on"


async def test_a_task_of_an_actor_can_be_cancelled_alone(autojump_clock: MockClock) -> None:
    async def behaviour(ctx: Context[Do]) -> None:
        ended: list[str] = []

        async def wait(name: str) -> None:
            try:
                await trio.sleep_forever()
            finally:
                ended.append(name)

        first = ctx.start_soon(wait, "first")
        ctx.start_soon(wait, "second")

        async def handle(message: Do) -> str:
            first.cancel()
            await trio.testing.wait_all_tasks_blocked()
            return ",".join(ended)

        await ctx.serve(handle)

    async with open_supervisor(EventBus()) as supervisor:
        ref = await supervisor.start("a", behaviour)
        assert await ref.ask(Do("x")) == "first"
        assert await ref.ask(Do("x")) == "first"


async def test_child_that_ends_without_serving_fails_the_ask(autojump_clock: MockClock) -> None:
    async def brief(ctx: Context[Do]) -> None:
        await trio.sleep(1)

    async with open_supervisor(EventBus()) as supervisor:
        ref = await supervisor.start("parent", asks_new("brief", brief))
        with pytest.raises(ActorCrashed) as crashed:
            await ref.ask(Do("x"))
    assert str(crashed.value.__cause__) == "brief was stopped before it answered"


@once
async def test_set_up_of_a_child_is_outside_the_ask(autojump_clock: MockClock) -> None:
    log: list[str] = []

    async def behaviour(ctx: Context[Do]) -> None:
        async def curious(child: Context[Do]) -> None:
            log.append(await ctx.ref.ask(Do("y")))
            await doing([])(child)

        async def handle(message: Do) -> str:
            return await ctx.ask_new("child", curious, message) if message == Do("x") else message.what

        await ctx.serve(handle, concurrency=2)

    async with open_supervisor(EventBus()) as supervisor:
        ref = await supervisor.start("parent", behaviour)
        assert await ref.ask(Do("x")) == "X"
    assert log == ["y"]


async def test_close_waits_for_a_task_started_last() -> None:
    log: list[str] = []
    going = trio.Event()

    async def last() -> None:
        try:
            await trio.sleep_forever()
        finally:
            going.set()

    async def late() -> None:
        await trio.lowlevel.cancel_shielded_checkpoint()
        log.append("late")

    async with trio.open_nursery() as nursery:
        background = Background(nursery, lambda _: None)

        async def somebody() -> None:
            await going.wait()
            with suppress(RuntimeError):  # it has closed already
                background.start_soon(late)
                log.append("started")

        background.start_soon(last)
        nursery.start_soon(somebody)
        await trio.testing.wait_all_tasks_blocked()
        await background.close()
        assert log in ([], ["started", "late"])


async def test_an_actor_has_not_stopped_before_its_background_has(autojump_clock: MockClock) -> None:
    log: list[str] = []

    async def behaviour(ctx: Context[Do]) -> None:
        async def tidy_up() -> None:
            try:
                await trio.sleep_forever()
            finally:
                with trio.CancelScope(shield=True):
                    await trio.sleep(10)
                log.append("tidied up")

        ctx.start_soon(tidy_up)
        await doing([])(ctx)

    bus = EventBus()

    async with trio.open_nursery() as nursery:
        with bus.subscribe("actors") as seen:

            async def note() -> None:
                async for event in seen:
                    log.append(type(event).__name__)

            nursery.start_soon(note)
            with trio.CancelScope() as scope:
                async with open_supervisor(bus) as supervisor:
                    await supervisor.start("a", behaviour)
                    await trio.testing.wait_all_tasks_blocked()
                    scope.cancel()
    assert log == ["Started", "tidied up", "Stopped"]


async def test_withdrawal_and_grandchildren(autojump_clock: MockClock) -> None:
    log: list[str] = []
    async with open_supervisor(EventBus()) as supervisor:
        grandparent = asks_new("parent", asks_new("child", doing(log)))
        ref = await supervisor.start("grandparent", grandparent)
        assert await ref.ask(Do("x")) == "X"
        with pytest.raises(Refused):
            await ref.ask(Do("no"))
        with trio.move_on_after(1):
            await ref.ask(Do("wait"))
        await trio.testing.wait_all_tasks_blocked()
        assert log == ["open", "close"] * 3
