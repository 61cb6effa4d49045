"""The calls of one reply, summed up from the record of them alone: a replay counts what earlier lives did."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs


@attrs.define
class Tally:
    """What is counted while calls of one reply leave and come back. Times are those of their events."""

    under_way: int = 0
    most: int = 0
    """Under way at the same time."""
    busy: float = 0.0
    """Seconds with at least one under way; so waiting for people is not in it."""
    since: float = 0.0
    """When the first of those under way left."""
    attempts: int = 0
    worked: float = 0.0
    """Seconds of all attempts together."""

    def leave(self, at: float) -> None:
        if not self.under_way:
            self.since = at
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        self.attempts += 1

    def come_back(self, left: float, at: float) -> None:
        # A clock that was put back makes nothing shorter than nothing.
        self.worked += max(0.0, at - left)
        self.under_way -= 1
        if not self.under_way:
            self.busy += max(0.0, at - self.since)

    def figures(self, succeeded: Sequence[bool]) -> dict[str, Any]:
        """What ``batch.finished`` says. `succeeded`: for each call, also those that never left. Seconds."""
        good = sum(succeeded)
        return {
            "size": len(succeeded),
            "concurrency": self.most,
            "duration": round(self.busy, 3),
            "average_duration": round(self.worked / self.attempts, 3) if self.attempts else 0.0,
            "succeeded": good,
            "failed": len(succeeded) - good,
        }
