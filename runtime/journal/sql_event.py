"""Events in SQL: appended, and read in pages."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

from stopgo.runtime.journal import json_text
from stopgo.runtime.journal.protocol import Event

_PAGE_ROWS = 100
_PAGE_CHARACTERS = 65_536
"""A page is read and parsed in one go; this much takes one or two milliseconds."""


def append(
    db: sqlite3.Connection,
    stream_id: int,
    last_seq: int,
    events: Sequence[tuple[str, float | None, str]],
    now: float,
) -> None:
    """Append (type, at, body) after `last_seq`."""
    db.executemany(
        "INSERT INTO event (stream_id, seq, type, at, body) VALUES (?, ?, ?, ?, ?)",
        [
            (stream_id, seq, type, now if at is None else at, body)
            for seq, (type, at, body) in enumerate(events, last_seq + 1)
        ],
    )


def page(
    db: sqlite3.Connection, stream_id: int, name: str, after: int, limit: int | None
) -> tuple[list[Event], bool]:
    """The next events after a seq, and whether there may be more."""
    rows = _PAGE_ROWS if limit is None else min(limit, _PAGE_ROWS)
    events: list[Event] = []
    characters = 0
    found = db.execute(
        "SELECT seq, type, at, body FROM event WHERE stream_id = ? AND seq > ? ORDER BY seq LIMIT ?",
        (stream_id, after, rows),
    )
    for seq, type, at, body in found:
        events.append(Event(name, seq, type, at, json_text.load(body)))
        characters += len(body)
        if characters > _PAGE_CHARACTERS:
            # Left open, it would keep the reader at this moment.
            found.close()
            return events, True
    return events, len(events) == _PAGE_ROWS
