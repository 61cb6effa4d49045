"""The tables of a directory as a whole, for copies of the journal.

A copy is written to a file of its own, which becomes the journal when it is complete. So it needs neither a
write-ahead log nor a rollback journal, and the file of a killed process is never taken for a journal.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from pathlib import Path

import attrs

from ..copied_rows import COLUMNS, CopiedRow, LivingMember
from ..errors import JournalError
from . import database
from .files import LOCK, UNFINISHED, check_directory, locked, make_directory, remove_unfinished
from .sqlite_journal import FILE

_LISTED = "FROM stream WHERE last_seq <> 0"
_COUNTERS = (
    f"INSERT INTO tally SELECT status, count(*) {_LISTED} GROUP BY status",
    f"INSERT INTO owner_tally SELECT owner, status, count(*) {_LISTED} AND owner <> ''"
    " GROUP BY owner, status",
)


@attrs.frozen
class DirectoryRows:
    """The implementation of `CopiedRows` on SQLite."""

    _db: sqlite3.Connection

    def living(self) -> Sequence[LivingMember]:
        return ()

    def count(self, table: str) -> int:
        (count,) = self._db.execute(f"SELECT count(*) FROM {table}").fetchone()
        return int(count)

    def read(self, table: str) -> AbstractContextManager[Iterator[CopiedRow]]:
        return closing(self._db.execute(f"SELECT {COLUMNS[table]} FROM {table}"))

    def write(self, table: str, rows: Iterable[CopiedRow]) -> None:
        marks = ", ".join("?" for _ in COLUMNS[table].split(", "))
        self._db.executemany(f"INSERT INTO {table} ({COLUMNS[table]}) VALUES ({marks})", rows)

    def name(self, stream: int) -> str:
        (name,) = self._db.execute("SELECT name FROM stream WHERE id = ?", (stream,)).fetchone()
        return str(name)

    def complete(self) -> None:
        for statement in _COUNTERS:
            self._db.execute(statement)


@contextmanager
def existing_rows(directory: Path) -> Iterator[DirectoryRows]:
    """The rows of a directory, which is locked for the block.

    Raises:
        JournalError, sqlite3.Error, OSError
    """
    if not (directory / FILE).exists():
        raise JournalError(f"{directory} has no journal")
    check_directory(directory)
    with locked(directory), closing(database.open_writer(directory / FILE, wait_for_disk=True)) as db:
        db.execute("BEGIN IMMEDIATE")
        yield DirectoryRows(db)


@contextmanager
def new_rows(directory: Path) -> Iterator[DirectoryRows]:
    """Tables that are the journal of the directory at the end of the block. If it fails, it leaves nothing
    behind.

    Raises:
        JournalError: the directory is in use, or has streams or notes already. sqlite3.Error, OSError
    """
    missing = [each for each in (directory, *directory.parents) if not each.exists()]
    make_directory(directory)
    try:
        check_directory(directory)
        was_locked = (directory / LOCK).exists()
        with locked(directory) as lock:
            try:
                if (directory / FILE).exists():
                    _check_empty(directory)
                remove_unfinished(directory)
                with _written(directory / UNFINISHED) as db:
                    yield DirectoryRows(db)
                _put_in_place(directory)
            except BaseException:
                remove_unfinished(directory)
                if not was_locked:
                    lock.unlink()
                raise
    except BaseException:
        for each in missing:
            with suppress(OSError):  # others have put something into it
                each.rmdir()
        raise


def _check_empty(directory: Path) -> None:
    with closing(database.open_writer(directory / FILE, wait_for_disk=True)) as db:
        rows = DirectoryRows(db)
        if rows.count("stream") or rows.count("note"):
            raise JournalError(f"{directory} already has conversations or notes")


@contextmanager
def _written(file: Path) -> Iterator[sqlite3.Connection]:
    with closing(database.open_writer(file, wait_for_disk=False)) as db:
        db.execute("PRAGMA journal_mode = OFF")
        db.execute("PRAGMA foreign_keys = OFF")  # the rows were checked when they were first written
        db.execute("BEGIN EXCLUSIVE")
        yield db
        db.execute("COMMIT")
    with open(file, "rb") as written:
        os.fsync(written.fileno())


def _put_in_place(directory: Path) -> None:
    for each in directory.glob(f"{FILE}-*"):  # a write-ahead log would be taken for that of the new file
        each.unlink()
    (directory / UNFINISHED).rename(directory / FILE)
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
