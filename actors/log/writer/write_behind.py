"""Pending writes, and the flusher that has them saved.

A pending write is an event that a conversation has applied in memory and not committed yet. Three things
can happen to it:

1. The next `save` of the conversation commits it. This is the common case, because most steps are followed
   by a save, and so costs no commit of its own.
2. No save follows: the `Flusher` commits it after up to `MOMENT` seconds and `ROUNDS` to 2 x `ROUNDS` rounds
   of the event loop.
3. The process crashes, and the event is lost. The replay does the step again.

Pending writes save commits: without them, a turn takes 1.8 times the CPU, and 1.1 times with 16 turns at a
time (`tests/bench/test_turn_bench.py`). Because of 3, only the run itself, and the models that it asks, may
use a pending write. It is not published, and no tool call is sent before it is committed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import attrs
import trio

from ....runtime.journal.protocol import Event, NewEvent, SettleIntent
from ..words.deltas import AnyDelta

MAX_UNPUBLISHED = 1024
"""Events and deltas that are kept for followers during a slow commit. Further deltas are dropped."""


@attrs.define(eq=False)
class PendingWrites:
    """Events, settled intents and acknowledged commands for the next save."""

    events: list[NewEvent] = attrs.field(factory=list)
    settle: list[SettleIntent] = attrs.field(factory=list)
    ack: list[str] = attrs.field(factory=list)
    """Commands that led to these events. They stay in the inbox, so a crash does not lose them."""
    unpublished: list[Event | AnyDelta] = attrs.field(factory=list)
    """The events, and the deltas between them, in the order in which to publish them."""

    def add(self, events: Sequence[Event], settle: Sequence[SettleIntent], ack: Sequence[str]) -> None:
        self.events += [NewEvent(event.type, event.body, event.at) for event in events]
        self.settle += settle
        self.ack += ack
        self.unpublished += events

    def add_delta(self, delta: AnyDelta) -> None:
        if len(self.unpublished) < MAX_UNPUBLISHED:
            self.unpublished.append(delta)


# ----------------------------------------------------------------- the flusher

MOMENT = 0.01
"""Seconds before the rounds are counted."""
ROUNDS = 12


@attrs.define(eq=False)
class Flusher:
    """Flushes the pending writes of all conversations, unless another save takes them first.

    It waits for a moment, because a step is usually followed by a save. Then it counts rounds of the event
    loop instead of seconds: under load a save takes longer, but hardly more rounds.
    """

    _asked: dict[object, Callable[[], object]] = attrs.field(factory=dict)
    _due: dict[object, Callable[[], object]] = attrs.field(factory=dict)
    """Asked for before the current rounds; called at their end."""
    _any_asked: trio.Event = attrs.field(factory=trio.Event)

    def soon(self, writer: object, flush: Callable[[], object]) -> None:
        """Call `flush` later, unless `done` is called first for the same writer."""
        self._asked[writer] = flush
        self._any_asked.set()

    def done(self, writer: object) -> None:
        """The writer has nothing left to flush."""
        self._asked.pop(writer, None)
        self._due.pop(writer, None)

    async def run(self) -> None:
        while True:
            await self._any_asked.wait()
            self._any_asked = trio.Event()
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
