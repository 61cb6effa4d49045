"""Time that counts as work: while at least one branch can move by itself, not while all wait for people."""

from __future__ import annotations

import math

import attrs
import trio


@attrs.define(eq=False)
class Meter:
    """Bounds the work of one piece of a run: its `scope` is cancelled once `limit` seconds are worked.

    A meter starts with one branch that can move, and with the seconds that an earlier life worked.
    """

    limit: float
    _worked: float = 0.0
    scope: trio.CancelScope = attrs.field(factory=trio.CancelScope)
    _active: int = 0
    _since: float = 0.0

    def __attrs_post_init__(self) -> None:
        self.add(1)

    @property
    def worked(self) -> float:
        """Seconds so far."""
        return self._worked + (trio.current_time() - self._since if self._active else 0.0)

    def add(self, branches: int) -> None:
        """So many more branches can move; fewer, when negative."""
        before = self._active
        self._active += branches
        if not before and self._active:
            self._since = trio.current_time()
            self.scope.deadline = self._since + self.limit - self._worked
        elif before and not self._active:
            self._worked += trio.current_time() - self._since
            self.scope.deadline = math.inf
