"""The table of extracts."""

from __future__ import annotations

import sqlite3

from ..stream_extract import Extract, extract_of


def keep(db: sqlite3.Connection, stream_id: int, extract: Extract) -> None:
    db.execute(
        "INSERT OR REPLACE INTO extract (stream_id, seq, form, body) VALUES (?, ?, ?, ?)",
        (stream_id, extract.seq, extract.form, extract.text),
    )


def read(db: sqlite3.Connection, stream: str, form: str) -> Extract | None:
    found = db.execute(
        "SELECT seq, form, extract.body FROM stream JOIN extract ON extract.stream_id = stream.id"
        " WHERE name = ? AND form = ? AND seq <= last_seq",
        (stream, form),
    ).fetchone()
    return extract_of(found)
