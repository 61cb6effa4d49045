"""The SQLite database: tables and migrations, connections, the length of its write-ahead log."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TypeAlias

from .errors import JournalError, JournalTooNew
from .rows import text_or_bytes

Step: TypeAlias = Sequence[str]
"""Statements that bring a database from one version to the next."""

BUSY_SECONDS = 2.0
"""How long a write waits for another program (a backup, a shell) to let go of the file."""

_FIRST: Step = (
    # AUTOINCREMENT where a number lives outside the table (in a cursor, between two pages of a read):
    # the number of a deleted row must not come back.
    """CREATE TABLE stream (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        name TEXT NOT NULL UNIQUE,
        status TEXT NOT NULL DEFAULT '',
        title TEXT NOT NULL DEFAULT '""',
        folded_title TEXT NOT NULL DEFAULT '',
        open INTEGER NOT NULL DEFAULT 0,
        body TEXT NOT NULL DEFAULT '{}',
        last_seq INTEGER NOT NULL DEFAULT 0,
        created REAL NOT NULL,
        updated REAL NOT NULL)""",
    # Not only for those that were written to: a condition on last_seq would cost every save a page.
    "CREATE INDEX stream_by_status ON stream (status)",
    "CREATE INDEX stream_open ON stream (open) WHERE open = 1",
    # How many listed streams have each status, kept by every save: counting them takes too long.
    "CREATE TABLE tally (status TEXT PRIMARY KEY, streams INTEGER NOT NULL) WITHOUT ROWID",
    """CREATE TABLE event (
        id INTEGER PRIMARY KEY,
        stream_id INTEGER NOT NULL REFERENCES stream ON DELETE CASCADE,
        seq INTEGER NOT NULL,
        type TEXT NOT NULL,
        at REAL NOT NULL,
        body TEXT NOT NULL,
        UNIQUE (stream_id, seq))""",
    """CREATE TABLE inbox (
        id INTEGER PRIMARY KEY,
        stream_id INTEGER NOT NULL REFERENCES stream ON DELETE CASCADE,
        key TEXT NOT NULL,
        kind TEXT NOT NULL,
        body TEXT NOT NULL,
        at REAL NOT NULL,
        open INTEGER NOT NULL DEFAULT 1,
        reply TEXT,
        UNIQUE (stream_id, key))""",
    "CREATE INDEX inbox_open ON inbox (stream_id) WHERE open = 1",
    """CREATE TABLE question (
        number INTEGER PRIMARY KEY AUTOINCREMENT,
        id TEXT NOT NULL UNIQUE,
        stream_id INTEGER NOT NULL REFERENCES stream ON DELETE CASCADE,
        kind TEXT NOT NULL,
        state TEXT NOT NULL DEFAULT 'pending',
        body TEXT NOT NULL,
        decision TEXT,
        created REAL NOT NULL,
        expires REAL,
        settled REAL)""",
    "CREATE INDEX question_by_state ON question (state)",
    "CREATE INDEX question_of_stream ON question (stream_id, state)",
    "CREATE INDEX question_due ON question (expires) WHERE state = 'pending' AND expires IS NOT NULL",
    """CREATE TABLE intent (
        id INTEGER PRIMARY KEY,
        stream_id INTEGER NOT NULL REFERENCES stream ON DELETE CASCADE,
        key TEXT NOT NULL,
        attempt INTEGER NOT NULL,
        effect TEXT NOT NULL,
        state TEXT NOT NULL DEFAULT 'started',
        body TEXT NOT NULL,
        UNIQUE (stream_id, key, attempt))""",
)

_NOTES: Step = (
    "CREATE TABLE note (kind TEXT, key TEXT, body TEXT NOT NULL, PRIMARY KEY (kind, key)) WITHOUT ROWID",
)

STEPS: Sequence[Step] = (_FIRST, _NOTES)
"""Step number n (from 0) brings version n to version n + 1. Published steps never change."""


def migrate(db: sqlite3.Connection, steps: Sequence[Step]) -> None:
    """Bring the database to the newest version, or leave it as it is.

    Raises:
        JournalTooNew: a newer program wrote it.
    """
    db.execute("BEGIN IMMEDIATE")
    try:
        (version,) = db.execute("PRAGMA user_version").fetchone()
        if version > len(steps):
            raise JournalTooNew(
                f"the journal has version {version}, this program knows versions up to {len(steps)}"
            )
        for step in steps[version:]:
            for statement in step:
                db.execute(statement)
        db.execute(f"PRAGMA user_version = {len(steps)}")
        db.execute("COMMIT")
    finally:
        if db.in_transaction:
            db.execute("ROLLBACK")


def open_writer(file: Path, *, wait_for_disk: bool) -> sqlite3.Connection:
    """Open the one connection that writes, on tables of the newest version.

    `wait_for_disk`: a commit returns when it would survive a power cut.

    Raises:
        JournalTooNew: a newer program wrote it.
        JournalError: the file system cannot keep a write-ahead log, or the file is another program's.
    """
    # Whoever made the directory may let others look into it. SQLite gives its other files the same rights.
    os.close(os.open(file, os.O_RDWR | os.O_CREAT, 0o600))
    db = _connect(file.absolute().as_uri())
    try:
        (version,) = db.execute("PRAGMA user_version").fetchone()
        if version == 0 and db.execute("SELECT 1 FROM sqlite_schema").fetchone():
            raise JournalError(f"{file} is the database of another program")
        (mode,) = db.execute("PRAGMA journal_mode = WAL").fetchone()
        if mode != "wal":
            raise JournalError(f"{file.parent} is on a file system that cannot keep a write-ahead log")
        db.execute(f"PRAGMA synchronous = {'FULL' if wait_for_disk else 'OFF'}")
        db.execute("PRAGMA foreign_keys = ON")
        # What is deleted is overwritten, however SQLite was built.
        db.execute("PRAGMA secure_delete = ON")
        # A burst must not leave a large write-ahead log behind for ever.
        db.execute(f"PRAGMA journal_size_limit = {LONGEST}")
        migrate(db, STEPS)
    except BaseException:
        db.close()
        raise
    return db


def connect_reader(file: Path, *, at_rest: bool = False) -> sqlite3.Connection:
    """A connection that sees what is committed and can change nothing.

    `at_rest`: no process has the file open, so no file is made beside it either.
    """
    return _connect(f"{file.absolute().as_uri()}?mode=ro{'&immutable=1' if at_rest else ''}")


def _connect(uri: str) -> sqlite3.Connection:
    # Connections move between threads, but never serve two at once.
    db = sqlite3.connect(uri, uri=True, isolation_level=None, check_same_thread=False, timeout=BUSY_SECONDS)
    db.text_factory = text_or_bytes
    try:
        db.execute("PRAGMA cache_size = -16384")
    except BaseException:
        db.close()
        raise
    return db


# ----------------------------------------------------------------- the write-ahead log

LONGEST = 2**26
"""Bytes after which it is begun anew, though that takes until those who read now have finished."""


class WriteAheadLog:
    """The write-ahead log of a connection that writes, kept from growing without a bound.

    SQLite begins it anew when a write finds no reader in it. Long reads that overlap leave no such moment:
    with a hundred thousand streams, and people who search them all the time, it grew by megabytes a second.
    """

    def __init__(self, db: sqlite3.Connection) -> None:
        (_, _, file) = db.execute("PRAGMA database_list").fetchone()
        self._file = f"{file}-wal"
        self._most = LONGEST

    def bound(self, db: sqlite3.Connection) -> None:
        """Begin it anew if it is too long; between two transactions.

        Takes `BUSY_SECONDS` at most: a program outside may read for hours. Then it is tried again when
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
