"""Recorded calls page by page, for readers that are elsewhere.

A page ends after so many calls or bytes, also within a turn: the place of the next one is the beginning of a
turn, and the number of its calls that were given before. So nothing is remembered between two pages. A page
may be empty before the end.
"""

from __future__ import annotations

import re
from itertools import count

import attrs
import trio

from ...runtime import json_text
from ...runtime.journal.errors import BadCursor
from ...runtime.journal.passage import MOST_BYTES, JournalReader, PassagePlace, WantedEvents
from ..log.words.events import TYPES as ALL_TYPES
from .recorded_call import NO_DAMAGE, TYPES, Boundary, CallReader, Damage, RecordedCall, batched

MOST_CALLS = 1000
"""Calls of a page."""
_MOST_PASSAGES = 8
"""Passages of the journal that are read for a page, unless one turn has more."""
_FEW_BYTES = 500
"""What a call takes beside its arguments."""
_CURSOR = re.compile(r"([0-9]{1,18})\.([0-9]{1,18})\.([0-9]{1,18})\.([01])")


@attrs.frozen
class CallPage:
    """Recorded calls, newest conversation first."""

    calls: tuple[RecordedCall, ...]
    next_cursor: str | None
    """The place of the next page. None: all calls have been read."""
    damage: Damage
    """What could not be read since the last page."""


@attrs.define(eq=False)
class _Page:
    start: Boundary
    skip: int
    limit: int
    reader: CallReader
    calls: list[RecordedCall] = attrs.field(factory=list)
    size: int = 0

    def take(self, call: RecordedCall) -> bool:
        """Whether there is room for the call. One that was given before needs none."""
        turn = self.reader.turn
        if turn is not None and turn.place == self.start.place and self.reader.index < self.skip:
            return True
        size = _FEW_BYTES + len(json_text.dump([call.arguments, call.edited]))
        if self.calls and (len(self.calls) == self.limit or self.size + size > MOST_BYTES):
            return False
        self.calls.append(call)
        self.size += size
        return True

    def until(self, end: Boundary | None, skip: int = 0) -> CallPage:
        if end is None:
            return CallPage(tuple(self.calls), None, self.reader.damage)
        cursor = f"{end.place.stream}.{end.place.seq}.{skip}.{int(end.is_damaged)}"
        return CallPage(tuple(self.calls), cursor, end.damage)


async def call_page(
    journal: JournalReader, *, since: float = 0.0, limit: int = MOST_CALLS, cursor: str | None = None
) -> CallPage:
    """The next calls. `since`: see `WantedEvents`. Raises `BadCursor`."""
    start, skip = _read(cursor)
    page = _Page(start, skip, limit, CallReader(start))
    reader = page.reader
    wanted = WantedEvents(types=TYPES, known=ALL_TYPES, since=since)
    at = None if cursor is None else start.place
    for number in count(1):
        passage = await journal.passage(wanted, at)
        for events in batched(passage.events):
            if not all(map(page.take, reader.read(events))):
                return page.until(reader.turn, reader.index)
            await trio.lowlevel.checkpoint()
        if (at := passage.next) is None:
            is_whole = all(map(page.take, reader.rest()))
            return page.until(None) if is_whole else page.until(reader.turn, reader.index)
        end = reader.turn or Boundary(at, reader.is_damaged, reader.damage)
        if number >= _MOST_PASSAGES and end.place != start.place:
            return page.until(end)
    raise AssertionError


def _read(cursor: str | None) -> tuple[Boundary, int]:
    if cursor is None:
        return Boundary(PassagePlace(0, 0), False, NO_DAMAGE), 0
    if (found := _CURSOR.fullmatch(cursor)) is None:
        raise BadCursor("this cursor was not made for this list")
    stream, seq, skip, is_damaged = map(int, found.groups())
    return Boundary(PassagePlace(stream, seq), bool(is_damaged), NO_DAMAGE), skip
