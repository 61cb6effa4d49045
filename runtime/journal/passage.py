"""Passages: a journal read as a whole, part by part, for figures about everything that happened. Pure.

Streams come in the order of their numbers, newest first, and the events of a stream in their own order. Each
passage is read by itself, so that no transaction lasts, and a stream that grows meanwhile is read as far as
it goes when it is reached. Bodies come as they are stored: a reader parses those that it needs.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any, NamedTuple

import attrs

from .errors import shown

MOST_STREAMS = 200
"""Streams of a passage."""
MOST_EVENTS = 2_000
"""Events of a passage, including those of other types, which are not read."""


class StoredEvent(NamedTuple):
    """An event as it is stored. Values of damaged rows may have other types."""

    stream: str
    seq: int
    type: str
    at: float
    body: str


class PassagePlace(NamedTuple):
    """Where a reading goes on: in the stream with this number after `seq`, then in older streams."""

    stream: int
    seq: int


@attrs.frozen(kw_only=True)
class WantedEvents:
    """The events to read."""

    types: Collection[str]
    since: float = 0.0
    """Streams whose last event is older are left out."""
    part: int = 0
    of: int = 1
    """Every `of`-th stream, for readers that share the work."""


@attrs.frozen
class Passage:
    events: Sequence[StoredEvent]
    next: PassagePlace | None
    """None: all has been read."""


class StreamPart(NamedTuple):
    """The events to read of one stream."""

    stream: int
    name: str
    after: int
    until: int


def spans(
    heads: Sequence[tuple[int, Any, Any]], at: PassagePlace | None
) -> tuple[Sequence[StreamPart], PassagePlace | None]:
    """What a passage reads of the next `MOST_STREAMS` streams, given as number, name and last seq, and where
    the next one begins."""
    found: list[StreamPart] = []
    left = MOST_EVENTS
    for number, name, last in heads:
        last = last if isinstance(last, int) else 0  # of a damaged row
        after = at.seq if at is not None and number == at.stream else 0
        until = max(after, min(last, after + left))
        found.append(StreamPart(number, shown(name), after, until))
        left -= until - after
        if until < last:
            return found, PassagePlace(number, until)
        if left == 0:
            return found, PassagePlace(number - 1, 0)
    return found, PassagePlace(heads[-1][0] - 1, 0) if len(heads) == MOST_STREAMS else None


def passage(
    read: Sequence[StreamPart], next: PassagePlace | None, rows: Iterable[tuple[int, int, str, float, str]]
) -> Passage:
    """The passage with these rows: number of the stream, seq, type, time and body."""
    names = {each.stream: each.name for each in read}
    return Passage([StoredEvent(names[row[0]], *row[1:]) for row in rows], next)
