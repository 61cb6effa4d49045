"""Notes: their stored texts, and their table in SQL."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping

from .. import json_text
from .errors import NoteTooLong
from .protocol import LONGEST_NOTE, Json


def texts(notes: Mapping[str, Json]) -> Mapping[str, str]:
    """Return bodies by key, both as the text to store. Raises `NoteTooLong`."""
    found = {json_text.dump(key): json_text.dump(body) for key, body in notes.items()}
    for key, body in found.items():
        if max(len(key), len(body)) > LONGEST_NOTE:
            raise NoteTooLong(f"the note {key[:100]} is longer than {LONGEST_NOTE} characters")
    return found


def parsed(rows: Iterable[tuple[str, str]]) -> Mapping[str, Json | None]:
    """Parse stored notes. A damaged body becomes None; a note with a damaged key is left out."""
    read = ((_value(key), _value(body)) for key, body in rows)
    return {key: body if isinstance(body, dict) else None for key, body in read if isinstance(key, str)}


def _value(text: str) -> object:
    try:
        return json_text.load(text)
    except ValueError:
        return None


def read(db: sqlite3.Connection, kind: str) -> Mapping[str, Json | None]:
    # As bytes: otherwise one text that is not valid UTF-8 would fail the whole query.
    rows = db.execute("SELECT CAST(key AS BLOB), CAST(body AS BLOB) FROM note WHERE kind = ?", (kind,))
    return parsed((str(key, "utf-8", "replace"), str(body, "utf-8", "replace")) for key, body in rows)


def write(db: sqlite3.Connection, kind: str, kept: Mapping[str, str]) -> None:
    """Store the result of `texts`."""
    db.executemany("INSERT OR REPLACE INTO note VALUES (?, ?, ?)", [(kind, *each) for each in kept.items()])
