"""When to start a crashed actor again, and when to give up. Pure arithmetic."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable

import attrs
from attrs import validators


@attrs.frozen
class Backoff:
    """How long to wait before each further start. Times in seconds."""

    first: float = attrs.field(default=0.1, validator=validators.ge(0))
    factor: float = attrs.field(default=2.0, validator=validators.ge(1))
    """Every delay is that much longer than the one before."""
    limit: float = attrs.field(default=30.0, validator=validators.ge(0))
    jitter: float = attrs.field(default=0.1, validator=[validators.ge(0), validators.le(1)])
    """The part of a delay that chance may take away, so that crowds do not return together."""
    healthy: float = attrs.field(default=60.0, validator=validators.gt(0))
    """Having served that long, an actor's next crash counts as its first."""
    random: Callable[[], float] = attrs.field(default=random.random, eq=False, repr=False)
    """Numbers in [0, 1)."""

    def delay(self, failures: int) -> float:
        """Seconds to wait after that many failures in a row (1 or more)."""
        try:
            delay = min(self.first * self.factor ** (failures - 1), self.limit)
        except OverflowError:
            delay = self.limit
        return delay * (1 - self.jitter * self.random())


@attrs.frozen
class Intensity:
    """At most `restarts` within any `period` seconds; one more and the supervisor fails."""

    restarts: int = attrs.field(default=3, validator=validators.ge(0))
    period: float = attrs.field(default=60.0, validator=validators.gt(0))


@attrs.define
class Streak:
    """One actor's failures in a row."""

    backoff: Backoff
    failures: int = 0

    def fail(self, served: float) -> float:
        """Count a crash after `served` seconds of service; return the delay before the next start."""
        if served >= self.backoff.healthy:
            self.failures = 0
        self.failures += 1
        return self.backoff.delay(self.failures)


@attrs.define
class RestartWindow:
    """The recent restarts of all the children of one supervisor."""

    intensity: Intensity
    _times: deque[float] = attrs.field(factory=deque, init=False)

    def admit(self, now: float) -> bool:
        """Whether one more restart at `now` is within the intensity; counts it if so."""
        while self._times and self._times[0] <= now - self.intensity.period:
            self._times.popleft()
        if len(self._times) >= self.intensity.restarts:
            return False
        self._times.append(now)
        return True
