"""Signals, as wishes of people."""

from __future__ import annotations

import math
import signal
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import contextmanager

import trio

SAME_WISH = 0.5
"""Seconds after a signal in which another one says nothing new: Ctrl-C reaches every process of a terminal,
and whoever started us may send it on."""

STOPS = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def until_the_end() -> Iterator[AsyncIterator[int]]:
    """The signals that mean a stop, for the rest of the process's life: after the block they are ignored.

    How it ends is settled then, and one that is sent twice would still kill it: trio raises again what
    nobody has taken, under the handlers of before, and an interpreter that ends has none at all.
    """
    masked = signal.pthread_sigmask(signal.SIG_BLOCK, STOPS)  # what comes now is heard a moment later
    try:
        for number in STOPS:
            signal.signal(number, signal.SIG_IGN)
        with trio.open_signal_receiver(*STOPS) as signals:
            signal.pthread_sigmask(signal.SIG_SETMASK, masked)
            yield signals
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, masked)


async def wishes(signals: AsyncIterator[int]) -> AsyncGenerator[int, None]:
    """The signals that say something new."""
    last = -math.inf
    async for number in signals:
        if trio.current_time() >= last + SAME_WISH:
            last = trio.current_time()
            yield number
