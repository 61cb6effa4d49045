"""A store of named values in an SQLite file, which several processes may use at the same time."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path

import attrs

BUSY_TIMEOUT = 5.0
"""Seconds to wait while another process writes."""
MAX_NAME = 1_000
"""Maximum length of a name, in characters."""

_SCHEMA = """
CREATE TABLE IF NOT EXISTS resources (
    id TEXT PRIMARY KEY,
    name TEXT NOT NULL,
    value NOT NULL, -- no type: an INTEGER column would turn the text '1.50' into a number
    created_at TEXT NOT NULL,
    updated_at TEXT NOT NULL
)
"""


@attrs.frozen
class Resource:
    id: str
    """The time of creation in nanoseconds since the epoch, as decimal digits."""
    name: str
    value: int | str
    created_at: str
    """ISO 8601, in UTC, without fractions of a second. `updated_at` has the same form."""
    updated_at: str


class ResourceStore:
    """The table `resources` of one file. Any method may raise `sqlite3.Error`."""

    def __init__(self, path: Path) -> None:
        """Open the file; create it, its folder and its table if they are missing."""
        path.parent.mkdir(parents=True, exist_ok=True)
        # Calls come from different worker threads, but one at a time.
        self._db = sqlite3.connect(path, timeout=BUSY_TIMEOUT, isolation_level=None, check_same_thread=False)
        try:
            self._use_wal()
            self._db.execute(_SCHEMA)
        except sqlite3.Error:
            self._db.close()
            raise

    def _use_wal(self) -> None:
        # SQLite's own timeout does not apply when two processes switch a new file to WAL at the same time.
        deadline = time.monotonic() + BUSY_TIMEOUT
        while True:
            try:
                self._db.execute("PRAGMA journal_mode = WAL")
                return
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                    raise
                time.sleep(0.01)

    def close(self) -> None:
        self._db.close()

    def add(self, name: str, value: int | str) -> Resource:
        """Store a new resource. Names need not be unique. The text of an integer is stored as an integer."""
        value = _as_integer(value)
        number = time.time_ns()
        now = datetime.fromtimestamp(number // 1_000_000_000, UTC).isoformat().replace("+00:00", "Z")
        while True:
            resource = Resource(str(number), name, value, now, now)
            try:
                self._db.execute("INSERT INTO resources VALUES (?, ?, ?, ?, ?)", attrs.astuple(resource))
            except sqlite3.IntegrityError:
                number += 1  # another resource has this number: the clock has not advanced since
            else:
                return resource

    def all(self) -> list[Resource]:
        """Return all resources, by name and then by age, oldest first."""
        rows = self._db.execute(
            "SELECT id, name, value, created_at, updated_at FROM resources ORDER BY name, id"
        )
        return [Resource(id, name, _as_integer(value), *times) for id, name, value, *times in rows]

    def remove(self, ids: Iterable[str]) -> list[str]:
        """Remove the resources with these ids, in one transaction; return the ids that existed."""
        self._db.execute("BEGIN IMMEDIATE")
        try:
            removed = [
                id for id in ids if self._db.execute("DELETE FROM resources WHERE id = ?", (id,)).rowcount
            ]
        except BaseException:
            self._db.execute("ROLLBACK")
            raise
        self._db.execute("COMMIT")
        return removed


def _as_integer(value: int | str) -> int | str:
    """Return the integer if the text is its canonical form; return other texts (`007`, `1.5`) unchanged."""
    if isinstance(value, str):
        digits = value.removeprefix("-")
        if digits.isdecimal() and digits.isascii() and len(digits) < 19 and str(int(value)) == value:
            return int(value)
    return value
