"""Ctrl-C reaches a program in its main task: inside an actor it would leave others waiting for ever."""

from __future__ import annotations

import signal
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import attrs
import pytest
import trio
from trio.testing import MockClock

from stopgo.runtime.context import Context
from stopgo.runtime.event_bus import EventBus
from stopgo.runtime.message import Message, Request
from stopgo.runtime.supervision import Supervisor, open_supervisor
from stopgo.runtime.virtual import VirtualActors

pytestmark = pytest.mark.usefixtures("ctrl_c")


@attrs.frozen
class Do(Request["Do", None]):
    work: Callable[[Context[Do]], Awaitable[None]]


@attrs.frozen
class Wake(Message["Wake"]):
    pass


async def actor(ctx: Context[Do], concurrency: int = 1) -> None:
    async def handle(message: Do) -> None:
        await message.work(ctx)

    await ctx.serve(handle, concurrency=concurrency)


@attrs.define
class Strike:
    """Where Ctrl-C comes."""

    over: bool = False
    """What was going on has gone on."""

    async def __call__(self, *_: object) -> None:
        signal.raise_signal(signal.SIGINT)
        self.over = True


async def in_a_handler(kernel: Supervisor, strike: Strike) -> None:
    await (await kernel.start("a", actor)).ask(Do(strike))


async def in_one_of_several_handlers(kernel: Supervisor, strike: Strike) -> None:
    await (await kernel.start("a", partial(actor, concurrency=2))).ask(Do(strike))


async def in_a_task_beside_the_behaviour(kernel: Supervisor, strike: Strike) -> None:
    async def work(ctx: Context[Do]) -> None:
        ctx.start_soon(strike)
        await trio.sleep(1)

    await (await kernel.start("a", actor)).ask(Do(work))


async def in_a_child(kernel: Supervisor, strike: Strike) -> None:
    async def work(ctx: Context[Do]) -> None:
        await ctx.ask_new("child", actor, Do(strike))

    await (await kernel.start("a", actor)).ask(Do(work))


async def in_a_virtual_actor(kernel: Supervisor, strike: Strike) -> None:
    async def behaviour(_: Context[Wake]) -> None:
        await strike()

    VirtualActors("v", lambda _: behaviour, kernel, poisoned=lambda *_: behaviour).wake("key", Wake())
    await trio.sleep(1)


class _Strikes(dict[Any, Any]):
    """Ctrl-C comes when something has been put here."""

    def __init__(self, strike: Strike) -> None:
        super().__init__()
        self.strike = strike

    def __setitem__(self, key: Any, value: Any) -> None:
        super().__setitem__(key, value)
        signal.raise_signal(signal.SIGINT)
        self.strike.over = True


async def while_an_actor_is_started(
    kernel: Supervisor, strike: Strike, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kernel, "_running", _Strikes(strike))
    await kernel.start("a", actor)


async def while_a_key_is_woken(kernel: Supervisor, strike: Strike, monkeypatch: pytest.MonkeyPatch) -> None:
    async def serve(ctx: Context[Wake]) -> None:
        await trio.sleep_forever()

    actors = VirtualActors("v", lambda _: serve, kernel, poisoned=lambda *_: serve)
    monkeypatch.setattr(actors, "_activations", _Strikes(strike))
    actors.wake("key", Wake())
    await trio.sleep(1)


@pytest.mark.parametrize(
    "case",
    [
        in_a_handler,
        in_one_of_several_handlers,
        in_a_task_beside_the_behaviour,
        in_a_child,
        in_a_virtual_actor,
    ],
)
def test_it_strikes_in_no_actor(case: Callable[..., Awaitable[None]]) -> None:
    strike = Strike()
    with pytest.raises(KeyboardInterrupt):
        _run(partial(case, strike=strike))
    assert strike.over


@pytest.mark.parametrize("case", [while_an_actor_is_started, while_a_key_is_woken])
def test_it_strikes_in_no_half_of_a_step(
    case: Callable[..., Awaitable[None]], monkeypatch: pytest.MonkeyPatch
) -> None:
    strike = Strike()
    with pytest.raises(KeyboardInterrupt):
        _run(partial(case, strike=strike, monkeypatch=monkeypatch))
    assert strike.over


def _run(case: Callable[[Supervisor], Awaitable[None]]) -> None:
    async def program() -> None:
        with trio.fail_after(100):
            async with open_supervisor(EventBus()) as kernel:
                await case(kernel)

    trio.run(program, clock=MockClock(autojump_threshold=0))
