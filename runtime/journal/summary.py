"""A stream as lists show it: its summary, its row, pages of rows, and counts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, TypeAlias

import attrs

NamedKind: TypeAlias = Literal["stream", "question"]
"""The kinds of rows that have an id of their own."""
MOST_BEGINNING = 50
"""Maximum number of ids that begin alike and are read."""
AFTER_HEX = "g"
"""Follows all hexadecimal digits."""


@attrs.frozen
class Summary:
    """The state of a stream as its writer states it, for lists, `deliver` and start-up."""

    status: str
    """The status for `deliver(unless=...)` and for the filter of lists."""
    title: str
    open: bool
    """Whether the stream has work that goes on, also after a restart: see `Journal.open_work`. Another member
    may claim only a stream that has none from a living owner."""
    body: Mapping[str, Any]
    owner: str = ""
    """The owner of the stream, for `Among`; empty: it has none."""
    rests: bool = False
    """Whether there is work that waits for the outside, so that further commands wait, too. Never with
    `open`."""


def is_full(limit: int | None, waiting: int, *, starts: bool) -> bool:
    """Whether an inbox with so many commands of a kind takes no more. `starts`: the first of them is about to
    be executed, and does not wait."""
    return limit is not None and waiting >= (limit + starts if limit else 0)


@attrs.frozen
class Row:
    """A stream, as in lists."""

    stream: str
    summary: Summary | None
    """None if any value of the row is damaged."""
    last_seq: int
    created: float
    updated: float
    """The time of the latest event."""


@attrs.frozen
class Among:
    """A filter of lists: the streams of an owner, and the streams with these names."""

    owner: str
    """Empty: no stream matches it, so streams without an owner are in no list."""
    streams: tuple[str, ...] = ()

    def matches(self, stream: str, owner: str) -> bool:
        return (owner != "" and owner == self.owner) or stream in self.streams


@attrs.frozen
class Page:
    rows: tuple[Row, ...]
    next_cursor: str | None
    tally: Mapping[str, int]
    """The number of streams by status, regardless of page and filters other than `Among`."""
    after: tuple[str, ...] = ()
    """For each row, the cursor of the page that begins behind it."""

    def first(self, count: int) -> Page:
        """The page that ends after `count` of its rows."""
        if count >= len(self.rows):
            return self
        return attrs.evolve(
            self, rows=self.rows[:count], after=self.after[:count], next_cursor=self.after[count - 1]
        )


@attrs.frozen
class Census:
    """The numbers of things in a journal, for metrics."""

    streams: Mapping[str, int]
    """Of the streams with at least one event, by status."""
    commands: int
    """Of the open commands in all inboxes."""
    pending: int
    """Of the pending questions."""
    oldest: float | None
    """The time at which the oldest pending question was asked."""
