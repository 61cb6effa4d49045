"""What a conversation has taken in and its journal does not hold yet.

Its run goes on from that, and models may be told of it; nobody else outside has heard of it, and a crash
takes it back.
"""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from stopgo.actors.deltas import Passing
from stopgo.runtime.journal.protocol import Event, NewEvent, SettleIntent

MOST_UNTOLD = 1024
"""How much of what is passing is kept for followers while a disk does not answer; the rest they miss."""


@attrs.define(eq=False)
class Ahead:
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
