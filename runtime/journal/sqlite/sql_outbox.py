"""The table of the outbox."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

from ..outbox import OutboxRow, outbox_row


def add(db: sqlite3.Connection, texts: Sequence[str], now: float) -> None:
    """Store the result of `outbox_texts`."""
    if texts:
        db.executemany("INSERT INTO outbox (body, at) VALUES (?, ?)", [(text, now) for text in texts])


def read(db: sqlite3.Connection, limit: int) -> Sequence[OutboxRow]:
    # As bytes: otherwise one text that is not valid UTF-8 would fail the whole query.
    rows = db.execute("SELECT id, CAST(body AS BLOB), at FROM outbox ORDER BY id LIMIT ?", (limit,))
    return [outbox_row(id, str(body, "utf-8", "replace"), at) for id, body, at in rows]


def drop(db: sqlite3.Connection, numbers: Sequence[int]) -> None:
    db.executemany("DELETE FROM outbox WHERE id = ?", [(number,) for number in numbers])
