"""Passages of the journal on SQLite."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from typing import Any

from ..passage import MOST_STREAMS, Passage, PassagePlace, StreamPart, WantedEvents, bounded, passage, spans

_LARGEST = 2**63 - 1


def read(db: sqlite3.Connection, wanted: WantedEvents, at: PassagePlace | None) -> Passage:
    """The next passage."""
    heads = db.execute(
        "SELECT id, name, last_seq FROM stream"
        " WHERE id <= ? AND id % ? = ? AND updated >= ? AND last_seq <> 0 ORDER BY id DESC LIMIT ?",
        (_LARGEST if at is None else at.stream, wanted.of, wanted.part, wanted.since, MOST_STREAMS),
    ).fetchall()
    if not heads:
        return Passage((), None)
    chosen, next = spans(heads, at)
    types, known = json.dumps(sorted(wanted.types)), json.dumps(sorted(wanted.known))
    rows = (row for span in chosen for row in _rows(db, span, types, known))
    return passage(chosen, next, *bounded(rows))


def _rows(db: sqlite3.Connection, span: StreamPart, types: str, known: str) -> Iterator[tuple[Any, ...]]:
    yield from db.execute(
        "SELECT stream_id, seq, type, at, body FROM event WHERE stream_id = ? AND seq > ? AND seq <= ?"
        " AND (type IN (SELECT value FROM json_each(?))"
        "  OR ? <> '[]' AND type NOT IN (SELECT value FROM json_each(?))) ORDER BY seq",
        (span.stream, span.after, span.until, types, known, known),
    )
