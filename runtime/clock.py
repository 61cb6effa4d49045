"""The wall clock, injected wherever a time is written down, and a clock for trio.

Timeouts and delays never use the wall clock: they run on trio's.
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
"""Seconds without a look at the clock, beyond those that were to be slept, after which they do not count."""

LEAST = 0.1
"""Seconds that a standstill counts all the same: where every wake comes late, deadlines must come at last."""


@attrs.define(eq=False)
class ProcessClock(trio.abc.Clock):
    """A clock for `trio.run` that stands still while the process does.

    A process can be stopped for hours: `docker pause`, SIGSTOP, Ctrl-Z, a debugger, a host without memory.
    When it goes on, all its deadlines have passed, and what arrived meanwhile is still to be read. By trio's
    own clock all of it would be given up, because a late task is cancelled before it has read anything.
    """

    _seconds: Callable[[], float] = time.perf_counter
    _offset: float = 0.0
    _last: float = attrs.field(init=False)
    """What `_seconds` said at the latest look."""
    _sleeping: float = 0.0
    """Seconds from then on in which nobody needs to look."""

    def start_clock(self) -> None:
        self._last = self._seconds()

    def current_time(self) -> float:
        now = self._seconds()
        passed = now - self._last
        if passed > self._sleeping + STANDSTILL:
            # Nor does half the sleep: what was to end it is still to come, behind what has arrived.
            self._offset -= passed - max(self._sleeping / 2, LEAST)
        self._last, self._sleeping = now, 0.0
        return now + self._offset

    def deadline_to_sleep_time(self, deadline: float) -> float:
        sleep = deadline - self.current_time()
        self._sleeping = max(0.0, sleep)
        return sleep
