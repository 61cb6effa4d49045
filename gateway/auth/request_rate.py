"""Counts of requests in the last minute, by principal. Pure.

Time is counted in whole seconds. A request counts for `WINDOW` seconds after the second in which it came, so
any 60 seconds have at most `limit` requests.
"""

from __future__ import annotations

import math
from collections import OrderedDict, deque

import attrs

WINDOW = 60
"""Seconds."""
MOST_PRINCIPALS = 10_000
"""Maximum number of principals that are remembered; a further one replaces the one that was idle longest."""


@attrs.define
class _Requests:
    seconds: deque[tuple[int, int]] = attrs.field(factory=deque)
    """Seconds with the number of their requests, the oldest first."""
    total: int = 0


@attrs.define
class RequestRate:
    limit: int | None
    """None: every request is admitted, and none is counted."""
    _by_principal: OrderedDict[str, _Requests] = attrs.field(factory=OrderedDict)
    """The one that was idle longest first."""

    def admit(self, principal: str, now: float) -> int | None:
        """Count a request. If the limit is reached: do not count it, and return the seconds until it may be
        repeated."""
        if self.limit is None:
            return None
        found = self._by_principal.setdefault(principal, _Requests())
        self._by_principal.move_to_end(principal)
        if len(self._by_principal) > MOST_PRINCIPALS:
            self._by_principal.popitem(last=False)
        second = math.floor(now)
        seconds = found.seconds
        while seconds and seconds[0][0] < second - WINDOW:
            found.total -= seconds.popleft()[1]
        if found.total >= self.limit:
            return seconds[0][0] + WINDOW + 1 - second
        found.total += 1
        if seconds and seconds[-1][0] == second:
            seconds.append((second, seconds.pop()[1] + 1))
        else:
            seconds.append((second, 1))
        return None
