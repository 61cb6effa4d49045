"""Signals that come close together count as one."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import AsyncIterator

import pytest
import trio
from trio.testing import MockClock

from stopgo.gateway import serve_process
from stopgo.gateway.cli.process.interrupt import Interrupt
from stopgo.gateway.signals import REPEAT, distinct, stops


async def signals(*pauses: float) -> AsyncIterator[int]:
    for number, pause in enumerate(pauses):
        await trio.sleep(pause)
        yield number


async def test_signals_in_quick_succession_count_once(autojump_clock: MockClock) -> None:
    almost = REPEAT * 0.9
    heard = [number async for number in distinct(signals(0, 0, almost, almost, almost, 10, 0))]
    assert heard == [0, 3, 5]


@pytest.mark.parametrize(("handler", "counts"), [(signal.SIG_DFL, True), (signal.SIG_IGN, False)])
def test_hangup_stops_only_a_process_that_does_not_ignore_it(handler: signal.Handlers, counts: bool) -> None:
    """nohup(1) ignores it and starts the command, which then outlives the terminal (nohup of POSIX)."""
    before = signal.signal(signal.SIGHUP, handler)
    try:
        assert (signal.SIGHUP in stops()) == counts
    finally:
        signal.signal(signal.SIGHUP, before)


@pytest.mark.parametrize(("pause", "at_once"), [(0, False), (REPEAT, True)])
async def test_second_signal_cancels_a_run_at_once(
    autojump_clock: MockClock, pause: float, at_once: bool
) -> None:
    interrupt, scope = Interrupt(running=True), trio.CancelScope()
    await interrupt.listen(signals(0, pause), scope)
    assert interrupt.stop.is_set()
    assert scope.cancel_called == at_once


async def test_first_signal_stops_at_once_without_a_run(autojump_clock: MockClock) -> None:
    interrupt, scope = Interrupt(), trio.CancelScope()
    await interrupt.listen(signals(0), scope)
    assert scope.cancel_called


@pytest.mark.parametrize("stops_at", [1, 4])
def test_suspended_time_does_not_count_for_the_last_resort(
    monkeypatch: pytest.MonkeyPatch, stops_at: int
) -> None:
    """Otherwise it would be ended as soon as it continues, with results that are not stored yet."""
    now, naps, ended = 0.0, 0, list[tuple[float, int]]()

    def sleep(seconds: float) -> None:
        nonlocal now, naps
        naps += 1
        now = max(now + seconds, 1000.0) if naps == stops_at else now + seconds

    def exit(code: int) -> None:
        ended.append((now, code))

    monkeypatch.setattr(time, "sleep", sleep)
    monkeypatch.setattr(os, "_exit", exit)
    serve_process._exit_after(25.5, 3)
    [(at, code)] = ended
    assert code == 3
    assert at >= 1000 + 25.5 - stops_at
