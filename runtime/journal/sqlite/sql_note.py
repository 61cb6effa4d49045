"""The table of notes."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping

from ... import json_text
from ..note import parsed
from ..protocol import Json


def read(db: sqlite3.Connection, kind: str) -> Mapping[str, Json | None]:
    # As bytes: otherwise one text that is not valid UTF-8 would fail the whole query.
    rows = db.execute("SELECT CAST(key AS BLOB), CAST(body AS BLOB) FROM note WHERE kind = ?", (kind,))
    return parsed((str(key, "utf-8", "replace"), str(body, "utf-8", "replace")) for key, body in rows)


def write(db: sqlite3.Connection, kind: str, kept: Mapping[str, str]) -> None:
    """Store the result of `texts`."""
    db.executemany("INSERT OR REPLACE INTO note VALUES (?, ?, ?)", [(kind, *each) for each in kept.items()])


def take(db: sqlite3.Connection, kind: str, key: str) -> Json | None:
    """Delete a note and return it; None if there is no readable one."""
    text = json_text.dump(key)
    found = db.execute(
        "SELECT CAST(body AS BLOB) FROM note WHERE kind = ? AND key = ?", (kind, text)
    ).fetchall()
    db.execute("DELETE FROM note WHERE kind = ? AND key = ?", (kind, text))
    return parsed((text, str(body, "utf-8", "replace")) for (body,) in found).get(key)
