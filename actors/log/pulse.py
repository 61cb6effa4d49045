"""How many runs of this process can move by themselves: what a shutdown waits for."""

from __future__ import annotations

import attrs
import trio


@attrs.define(eq=False)
class Pulse:
    draining: trio.Event = attrs.field(factory=trio.Event)
    """Set when shutdown began: no new step starts."""
    moving: int = 0
    _still: trio.Event = attrs.field(factory=trio.Event)

    def beat(self, change: int) -> None:
        self.moving += change
        if not self.moving:
            self._still.set()
            self._still = trio.Event()

    async def still(self) -> None:
        """Return when nothing moves by itself."""
        while self.moving:
            await self._still.wait()
