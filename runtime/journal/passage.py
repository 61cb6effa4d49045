"""Passages: a journal read as a whole, part by part, for figures about everything that happened. Pure.

Streams come in the order of their numbers, newest first, and the events of a stream in their own order. Each
passage is read by itself, so that no transaction lasts, and a stream that grows meanwhile is read as far as
it goes when it is reached. Bodies come as they are stored: a reader parses those that it needs.

Nothing is left out silently: an event whose type no program wrote comes, too, and in place of a stream whose
number of events is damaged comes an event with the seq 0, whose body says so.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, TypeAlias

import attrs

from .errors import shown

MOST_STREAMS = 200
"""Streams of a passage."""
MOST_EVENTS = 2_000
"""Events of a passage, including those of other types, which are not read."""
MOST_BYTES = 4 * 1024 * 1024
"""Bytes of bodies after which a passage ends. A longer event is the last of its passage."""


class StoredEvent(NamedTuple):
    """An event as it is stored. Values of damaged rows may have other types."""

    stream: str
    seq: int
    type: str
    at: float
    body: str
    number: int
    """The number of the stream."""


class PassagePlace(NamedTuple):
    """Where a reading goes on: in the stream with this number after `seq`, then in older streams."""

    stream: int
    seq: int


@attrs.frozen(kw_only=True)
class WantedEvents:
    """The events to read."""

    types: Collection[str]
    known: Collection[str] = ()
    """All types that a program may have written. Events of others are damaged, and come, too; empty: they do
    not."""
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


class JournalReader(Protocol):
    """The part of a journal that gives it as a whole, also one that was opened for reading only."""

    async def passage(self, wanted: WantedEvents, at: PassagePlace | None = None) -> Passage:
        """See `Journal`."""
        ...

    async def notes(self, kind: str, *, after: int = 0) -> Mapping[str, Mapping[str, Any] | None]:
        """See `Notes`."""
        ...


class StreamPart(NamedTuple):
    """The events to read of one stream."""

    stream: int
    name: str
    after: int
    until: int
    problem: str = ""
    """Why it cannot be read."""


def spans(
    heads: Sequence[tuple[int, Any, Any]], at: PassagePlace | None
) -> tuple[Sequence[StreamPart], PassagePlace | None]:
    """What a passage reads of the next `MOST_STREAMS` streams, given as number, name and last seq, and where
    the next one begins."""
    found: list[StreamPart] = []
    left = MOST_EVENTS
    for number, name, last in heads:
        after = at.seq if at is not None and number == at.stream else 0
        if type(last) is not int or last < 0:
            problem = f"{str(last)[:40]!r} is no number of events"
            found.append(StreamPart(number, shown(name), after, after, problem))
            continue
        until = max(after, min(last, after + left))
        found.append(StreamPart(number, shown(name), after, until))
        left -= until - after
        if until < last:
            return found, PassagePlace(number, until)
        if left == 0:
            return found, PassagePlace(number - 1, 0)
    return found, PassagePlace(heads[-1][0] - 1, 0) if len(heads) == MOST_STREAMS else None


PassageRow: TypeAlias = tuple[int, int, Any, Any, Any]
"""Number of the stream, seq, type, time and body."""


def bounded(rows: Iterable[PassageRow]) -> tuple[Sequence[PassageRow], bool]:
    """The rows up to `MOST_BYTES`, and whether there are more."""
    found: list[PassageRow] = []
    size = 0
    for row in rows:
        if size >= MOST_BYTES:
            return found, True
        found.append(row)
        size += len(row[4]) if isinstance(row[4], str | bytes) else 0
    return found, False


def passage(
    read: Sequence[StreamPart], next: PassagePlace | None, rows: Sequence[PassageRow], is_cut: bool
) -> Passage:
    """The passage with these rows. `is_cut`: more rows were chosen, and come with the next one."""
    names = {each.stream: each.name for each in read}
    if is_cut:
        next = PassagePlace(*rows[-1][:2])
        read = [each for each in read if each.stream >= next.stream]
    events = [StoredEvent(names[row[0]], *row[1:], row[0]) for row in rows]
    events += [StoredEvent(each.name, 0, "", 0.0, each.problem, each.stream) for each in read if each.problem]
    return Passage(sorted(events, key=lambda each: -each.number), next)
