"""How long the write-ahead log becomes.

SQLite begins it anew when a write finds nobody who reads in it. Long reads that overlap leave no such moment:
with a hundred thousand streams, and people who search them all the time, it grew by megabytes a second.
"""

from __future__ import annotations

import os
import sqlite3
from contextlib import suppress

LONGEST = 2**26
"""Bytes after which it is begun anew, though that takes until those who read now have finished."""


class WriteAheadLog:
    """That of a connection that writes."""

    def __init__(self, db: sqlite3.Connection) -> None:
        (_, _, file) = db.execute("PRAGMA database_list").fetchone()
        self._file = f"{file}-wal"
        self._most = LONGEST

    def bound(self, db: sqlite3.Connection) -> None:
        """Begin it anew if it is too long; between two transactions.

        Takes `schema.BUSY_SECONDS` at most: a program outside may read for hours. Then it is tried again when
        the log is longer by as much.
        """
        try:
            size = os.stat(self._file).st_size
        except OSError:  # whoever removed it is noticed elsewhere
            return
        if size <= self._most:
            return
        unfinished = True
        # What was committed stays so, whatever becomes of this; SQLite itself ignores it after a commit, too.
        with suppress(sqlite3.Error):
            (unfinished, _, _) = db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        self._most = LONGEST + (size if unfinished else 0)
