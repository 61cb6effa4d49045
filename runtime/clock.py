"""The wall clock, and a trio clock that stops while the process is stopped.

The wall clock is injected, and only used for times that are stored or shown. Timeouts and delays use trio's
clock.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeAlias

import attrs
import trio

WallClock: TypeAlias = Callable[[], float]
"""Returns UTC seconds since the epoch."""


def system_clock() -> float:
    return time.time()


STANDSTILL = 1.0
"""Seconds by which trio may read the clock late. A longer delay counts as a stop of the process."""

LEAST = 0.1
"""Minimum number of seconds that a stop adds to the clock. Otherwise deadlines would never pass on a machine
where every wake-up is late."""


@attrs.define(eq=False)
class ProcessClock(trio.abc.Clock):
    """A clock for `trio.run` that stops while the process is stopped.

    `docker pause`, SIGSTOP, Ctrl-Z, a debugger or a host short of memory can stop a process for hours. With
    trio's own clock, all deadlines have passed when the process continues, and tasks are cancelled before
    they read the data that arrived in the meantime.
    """

    _seconds: Callable[[], float] = time.perf_counter
    _offset: float = 0.0
    _last: float = attrs.field(init=False)
    """The value of `_seconds` when trio last read the clock."""
    _sleeping: float = 0.0
    """For how many seconds after `_last` trio intends to sleep."""

    def start_clock(self) -> None:
        self._last = self._seconds()

    def current_time(self) -> float:
        now = self._seconds()
        passed = now - self._last
        if passed > self._sleeping + STANDSTILL:
            # Count only half of the intended sleep: the event that would have ended it has not been read yet.
            self._offset -= passed - max(self._sleeping / 2, LEAST)
        self._last, self._sleeping = now, 0.0
        return now + self._offset

    def deadline_to_sleep_time(self, deadline: float) -> float:
        sleep = deadline - self.current_time()
        self._sleeping = max(0.0, sleep)
        return sleep
