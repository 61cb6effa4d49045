from __future__ import annotations

from typing import TypeAlias

import attrs
import pytest
import trio
import trio.testing
from trio.testing import MockClock

from stopgo.runtime.context import Behaviour, Context
from stopgo.runtime.envelope import current_trace
from stopgo.runtime.errors import Refused
from stopgo.runtime.event_bus import EventBus
from stopgo.runtime.message import Message, Request
from stopgo.runtime.ref import ActorRef
from stopgo.runtime.supervision import open_supervisor
from stopgo.runtime.virtual import VirtualActors

pytestmark = pytest.mark.repeat(10)
once = pytest.mark.repeat(1)
"""For tests with one task at a time: there is no other order to try."""


@attrs.frozen
class WhichTrace(Request["TracedMessage", str]):
    refuse: bool = False


@attrs.frozen
class Remember(Message["TracedMessage"]):
    pass


TracedMessage: TypeAlias = WhichTrace | Remember


def traced(seen: list[str], concurrency: int = 1, next_one: str = "") -> Behaviour[TracedMessage]:
    def current() -> str:
        return current_trace.get().get("id", "")

    async def behaviour(ctx: Context[TracedMessage]) -> None:
        seen.append(current())

        async def later() -> None:
            seen.append(f"background {current()}")

        async def handle(message: TracedMessage) -> str:
            trace_before = current()
            await trio.lowlevel.checkpoint()
            ctx.start_soon(later)
            assert current() == trace_before
            seen.append(current())
            if message == WhichTrace(refuse=True):
                raise Refused("no")
            current_trace.set({"id": "changed by a handler"})
            return trace_before

        await ctx.serve(handle, concurrency=concurrency)
        seen.append(current())

    return behaviour


@pytest.mark.parametrize("concurrency", [1, 2])
async def test_a_message_carries_its_senders_trace(autojump_clock: MockClock, concurrency: int) -> None:
    seen: list[str] = []
    current_trace.set({"id": "starter"})
    async with open_supervisor(EventBus()) as supervisor:
        ref = await supervisor.start("a", traced(seen, concurrency))
        for name in ["one", "two"]:
            current_trace.set({"id": name})
            assert await ref.ask(WhichTrace()) == name
            await trio.testing.wait_all_tasks_blocked()
        with pytest.raises(Refused):
            await ref.ask(WhichTrace(refuse=True))
    assert seen == [
        "",  # an actor belongs to no trace, whoever started it
        "one",
        "background one",
        "two",
        "background two",
        "two",
        "background two",
        "",
    ]


async def test_a_trace_goes_on_through_a_chain_of_asks(autojump_clock: MockClock) -> None:
    async with open_supervisor(EventBus()) as supervisor:
        last: ActorRef[TracedMessage] = await supervisor.start("last", traced([]))

        async def relay(ctx: Context[TracedMessage]) -> None:
            async def handle(message: TracedMessage) -> str:
                return await last.ask(WhichTrace())

            await ctx.serve(handle)

        ref = await supervisor.start("relay", relay)
        current_trace.set({"id": "x"})
        assert await ref.ask(WhichTrace()) == "x"


async def test_background_tasks_inherit_their_starters_trace(autojump_clock: MockClock) -> None:
    """Also those that wait for the nursery to be opened."""
    seen: list[str] = []

    async def behaviour(ctx: Context[TracedMessage]) -> None:
        async def note() -> None:
            seen.append(current_trace.get()["id"])

        for name in ["one", "two"]:
            current_trace.set({"id": name})
            ctx.start_soon(note)
        await traced([])(ctx)

    async with open_supervisor(EventBus()) as supervisor:
        await supervisor.start("a", behaviour)
        await trio.testing.wait_all_tasks_blocked()
    assert sorted(seen) == ["one", "two"]


@once
async def test_wake_keeps_its_trace_across_a_crash(autojump_clock: MockClock) -> None:
    seen: list[str] = []

    def behaviour(key: str) -> Behaviour[TracedMessage]:
        async def once_broken(ctx: Context[TracedMessage]) -> None:
            if not seen:
                seen.append("crash")
                raise OSError("broken")
            await traced(seen)(ctx)

        return once_broken

    async with open_supervisor(EventBus()) as supervisor:
        actors = VirtualActors("v", behaviour, supervisor, poisoned=lambda key, error: behaviour(key))
        current_trace.set({"id": "waker"})
        actors.wake("k", Remember())
        await trio.sleep(1)
    assert seen == ["crash", "", "waker", "background waker", ""]
