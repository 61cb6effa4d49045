"""How many runs of this process can move by themselves: what a shutdown waits for."""

from __future__ import annotations

import attrs
import trio


@attrs.define(eq=False)
class Pulse:
    draining: trio.Event = attrs.field(factory=trio.Event)
    """Set when shutdown began: no new step starts."""
    _moving: int = 0
    _still: trio.Event = attrs.field(factory=trio.Event)

    @property
    def moving(self) -> int:
        return self._moving

    def beat(self, change: int) -> None:
        self._moving += change
        if not self._moving:
            self._still.set()
            self._still = trio.Event()

    async def still(self) -> None:
        """Return when nothing moves by itself."""
        while self._moving:
            await self._still.wait()
