"""Pending writes: events that a conversation has applied and its journal does not hold yet; and the flusher.

The run continues from pending writes, and models may be told of them. They are not published, no tool call
is sent before they are committed, and a crash discards them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import attrs
import trio

from ...runtime.journal.protocol import Event, NewEvent, SettleIntent
from .deltas import Passing

MOST_UNTOLD = 1024
"""How much of what is passing is kept for followers while a disk does not answer; the rest they miss."""


@attrs.define(eq=False)
class Ahead:
    """The events, settled intents and commands that the next save takes along."""

    events: list[NewEvent] = attrs.field(factory=list)
    settle: list[SettleIntent] = attrs.field(factory=list)
    ack: list[str] = attrs.field(factory=list)
    """Commands that led to events here. They stay in the inbox, where a crash would find them again."""
    untold: list[Event | Passing] = attrs.field(factory=list)
    """The events, and what is passing, each piece in its place among them."""

    def add(self, events: Sequence[Event], settle: Sequence[SettleIntent], ack: Sequence[str]) -> None:
        self.events += [NewEvent(event.type, event.body, event.at) for event in events]
        self.settle += settle
        self.ack += ack
        self.untold += events

    def hold_back(self, passing: Passing) -> None:
        """Have it told after the events before it."""
        if len(self.untold) < MOST_UNTOLD:
            self.untold.append(passing)


# ----------------------------------------------------------------- the flusher

MOMENT = 0.01
"""Seconds before the rounds are counted."""
ROUNDS = 12
"""What is asked for is done after so many rounds more, and before twice as many."""


@attrs.define(eq=False)
class Flusher:
    """Has what conversations are ahead of their journals saved, unless another save has taken it along.

    It waits for a moment, because what follows a step is mostly saved by then; after that for rounds of the
    event loop, because under load a save takes longer, but hardly more of these.
    """

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
