"""Delays and limits of restarts. Pure functions of times and counters."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable

import attrs
from attrs import validators


@attrs.frozen
class Backoff:
    """The delays before restarts, in seconds: exponential, with jitter."""

    first: float = attrs.field(default=0.1, validator=validators.ge(0))
    factor: float = attrs.field(default=2.0, validator=validators.ge(1))
    """The ratio of a delay to the delay before it."""
    limit: float = attrs.field(default=30.0, validator=validators.ge(0))
    jitter: float = attrs.field(default=0.1, validator=[validators.ge(0), validators.le(1)])
    """The largest random part to subtract from a delay, so that actors do not all restart at once."""
    healthy: float = attrs.field(default=60.0, validator=validators.gt(0))
    """An incarnation that served this long resets the count of failures."""
    random: Callable[[], float] = attrs.field(default=random.random, eq=False, repr=False)
    """Returns a random number in [0, 1)."""

    def delay(self, failures: int) -> float:
        """Return the seconds to wait after `failures` (1 or more) failures in a row."""
        try:
            delay = min(self.first * self.factor ** (failures - 1), self.limit)
        except OverflowError:
            delay = self.limit
        return delay * (1 - self.jitter * self.random())


@attrs.frozen
class Intensity:
    """The restart limit of a supervisor: at most `restarts` within any `period` seconds."""

    restarts: int = attrs.field(default=3, validator=validators.ge(0))
    period: float = attrs.field(default=60.0, validator=validators.gt(0))


@attrs.define
class Streak:
    """The consecutive failures of one actor."""

    backoff: Backoff
    failures: int = 0

    def fail(self, served: float) -> float:
        """Count a crash of an incarnation that served `served` seconds; return the delay before the
        restart."""
        if served >= self.backoff.healthy:
            self.failures = 0
        self.failures += 1
        return self.backoff.delay(self.failures)


@attrs.define
class RestartWindow:
    """The times of the recent restarts of all children of one supervisor."""

    intensity: Intensity
    _times: deque[float] = attrs.field(factory=deque, init=False)

    def admit(self, now: float) -> bool:
        """Return whether a restart at `now` is within the intensity, and count it if so."""
        while self._times and self._times[0] <= now - self.intensity.period:
            self._times.popleft()
        if len(self._times) >= self.intensity.restarts:
            return False
        self._times.append(now)
        return True
