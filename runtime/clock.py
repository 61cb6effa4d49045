"""The wall clock, and a trio clock that stops while the process is stopped.

The wall clock is injected, and used only for times that are stored or displayed. Timeouts and delays use
trio's clock.
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


MAX_LATENESS = 1.0
"""Seconds by which trio may read the clock late. A longer delay counts as a stop of the process."""

MIN_ADVANCE = 0.1
"""Seconds by which the clock advances over a stop, at least. Otherwise deadlines would never pass on a
machine where every wake-up is late."""


@attrs.define(eq=False)
class ProcessClock(trio.abc.Clock):
    """A clock for `trio.run` that stops while the process is stopped.

    `docker pause`, SIGSTOP, Ctrl-Z, a debugger or a host short of memory can stop a process for hours. With
    trio's own clock, all deadlines have passed when the process continues, and tasks are cancelled before
    they read the data that arrived in the meantime.
    """

    # trio says how long it intends to sleep by calling `deadline_to_sleep_time`. If the next reading is later
    # than that by more than `MAX_LATENESS`, the process was stopped (`current_time`).

    _seconds: Callable[[], float] = time.perf_counter
    _offset: float = 0.0
    _last: float = attrs.field(init=False)
    """The value of `_seconds` when trio last read the clock."""
    _intended_sleep: float = 0.0
    """The number of seconds after `_last` for which trio intends to sleep."""

    def start_clock(self) -> None:
        self._last = self._seconds()

    def current_time(self) -> float:
        now = self._seconds()
        passed = now - self._last
        if passed > self._intended_sleep + MAX_LATENESS:
            # Count only half of the intended sleep: otherwise its deadline would pass before trio reads the
            # data that arrived during the stop.
            self._offset -= passed - max(self._intended_sleep / 2, MIN_ADVANCE)
        self._last, self._intended_sleep = now, 0.0
        return now + self._offset

    def deadline_to_sleep_time(self, deadline: float) -> float:
        sleep = deadline - self.current_time()
        self._intended_sleep = max(0.0, sleep)
        return sleep
