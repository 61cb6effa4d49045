"""Which other nodes do not answer, by the leases that they renew. Pure.

A node renews its lease every `lease.RENEW_EVERY` seconds, and keeps it for longer. A node that is suspended
or cut off from the store stops to renew, but its streams are free only when its lease has run out.

    ====  =======================================================  ========================================
    rule  since the lease of another node was last seen renewed    the node
    ====  =======================================================  ========================================
    1     this node has renewed its own lease `MISSED` times       is silent
    2     otherwise                                                answers
    3     the lease was seen renewed, or its end is not known      answers
    ====  =======================================================  ========================================

The renewals of this node are the measure, not a clock: while the store is slow or away, no node renews, and
no other node is to blame. A node that works, however long a turn takes, renews its lease, and is not silent.
"""

from __future__ import annotations

from collections.abc import Mapping

import attrs

MISSED = 3
"""Renewals that another node has missed when it counts as silent."""


@attrs.define
class SilentNodes:
    _own: str
    """This node."""
    _ends: Mapping[str, float] = {}
    """The ends of the leases at the last look."""
    _missed: dict[str, int] = attrs.field(factory=dict)

    def look(self, ends: Mapping[str, float]) -> frozenset[str]:
        """The silent nodes. `ends` are the ends of the leases that have not run out, by node."""
        before, self._ends = self._ends, ends
        renewed = int(ends.get(self._own) != before.get(self._own))
        self._missed = {
            node: self._missed.get(node, 0) + renewed if before.get(node) == end else 0
            for node, end in ends.items()
            if node != self._own
        }
        return frozenset(node for node, missed in self._missed.items() if missed >= MISSED)
