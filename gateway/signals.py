"""SIGINT, SIGTERM and SIGHUP as requests to stop."""

from __future__ import annotations

import math
import signal
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from types import FrameType

import trio

REPEAT = 0.5
"""Seconds after a signal in which another one counts as the same: Ctrl-C reaches every process of a terminal,
and our parent process may forward it again."""


def stops() -> tuple[signal.Signals, ...]:
    """The signals that stop this process.

    By default, SIGHUP would end it in the middle of a call, when its terminal is closed. A process that
    `nohup` has started ignores SIGHUP and outlives the terminal.
    """
    ignored = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    return (signal.SIGINT, signal.SIGTERM, *(() if ignored else (signal.SIGHUP,)))


@contextmanager
def receive_stops() -> Iterator[AsyncIterator[int]]:
    """Receive the signals that stop the process, until it exits: after the block they are ignored.

    The exit code is decided by then, and a late second signal would change it: trio re-raises signals that
    were not consumed, under the previous handlers, and an interpreter that shuts down has no handlers.
    """
    numbers = stops()
    masked = signal.pthread_sigmask(signal.SIG_BLOCK, numbers)  # until the receiver is there
    try:
        for number in numbers:
            signal.signal(number, signal.SIG_IGN)
        with trio.open_signal_receiver(*numbers) as signals:
            signal.pthread_sigmask(signal.SIG_SETMASK, masked)
            yield signals
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, masked)


async def distinct(signals: AsyncIterator[int]) -> AsyncGenerator[int, None]:
    """The signals without repeats."""
    last = -math.inf
    async for number in signals:
        if trio.current_time() >= last + REPEAT:
            last = trio.current_time()
            yield number


class StopSignal(KeyboardInterrupt):
    """A signal asks the process to stop."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


@contextmanager
def raised_stops() -> Iterator[Callable[[], None]]:
    """For work without an event loop: the first signal that stops the process raises `StopSignal`, and those
    after it are ignored, so that none interrupts the cleanup.

    Yields a function after which all are ignored, because it is too late to stop.
    """
    before = {number: signal.getsignal(number) for number in stops()}

    def ignore() -> None:
        for number in before:
            signal.signal(number, signal.SIG_IGN)

    def stop(number: int, _: FrameType | None) -> None:
        ignore()
        raise StopSignal(number)

    for number in before:
        signal.signal(number, stop)
    try:
        yield ignore
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
