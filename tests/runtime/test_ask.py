"""An ask behaves like a call: values, refusals, crashes and cancellation cross it."""

from __future__ import annotations

import gc
import weakref
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from contextvars import ContextVar
from typing import Any, TypeAlias

import attrs
import pytest
import trio
import trio.testing
from trio.testing import MockClock

from stopgo.runtime.context import Behaviour, Context
from stopgo.runtime.errors import ActorCrashed, ActorError, ActorUnavailable, AskCycle, Refused
from stopgo.runtime.event_bus import EventBus
from stopgo.runtime.mailbox import Mailbox
from stopgo.runtime.message import Message, Request
from stopgo.runtime.ref import ActorRef
from stopgo.runtime.restart import Backoff
from stopgo.runtime.supervision import Supervisor, open_supervisor

pytestmark = pytest.mark.repeat(10)
once = pytest.mark.repeat(1)
"""For tests with one task at a time: there is no other order to try."""


@attrs.frozen
class Run(Request["ToolMessage", str]):
    argument: str


@attrs.frozen
class Note(Message["ToolMessage"]):
    text: str


ToolMessage: TypeAlias = Run | Note


def tool(log: list[str], *, concurrency: int = 1, slow_close: float = 0) -> Behaviour[ToolMessage]:
    """Takes a second for each run; `crash` crashes, `no` is refused, `group ...` does it in a nursery."""

    @asynccontextmanager
    async def session() -> AsyncIterator[None]:
        log.append("open")
        try:
            yield
        finally:
            with trio.CancelScope(shield=True):
                await trio.sleep(slow_close)
            log.append("close")

    async def run(argument: str) -> str:
        if argument.startswith("group "):
            async with trio.open_nursery() as nursery:
                for each in argument.removeprefix("group ").split("+"):
                    nursery.start_soon(run, each)
        if argument.startswith("crash"):
            raise OSError("pipe closed")
        if argument.startswith("no"):
            raise Refused(f"refused {argument}")
        try:
            await trio.sleep(1)
        except trio.Cancelled:
            log.append(f"cancelled {argument}")
            raise
        return argument.upper()

    async def behaviour(ctx: Context[ToolMessage]) -> None:
        async with session():

            async def handle(message: ToolMessage) -> object:
                match message:
                    case Run(argument=argument):
                        log.append(f"run {argument}")
                        return await run(argument)
                    case Note(text=text):
                        log.append(f"note {text}")
                        return None

            await ctx.serve(handle, concurrency=concurrency)

    return behaviour


Asked: TypeAlias = dict[str, object]


async def try_ask(asked: Asked, ref: ActorRef[Any], request: Request[Any, Any], key: str) -> None:
    try:
        asked[key] = await ref.ask(request)
    except ActorError as error:
        asked[key] = error


async def ask_in_order(nursery: trio.Nursery, asked: Asked, ref: ActorRef[Any], *arguments: str) -> None:
    for argument in arguments:  # one by one, for trio shuffles what is ready together
        nursery.start_soon(try_ask, asked, ref, Run(argument), argument)
        await trio.testing.wait_all_tasks_blocked()


async def test_crash_fails_running_queued_and_blocked_asks_at_once(autojump_clock: MockClock) -> None:
    log: list[str] = []
    asked: Asked = {}
    began = trio.current_time()
    # The tear-down of the broken session takes 100 s, and nobody waits for it.
    async with open_supervisor(EventBus(), backoff=Backoff(first=2, jitter=0), grace=1000) as supervisor:
        ref = await supervisor.start("files", tool(log, slow_close=100), mailbox=2)
        async with trio.open_nursery() as askers:
            await ask_in_order(askers, asked, ref, "a", "crash", "queued1", "queued2", "blocked")
        assert trio.current_time() == began + 1
        assert asked["a"] == "A"
        for argument in ["crash", "queued1"]:
            error = asked[argument]
            assert isinstance(error, ActorCrashed)
            assert isinstance(error.__cause__, OSError)
            assert str(error) == "files crashed: OSError('pipe closed')"
        assert asked["crash"] is not asked["queued1"]  # or their tracebacks would mix
        assert isinstance(asked["queued2"], ActorCrashed)  # room was made for it when `crash` was taken
        assert isinstance(asked["blocked"], ActorUnavailable)
        with pytest.raises(ActorUnavailable, match="files has crashed"):
            await ref.ask(Run("early"))
        await trio.sleep(101)
        with pytest.raises(ActorUnavailable, match="files is waiting to be restarted"):
            await ref.ask(Run("early"))
        await trio.sleep(1.5)
        assert await ref.ask(Run("b")) == "B"  # the same ref, a new life
    assert log == ["open", "run a", "run crash", "close", "open", "run b", "close"]


async def test_message_waiting_for_room_at_the_end_is_unavailable(autojump_clock: MockClock) -> None:
    asked: Asked = {}

    async def behaviour(ctx: Context[ToolMessage]) -> None:
        async def die() -> None:
            await trio.sleep(1)
            raise OSError("died")

        async def handle(message: ToolMessage) -> None:
            await trio.sleep_forever()

        ctx.start_soon(die)
        await ctx.serve(handle)

    async with open_supervisor(EventBus()) as supervisor:
        ref = await supervisor.start("s", behaviour, mailbox=1)
        async with trio.open_nursery() as askers:
            await ask_in_order(askers, asked, ref, "running", "accepted", "blocked")
    assert isinstance(asked["running"], ActorCrashed)
    assert isinstance(asked["accepted"], ActorCrashed)
    assert isinstance(asked["blocked"], ActorUnavailable)


async def test_cancelling_an_asker_withdraws_its_request(autojump_clock: MockClock) -> None:
    log: list[str] = []
    asked: Asked = {}
    async with open_supervisor(EventBus()) as supervisor:
        ref = await supervisor.start("s", tool(log), mailbox=1)
        async with trio.open_nursery() as askers:
            await ask_in_order(askers, asked, ref, "first")
            with trio.move_on_after(0.5):
                async with trio.open_nursery() as others:
                    await ask_in_order(others, asked, ref, "queued", "blocked")
        with trio.move_on_after(0.5) as gave_up:
            await ref.ask(Run("running"))
        assert gave_up.cancelled_caught
        assert await ref.ask(Run("next")) == "NEXT"  # in the same life
        with trio.CancelScope() as cancelled:
            cancelled.cancel()
            await ref.ask(Run("never"))
        await trio.sleep(5)
    assert asked == {"first": "FIRST"}
    assert log == ["open", "run first", "run running", "cancelled running", "run next", "close"]


@once
async def test_withdrawal_reaches_through_a_chain_of_asks(autojump_clock: MockClock) -> None:
    log: list[str] = []

    async def relay(ctx: Context[ToolMessage]) -> None:
        async def handle(message: ToolMessage) -> object:
            if isinstance(message, Run):
                await last.ask(message)
            return None

        await ctx.serve(handle)

    async with open_supervisor(EventBus()) as supervisor:
        last = await supervisor.start("last", tool(log))
        first = await supervisor.start("first", relay)
        with trio.move_on_after(0.5):
            await first.ask(Run("x"))
        await trio.testing.wait_all_tasks_blocked()
        assert log == ["open", "run x", "cancelled x"]


@once
@pytest.mark.parametrize("concurrency", [1, 3])
async def test_refusal_reaches_its_asker_and_the_actor_runs_on(
    autojump_clock: MockClock, concurrency: int
) -> None:
    log: list[str] = []
    async with open_supervisor(EventBus()) as supervisor:
        ref = await supervisor.start("s", tool(log, concurrency=concurrency))
        with pytest.raises(Refused, match=r"^refused no$"):
            await ref.ask(Run("no"))
        with pytest.raises(Refused, match=r"^refused no$"):
            await ref.ask(Run("group no"))
        assert await ref.ask(Run("a")) == "A"
    assert log.count("open") == 1


async def test_group_of_refusals_is_one_unless_it_holds_a_crash(autojump_clock: MockClock) -> None:
    async with open_supervisor(EventBus()) as supervisor:
        ref = await supervisor.start("s", tool([]))
        for group in ("group no1+no2", "group group no1+no2"):
            with pytest.raises(Refused, match=r"^refused no.; refused no.$") as refused:
                await ref.ask(Run(group))
            assert isinstance(refused.value.__cause__, ExceptionGroup)
        with pytest.raises(ActorCrashed, match="pipe closed") as crashed:
            await ref.ask(Run("group no1+crash"))
        assert isinstance(crashed.value.__cause__, ExceptionGroup)


async def test_an_ask_waits_for_room(autojump_clock: MockClock) -> None:
    log: list[str] = []
    asked: Asked = {}
    began = trio.current_time()
    async with open_supervisor(EventBus()) as supervisor:
        ref = await supervisor.start("s", tool(log), mailbox=1)
        async with trio.open_nursery() as askers:
            await ask_in_order(askers, asked, ref, "a", "b")
            with trio.move_on_after(0.5) as gave_up:
                await ref.ask(Run("given up"))
            assert gave_up.cancelled_caught
            assert await ref.ask(Run("kept")) == "KEPT"
            assert trio.current_time() == began + 3
    assert log == ["open", "run a", "run b", "run kept", "close"]


async def test_messages_are_handled_side_by_side_up_to_the_concurrency(autojump_clock: MockClock) -> None:
    began = trio.current_time()
    async with open_supervisor(EventBus()) as supervisor:
        ref = await supervisor.start("s", tool([], concurrency=3))
        for _ in range(2):  # the second time all places were free again
            async with trio.open_nursery() as askers:
                for _ in range(6):
                    askers.start_soon(ref.ask, Run("x"))
        assert trio.current_time() == began + 2 + 2


async def test_waiting_messages_are_handled_in_order(autojump_clock: MockClock) -> None:
    log: list[str] = []
    asked: Asked = {}
    async with open_supervisor(EventBus()) as supervisor:
        ref = await supervisor.start("s", tool(log, concurrency=2))
        async with trio.open_nursery() as askers:
            await ask_in_order(askers, asked, ref, *"abcdef")
    runs = [entry.removeprefix("run ") for entry in log if entry.startswith("run")]
    assert ["".join(sorted(runs[at : at + 2])) for at in (0, 2, 4)] == ["ab", "cd", "ef"]


@once
async def test_handler_task_has_the_context_of_its_actor(autojump_clock: MockClock) -> None:
    whose: ContextVar[str] = ContextVar("whose", default="nobody's")

    async def behaviour(ctx: Context[ToolMessage]) -> None:
        async def handle(message: ToolMessage) -> str:
            return whose.get()

        whose.set("the actor's")
        await ctx.serve(handle, concurrency=2)

    async with open_supervisor(EventBus()) as supervisor:
        ref = await supervisor.start("s", behaviour)
        whose.set("the asker's")
        assert await ref.ask(Run("x")) == "the actor's"


@once
@pytest.mark.parametrize("concurrency", [1, 2])
async def test_an_ask_lets_others_run(autojump_clock: MockClock, concurrency: int) -> None:
    async def behaviour(ctx: Context[ToolMessage]) -> None:
        async def handle(message: ToolMessage) -> str:
            return "at once"

        await ctx.serve(handle, concurrency=concurrency)

    async with open_supervisor(EventBus()) as supervisor:
        ref = await supervisor.start("s", behaviour)
        with trio.testing.assert_checkpoints():
            assert await ref.ask(Run("x")) == "at once"


async def test_stopped_actor_handles_accepted_messages_concurrently(autojump_clock: MockClock) -> None:
    log: list[str] = []
    asked: Asked = {}
    async with open_supervisor(EventBus()) as supervisor, trio.open_nursery() as stops:
        ref = await supervisor.start("s", tool(log, concurrency=2))
        async with trio.open_nursery() as askers:
            await ask_in_order(askers, asked, ref, *"abcd")
            stops.start_soon(supervisor.close)
            await trio.testing.wait_all_tasks_blocked()
            with pytest.raises(ActorUnavailable, match="s is stopping"):
                await ref.ask(Run("late"))
    assert asked == {"a": "A", "b": "B", "c": "C", "d": "D"}
    assert log[-1] == "close"


async def test_message_during_unwinding_is_not_handled(autojump_clock: MockClock) -> None:
    handled: list[str] = []

    async def behaviour(ctx: Context[ToolMessage]) -> None:
        async def handle(message: ToolMessage) -> None:
            assert isinstance(message, Run)
            handled.append(message.argument)
            try:
                await trio.sleep_forever()
            finally:
                with trio.CancelScope(shield=True):
                    await trio.sleep(10)

        async def fail() -> None:
            await trio.sleep(1)
            raise OSError("died")

        async with trio.open_nursery() as session:
            session.start_soon(fail)
            await ctx.serve(handle, concurrency=2)

    asked: Asked = {}
    async with open_supervisor(EventBus(), grace=100) as supervisor, trio.open_nursery() as askers:
        ref = await supervisor.start("s", behaviour)
        await ask_in_order(askers, asked, ref, "first")
        await trio.sleep(5)
        await ask_in_order(askers, asked, ref, "late")
    assert handled == ["first"]
    assert isinstance(asked["late"], ActorCrashed)


async def test_a_crash_among_handlers_fails_all_of_them(autojump_clock: MockClock) -> None:
    log: list[str] = []
    asked: Asked = {}
    async with open_supervisor(EventBus()) as supervisor:
        ref = await supervisor.start("s", tool(log, concurrency=3))
        async with trio.open_nursery() as askers:
            await ask_in_order(askers, asked, ref, "a", "b", "crash")
    assert all(isinstance(error, ActorCrashed) for error in asked.values())
    assert {type(error.__cause__) for error in asked.values() if isinstance(error, ActorCrashed)} == {OSError}
    assert sorted(log) == ["cancelled a", "cancelled b", "close", "open", "run a", "run b", "run crash"]


async def test_crash_fails_asks_before_other_handlers_unwind(autojump_clock: MockClock) -> None:
    async def behaviour(ctx: Context[ToolMessage]) -> None:
        async def handle(message: ToolMessage) -> None:
            if message == Run("crash"):
                raise OSError("pipe closed")
            try:
                await trio.sleep_forever()
            finally:
                with trio.CancelScope(shield=True):
                    await trio.sleep(100)

        await ctx.serve(handle, concurrency=2)

    asked: Asked = {}
    began = trio.current_time()
    async with open_supervisor(EventBus(), grace=1000) as supervisor:
        ref = await supervisor.start("s", behaviour)
        async with trio.open_nursery() as askers:
            await ask_in_order(askers, asked, ref, "slow", "crash")
        assert trio.current_time() == began
    assert {type(error) for error in asked.values()} == {ActorCrashed}


async def test_request_withdrawn_before_its_task_starts_is_not_handled(autojump_clock: MockClock) -> None:
    log: list[str] = []
    async with open_supervisor(EventBus()) as supervisor:
        ref = await supervisor.start("s", tool(log, concurrency=2))
        for _ in range(5):
            with trio.CancelScope() as scope:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(ref.ask, Run("x"))
                    await trio.lowlevel.checkpoint()
                    scope.cancel()
        await trio.testing.wait_all_tasks_blocked()
        assert log.count("run x") == log.count("cancelled x")
        assert await ref.ask(Run("y")) == "Y"


async def test_a_crash_downstream_is_the_callers_to_handle(autojump_clock: MockClock) -> None:
    async with open_supervisor(EventBus()) as supervisor:

        async def careful(ctx: Context[ToolMessage]) -> None:
            files = await supervisor.start("files", tool([]))

            async def handle(message: ToolMessage) -> object:
                try:
                    return await files.ask(Run("crash"))
                except ActorError as error:
                    raise Refused(f"tool failed: {error}") from error

            await ctx.serve(handle)

        ref = await supervisor.start("careful", careful)
        with pytest.raises(Refused, match="tool failed: files crashed: OSError"):
            await ref.ask(Run("x"))
        with pytest.raises(Refused, match="tool failed: files is waiting to be restarted"):
            await ref.ask(Run("x"))


def asks(refs: dict[str, ActorRef[ToolMessage]], other: str) -> Behaviour[ToolMessage]:
    async def behaviour(ctx: Context[ToolMessage]) -> None:
        async def handle(message: ToolMessage) -> str:
            return await refs[other].ask(Run("x"))

        await ctx.serve(handle, concurrency=2)  # refused even if there is room: it would fail under load

    return behaviour


async def start_ring(supervisor: Supervisor, *names: str) -> dict[str, ActorRef[ToolMessage]]:
    refs: dict[str, ActorRef[ToolMessage]] = {}
    for name, other in zip(names, [*names[1:], names[0]], strict=True):
        refs[name] = await supervisor.start(name, asks(refs, other))
    return refs


@pytest.mark.parametrize("names", [("self",), ("a", "b"), ("a", "b", "c")])
async def test_cycle_of_asks_is_named(autojump_clock: MockClock, names: tuple[str, ...]) -> None:
    async with open_supervisor(EventBus()) as supervisor:
        refs = await start_ring(supervisor, *names)
        with pytest.raises(ActorCrashed) as crashed:
            await refs[names[0]].ask(Run("x"))
        error: BaseException | None = crashed.value
        while isinstance(error, ActorCrashed):
            error = error.__cause__
        assert isinstance(error, AskCycle)
        assert error.path == (*names, names[0])
        assert str(error) == f"ask would deadlock: {' -> '.join(error.path)}"


@once
async def test_a_hinted_actor_that_asks_itself_is_a_cycle_too(autojump_clock: MockClock) -> None:
    bus = EventBus()
    async with open_supervisor(bus) as supervisor:
        refs = await start_ring(supervisor, "a")
        with bus.subscribe("actors") as seen:
            refs["a"]._mailbox().offer(Note("x"), {})
            await trio.testing.wait_all_tasks_blocked()
    assert any(isinstance(getattr(event, "error", None), AskCycle) for event in [e async for e in seen])


@pytest.mark.parametrize("start", [Run("start"), Note("start")])
async def test_task_that_outlives_its_handler_may_ask_back(
    autojump_clock: MockClock, start: ToolMessage
) -> None:
    log: list[str] = []

    async def behaviour(ctx: Context[ToolMessage]) -> None:
        async def later() -> None:
            await trio.sleep(1)
            log.append(await ctx.ref.ask(Run("back")))

        async def handle(message: ToolMessage) -> str:
            if message == start:
                ctx.start_soon(later)
            return "answer"

        await ctx.serve(handle)

    async with open_supervisor(EventBus()) as supervisor:
        ref = await supervisor.start("s", behaviour)
        if isinstance(start, Run):
            await ref.ask(start)
        else:
            ref._mailbox().offer(start, {})
        await trio.sleep(2)
    assert log == ["answer"]


async def test_refused_message_is_not_handled(autojump_clock: MockClock) -> None:
    log: list[str] = []
    refused: list[str] = []
    async with open_supervisor(EventBus()) as supervisor:
        ref = await supervisor.start("s", tool(log), mailbox=1)

        async def ask(text: str) -> None:
            try:
                await ref.ask(Run(text))
            except ActorUnavailable:
                refused.append(text)

        async with trio.open_nursery() as nursery:
            await ask_in_order(nursery, {}, ref, "a", "b")
            for text in ["1", "2", "3"]:
                nursery.start_soon(ask, text)
            await trio.sleep(1)  # the stop and the next message fall together
            await supervisor.close()
    handled = {entry.removeprefix("run ") for entry in log if entry.startswith("run")} - {"a", "b"}
    assert handled | set(refused) == {"1", "2", "3"}
    assert not handled & set(refused)


@pytest.mark.parametrize("concurrency", [1, 2])
async def test_full_mailbox_lets_other_tasks_run(autojump_clock: MockClock, concurrency: int) -> None:
    handled = 0
    starting: list[ActorRef[ToolMessage]] = []

    async def behaviour(ctx: Context[ToolMessage]) -> None:
        async def handle(message: ToolMessage) -> None:
            nonlocal handled
            handled += 1

        starting.append(ctx.ref)
        await trio.sleep(1)
        await ctx.serve(handle, concurrency=concurrency)

    async with open_supervisor(EventBus()) as supervisor, trio.open_nursery() as nursery:
        nursery.start_soon(supervisor.start, "s", behaviour)
        await trio.testing.wait_all_tasks_blocked()
        for _ in range(16):
            nursery.start_soon(starting[0].ask, Run("x"))
        await trio.sleep(1)
        while handled < 16:
            before = handled
            await trio.lowlevel.checkpoint()
            assert handled - before <= 2 * concurrency


@once
@pytest.mark.parametrize("concurrency", [1, 2])
async def test_idle_actor_keeps_no_message_alive(autojump_clock: MockClock, concurrency: int) -> None:
    async with open_supervisor(EventBus()) as supervisor:
        ref = await supervisor.start("s", tool([], concurrency=concurrency))
        request = Run("a")
        there = weakref.ref(request)
        await ref.ask(request)
        await trio.testing.wait_all_tasks_blocked()
        del request
        gc.collect()
        assert there() is None


async def test_idle_actor_ends_and_accepts_no_late_message(autojump_clock: MockClock) -> None:
    async def behaviour(ctx: Context[ToolMessage]) -> None:
        async def handle(message: ToolMessage) -> str:
            await trio.sleep(5)
            return "done"

        await ctx.serve(handle, idle_timeout=2)
        await trio.sleep(1)

    async with open_supervisor(EventBus()) as supervisor:
        ref = await supervisor.start("s", behaviour)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(ref.ask, Run("x"))
            await trio.sleep(3)  # handling is not idling
            assert await ref.ask(Run("y")) == "done"
        await trio.sleep(2.5)
        with pytest.raises(ActorUnavailable, match="s is stopping"):
            await ref.ask(Run("z"))
        await trio.sleep(1)
        with pytest.raises(ActorUnavailable, match="s has stopped"):
            await ref.ask(Run("z"))


async def test_outer_cancellation_fails_all_asks(autojump_clock: MockClock) -> None:
    asked: Asked = {}
    async with trio.open_nursery() as askers:
        with trio.CancelScope() as outer:
            async with open_supervisor(EventBus()) as supervisor:
                ref = await supervisor.start("s", tool([]))
                await ask_in_order(askers, asked, ref, "running", "queued")
                outer.cancel()
                await trio.sleep_forever()
    for error in asked.values():
        assert isinstance(error, ActorCrashed)
        assert str(error) == "s was stopped before it answered"
        assert error.__cause__ is None
    with pytest.raises(ActorUnavailable, match="s has stopped"):
        await ref.ask(Run("late"))


async def test_forced_stop_fails_asks_before_the_tear_down(autojump_clock: MockClock) -> None:
    asked: Asked = {}
    began = trio.current_time()
    async with open_supervisor(EventBus(), grace=0.5) as supervisor, trio.open_nursery() as stops:
        ref = await supervisor.start("s", tool([], slow_close=100))
        async with trio.open_nursery() as askers:
            await ask_in_order(askers, asked, ref, "running", "queued")
            stops.start_soon(supervisor.close)
        assert trio.current_time() == began + 0.5
    assert {str(error) for error in asked.values()} == {"s was stopped before it answered"}


@once
@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ({"concurrency": 0}, "must be positive"),
        ({"idle_timeout": 0}, "must be positive"),
        ({"concurrency": 2, "idle_timeout": 1}, "may end when idle"),
    ],
)
async def test_bounds_of_serve_are_checked(
    autojump_clock: MockClock, wrong: dict[str, Any], why: str
) -> None:
    async def behaviour(ctx: Context[ToolMessage]) -> None:
        async def handle(message: ToolMessage) -> None:
            pass

        await ctx.serve(handle, **wrong)

    async with open_supervisor(EventBus()) as supervisor:
        with pytest.raises(ValueError, match=why):
            await supervisor.start("s", behaviour)


@once
def test_every_error_has_a_code_of_its_own() -> None:
    kinds: list[Callable[..., ActorError]] = [ActorError, Refused, ActorUnavailable, ActorCrashed, AskCycle]
    assert len({kind.code for kind in kinds}) == len(kinds)  # type: ignore[attr-defined]


@once
async def test_an_ask_that_is_cancelled_is_not_accepted_any_more() -> None:
    """Not even when there is room at the same moment."""
    mailbox = Mailbox("full", 1)
    mailbox.offer(Note("first"), {})
    with trio.CancelScope() as scope:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(mailbox.ask, Run("second"))
            await trio.testing.wait_all_tasks_blocked()
            scope.cancel()
            assert mailbox.next() is not None
    assert scope.cancelled_caught
    assert mailbox.next() is None
