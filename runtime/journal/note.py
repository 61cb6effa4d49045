"""Notes: as texts, and in SQL."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping

from .. import json_text
from .errors import NoteTooLong
from .protocol import LONGEST_NOTE, Json


def texts(notes: Mapping[str, Json]) -> Mapping[str, str]:
    """Bodies by key, both as the text that is kept. Raises `NoteTooLong`."""
    found = {json_text.dump(key): json_text.dump(body) for key, body in notes.items()}
    for key, body in found.items():
        if max(len(key), len(body)) > LONGEST_NOTE:
            raise NoteTooLong(f"the note {key[:100]} is longer than {LONGEST_NOTE} characters")
    return found


def parsed(rows: Iterable[tuple[str, str]]) -> Mapping[str, Json | None]:
    """The notes of their texts; a damaged body is None, and a note with a damaged key is left out."""
    read = ((_value(key), _value(body)) for key, body in rows)
    return {key: body if isinstance(body, dict) else None for key, body in read if isinstance(key, str)}


def _value(text: str) -> object:
    try:
        return json_text.load(text)
    except ValueError:
        return None


def read(db: sqlite3.Connection, kind: str) -> Mapping[str, Json | None]:
    # As bytes: one that is not UTF-8 any more would keep all others from being read.
    rows = db.execute("SELECT CAST(key AS BLOB), CAST(body AS BLOB) FROM note WHERE kind = ?", (kind,))
    return parsed((str(key, "utf-8", "replace"), str(body, "utf-8", "replace")) for key, body in rows)


def write(db: sqlite3.Connection, kind: str, kept: Mapping[str, str]) -> None:
    """Keep what `texts` has made."""
    db.executemany("INSERT OR REPLACE INTO note VALUES (?, ?, ?)", [(kind, *each) for each in kept.items()])
