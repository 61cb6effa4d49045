"""Which other members do not answer, by the leases that they renew. Pure.

A member renews its lease every `lease.RENEW_EVERY` seconds, and keeps it for longer. A member that is
suspended or cut off from the store stops to renew, but its streams are free only when its lease has run out.

    ====  =======================================================  ========================================
    rule  since the lease of another member was last seen renewed  the member
    ====  =======================================================  ========================================
    1     this member has renewed its own lease `MISSED` times     is silent
    2     otherwise                                                answers
    3     the lease was seen renewed, or its end is not known      answers
    ====  =======================================================  ========================================

The renewals of this member are the measure, not a clock: while the store is slow or away, no member renews,
and no other member is to blame. A member that works renews its lease, however long a turn takes, and is not
silent.
"""

from __future__ import annotations

from collections.abc import Mapping

import attrs

MISSED = 3
"""Renewals that another member has missed when it counts as silent."""


@attrs.define
class SilentMembers:
    _own: str
    """This member."""
    _ends: Mapping[str, float] = {}
    """The ends of the leases at the last look."""
    _missed: dict[str, int] = attrs.field(factory=dict)

    def poll(self, ends: Mapping[str, float]) -> frozenset[str]:
        """The silent members. `ends` are the ends of the leases that have not run out, by member."""
        before, self._ends = self._ends, ends
        renewed = int(ends.get(self._own) != before.get(self._own))
        self._missed = {
            member: self._missed.get(member, 0) + renewed if before.get(member) == end else 0
            for member, end in ends.items()
            if member != self._own
        }
        return frozenset(member for member, missed in self._missed.items() if missed >= MISSED)
