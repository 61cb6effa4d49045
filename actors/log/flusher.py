"""The flusher: has what conversations are ahead of their journals saved, unless it went with another save.

It waits for a moment, for what follows a step is mostly saved by then and has taken it along; after that for
rounds of the event loop, for under load that takes longer, but hardly more of these.
"""

from __future__ import annotations

from collections.abc import Callable

import attrs
import trio

MOMENT = 0.01
"""Seconds before the rounds are counted."""
ROUNDS = 12
"""What is asked for is done after so many rounds more, and before twice as many."""


@attrs.define(eq=False)
class Flusher:
    _asked: dict[object, Callable[[], object]] = attrs.field(factory=dict)
    _due: dict[object, Callable[[], object]] = attrs.field(factory=dict)
    """Asked for in the rounds before these."""
    _something: trio.Event = attrs.field(factory=trio.Event)

    def soon(self, who: object, flush: Callable[[], object]) -> None:
        """Call `flush` in a while, unless `done` comes first."""
        self._asked[who] = flush
        self._something.set()

    def done(self, who: object) -> None:
        """There is nothing left to flush."""
        self._asked.pop(who, None)
        self._due.pop(who, None)

    async def run(self) -> None:
        while True:
            await self._something.wait()
            self._something = trio.Event()
            while self._asked:
                await trio.sleep(MOMENT)
                self._due, self._asked = self._asked, {}
                for _ in range(ROUNDS):
                    if not self._due and not self._asked:
                        break
                    await trio.lowlevel.checkpoint()
                for flush in self._due.values():
                    flush()
                self._due.clear()
