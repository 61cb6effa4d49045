"""The SQLite database: tables, migrations, connections, and the sizes of its files."""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TypeAlias

from ..errors import JournalError, JournalTooNew
from ..rows import text_or_bytes

Migration: TypeAlias = Sequence[str]
"""The statements that migrate a database from one version to the next."""

BUSY_SECONDS = 2.0
"""How long a write waits while another program, such as a backup, holds a lock."""

_FIRST: Migration = (
    # AUTOINCREMENT where a number is used outside the table (in a cursor, between two pages of a read),
    # because the number of a deleted row must not be reused.
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
    # Also indexes streams without events: a condition on last_seq would cost every save a page.
    "CREATE INDEX stream_by_status ON stream (status)",
    "CREATE INDEX stream_open ON stream (open) WHERE open = 1",
    # The number of listed streams by status. Every save updates it, because counting them takes too long.
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

_NOTES: Migration = (
    "CREATE TABLE note (kind TEXT, key TEXT, body TEXT NOT NULL, PRIMARY KEY (kind, key)) WITHOUT ROWID",
)

_OWNERS: Migration = (
    "ALTER TABLE stream ADD COLUMN owner TEXT NOT NULL DEFAULT ''",
    # Without the streams that have no owner, which then cost nothing.
    "CREATE INDEX stream_of_owner ON stream (owner) WHERE owner <> ''",
    """CREATE TABLE owner_tally (
        owner TEXT, status TEXT, streams INTEGER NOT NULL, PRIMARY KEY (owner, status)) WITHOUT ROWID""",
)

_VOTES: Migration = ("ALTER TABLE question ADD COLUMN votes TEXT",)

_MEMBERS: Migration = (
    "ALTER TABLE stream ADD COLUMN epoch INTEGER NOT NULL DEFAULT 0",
    "ALTER TABLE stream ADD COLUMN demands INTEGER NOT NULL DEFAULT 0",
    "ALTER TABLE inbox ADD COLUMN node TEXT NOT NULL DEFAULT ''",
    # Refused commands have open = 2, and the time of the refusal in `at`.
    "CREATE INDEX inbox_refused ON inbox (stream_id) WHERE open = 2",
)

STEPS: Sequence[Migration] = (_FIRST, _NOTES, _OWNERS, _VOTES, _MEMBERS)
"""Step n (from 0) migrates version n to version n + 1. Released steps never change."""
ADDED = (
    "CREATE INDEX IF NOT EXISTS stream_by_demands ON stream (demands)",
    """CREATE TABLE IF NOT EXISTS outbox (
        id INTEGER PRIMARY KEY AUTOINCREMENT, body TEXT NOT NULL, at REAL NOT NULL)""",
    """CREATE TABLE IF NOT EXISTS extract (
        stream_id INTEGER PRIMARY KEY REFERENCES stream ON DELETE CASCADE,
        seq INTEGER NOT NULL,
        form TEXT NOT NULL,
        body TEXT NOT NULL)""",
)
"""Changes that older programs can ignore. They do not raise the version, so older programs can still open the
file."""


def migrate(db: sqlite3.Connection, steps: Sequence[Migration]) -> None:
    """Migrate the database to the newest version, or leave it unchanged if that fails.

    Raises:
        JournalTooNew: a newer version of the program wrote it.
    """
    db.execute("BEGIN IMMEDIATE")
    try:
        (version,) = db.execute("PRAGMA user_version").fetchone()
        if version > len(steps):
            raise JournalTooNew(
                f"the journal has version {version}, but this program reads versions up to {len(steps)}: "
                "update it"
            )
        for step in steps[version:]:
            for statement in step:
                db.execute(statement)
        if len(steps) == len(STEPS):
            for statement in ADDED:
                db.execute(statement)
        db.execute(f"PRAGMA user_version = {len(steps)}")
        db.execute("COMMIT")
    finally:
        if db.in_transaction:
            db.execute("ROLLBACK")


CACHE = 24 * 1024 * 1024
"""Bytes of memory for pages, of all connections of a journal."""
CONNECTIONS = 4
"""Maximum number of connections of a journal: the writer, the reader, and those of `SqlReader`'s threads."""


def open_writer(file: Path, *, wait_for_disk: bool, cache: int = CACHE) -> sqlite3.Connection:
    """Open the only connection that writes, and migrate the tables to the newest version.

    With `wait_for_disk`, a commit returns only when it would survive a power failure. `cache` is that of all
    connections.

    Raises:
        JournalTooNew: a newer version of the program wrote it. JournalError: the file system does not support
        a write-ahead log, or the file belongs to another program.
    """
    # Mode 0600, because the directory may be readable by others. SQLite creates its other files with the
    # same mode.
    os.close(os.open(file, os.O_RDWR | os.O_CREAT, 0o600))
    db = _connect(file.absolute().as_uri(), cache)
    try:
        (version,) = db.execute("PRAGMA user_version").fetchone()
        if version == 0 and db.execute("SELECT 1 FROM sqlite_schema").fetchone():
            raise JournalError(f"{file} is the database of another program: use another directory")
        # Before the first table: `FreePages`. An older file stays as it is.
        db.execute("PRAGMA auto_vacuum = INCREMENTAL")
        (mode,) = db.execute("PRAGMA journal_mode = WAL").fetchone()
        if mode != "wal":
            raise JournalError(
                f"{file.parent} is on a file system without support for a write-ahead log; use a local disk"
            )
        db.execute(f"PRAGMA synchronous = {'FULL' if wait_for_disk else 'OFF'}")
        # On macOS, an ordinary sync leaves the data in the cache of the disk.
        db.execute("PRAGMA fullfsync = ON")
        db.execute("PRAGMA foreign_keys = ON")
        # Overwrite deleted data, whatever the default of this build of SQLite.
        db.execute("PRAGMA secure_delete = ON")
        # Otherwise a burst of writes would leave a large write-ahead log behind.
        db.execute(f"PRAGMA journal_size_limit = {LONGEST}")
        migrate(db, STEPS)
    except BaseException:
        db.close()
        raise
    return db


def connect_reader(file: Path, *, at_rest: bool = False, cache: int = CACHE) -> sqlite3.Connection:
    """Open a read-only connection. It sees committed data.

    `at_rest` states that no process has the file open, so that SQLite creates no files beside it.
    """
    return _connect(f"{file.absolute().as_uri()}?mode=ro{'&immutable=1' if at_rest else ''}", cache)


def _connect(uri: str, cache: int) -> sqlite3.Connection:
    # Connections move between threads, but are never used by two at the same time.
    db = sqlite3.connect(uri, uri=True, isolation_level=None, check_same_thread=False, timeout=BUSY_SECONDS)
    db.text_factory = text_or_bytes
    try:
        db.execute(f"PRAGMA cache_size = {-(cache // CONNECTIONS // 1024)}")  # in KiB, if negative
    except BaseException:
        db.close()
        raise
    return db


# ----------------------------------------------------------------- the write-ahead log

LONGEST = 2**26
"""The size in bytes above which the write-ahead log is truncated, which waits for current readers."""


class WriteAheadLog:
    """Limits the size of the write-ahead log.

    SQLite restarts the log when a write finds no reader in it. Long reads that overlap leave no such moment:
    with a hundred thousand streams and constant searches, the log grew by megabytes per second.
    """

    def __init__(self, db: sqlite3.Connection) -> None:
        (_, _, file) = db.execute("PRAGMA database_list").fetchone()
        self._file = f"{file}-wal"
        self._most = LONGEST

    def bound(self, db: sqlite3.Connection) -> None:
        """Truncate the log if it is too large. Called between two transactions.

        Waits at most `BUSY_SECONDS` for readers, because another program may read for hours. After a failure,
        the next attempt is made when the log has grown by another `LONGEST` bytes.
        """
        try:
            size = os.stat(self._file).st_size
        except OSError:  # removed: `Presence` reports that
            return
        if size <= self._most:
            return
        unfinished = True
        # A failure is harmless, because the commit is already durable. SQLite ignores it after a commit as
        # well.
        with suppress(sqlite3.Error):
            (unfinished, _, _) = db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        self._most = LONGEST + (size if unfinished else 0)


# ----------------------------------------------------------------- the size of the database

PAUSE = 0.05
"""Seconds without a commit after which a step is made."""
_MOST_PAUSE = 0.2
"""Seconds after which one is made between two commits, if they never pause."""
_STEP_SECONDS = 0.004
"""How long a step moves pages. A commit that comes meanwhile waits for it."""
_STEP_PAGES = 16
"""Pages between two readings of the clock."""
_KEPT = 256
"""Number of free pages that stay, for the next writes: 1 MiB."""
_INCREMENTAL = 2
"""The mode of ``auto_vacuum`` in which pages are returned on demand."""


class FreePages:
    """Returns the pages of deleted rows to the file system, in small steps.

    A step moves pages from the end of the file into free ones, in a transaction of its own, and shortens the
    file. That needs what SQLite notes only in a file that was made with ``auto_vacuum``; in an older one the
    free pages are reused, until `sqlite.compact` is called.
    """

    def __init__(self, db: sqlite3.Connection) -> None:
        (mode,) = db.execute("PRAGMA auto_vacuum").fetchone()
        self._is_possible = mode == _INCREMENTAL
        self._last = time.perf_counter()
        self.are_many = False
        self.check(db)

    def check(self, db: sqlite3.Connection) -> None:
        """Note whether there are pages to return. Called between two transactions."""
        self.are_many = self._is_possible and _number_of_free_pages(db) > _KEPT

    @property
    def are_overdue(self) -> bool:
        """Whether a step is to be made although commits wait."""
        return self.are_many and time.perf_counter() - self._last >= _MOST_PAUSE

    def step(self, db: sqlite3.Connection) -> None:
        """Return some pages. Called between two transactions.

        A failure changes no content, so it breaks nothing: the next commit finds out whether the disk is at
        fault. There are no more steps then until the journal is opened again.
        """
        until = time.perf_counter() + _STEP_SECONDS
        try:
            db.execute("BEGIN IMMEDIATE")
            while self.are_many and time.perf_counter() < until:
                db.execute(f"PRAGMA incremental_vacuum({_STEP_PAGES})").fetchall()  # a page for each row
                self.check(db)
            db.execute("COMMIT")
            if not self.are_many:  # the file gets shorter with a checkpoint
                db.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
        except sqlite3.Error:
            self._is_possible = self.are_many = False
            if db.in_transaction:
                db.execute("ROLLBACK")
        self._last = time.perf_counter()


def _number_of_free_pages(db: sqlite3.Connection) -> int:
    (count,) = db.execute("PRAGMA freelist_count").fetchone()
    return int(count)
