"""Stores named values in a SQLite file, which several processes may use at the same time."""

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
"""Characters of a name."""

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
    name: str
    value: int | str
    created_at: str
    """ISO 8601, UTC."""
    updated_at: str


class ResourceStore:
    """The table `resources` of one file.

    Raises `sqlite3.Error` wherever the file cannot be used.
    """

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
        # SQLite's own timeout does not apply when two processes switch a new file to WAL at the same moment.
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
        """Store a new resource. Names may repeat. A text that writes an integer is stored as one."""
        value = _whole_number(value)
        number = time.time_ns()
        now = datetime.fromtimestamp(number // 1_000_000_000, UTC).isoformat().replace("+00:00", "Z")
        while True:
            resource = Resource(str(number), name, value, now, now)
            try:
                self._db.execute("INSERT INTO resources VALUES (?, ?, ?, ?, ?)", attrs.astuple(resource))
            except sqlite3.IntegrityError:
                number += 1  # another process used this number within the same tick of the clock
            else:
                return resource

    def all(self) -> list[Resource]:
        """Return every resource, ordered by name."""
        rows = self._db.execute(
            "SELECT id, name, value, created_at, updated_at FROM resources ORDER BY name, id"
        )
        return [Resource(id, name, _whole_number(value), *times) for id, name, value, *times in rows]

    def remove(self, ids: Iterable[str]) -> list[str]:
        """Remove the resources that exist, in one transaction; return their ids."""
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


def _whole_number(value: int | str) -> int | str:
    """Return the integer that a text writes in its usual form; other texts (`007`, `1.5`) are unchanged."""
    if isinstance(value, str):
        digits = value.removeprefix("-")
        if digits.isdecimal() and digits.isascii() and len(digits) < 19 and str(int(value)) == value:
            return int(value)
    return value
