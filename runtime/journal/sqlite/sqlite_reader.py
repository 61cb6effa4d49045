"""The journal of a directory, opened for reading only, also while an agent has it open."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TypeVar

import attrs
import trio

from ..errors import JournalBusy, JournalError, JournalTooNew, unreadable
from ..passage import Passage, PassagePlace, WantedEvents
from ..protocol import Json
from . import database, sql_note, sql_passage
from .sqlite_journal import FILE

T = TypeVar("T")


@contextmanager
def read_sqlite(directory: Path) -> Iterator[SqliteReader]:
    """Open the journal of a directory for reading.

    Raises:
        JournalTooNew: a newer version of the program wrote it. JournalError: it cannot be read, or an earlier
            version wrote it.
    """
    file = directory / FILE
    if not file.is_file():
        raise JournalError(f"{directory} has no journal")
    log = directory / f"{FILE}-wal"
    before, at_rest = _stamp(file), not log.exists()
    try:
        with closing(database.connect_reader(file, at_rest=at_rest)) as db:
            (version,) = db.execute("PRAGMA user_version").fetchone()
            _check(directory, version)
            yield SqliteReader(db, file, log, before if at_rest else None)
    except sqlite3.Error as error:
        raise unreadable(error) from error


def _stamp(file: Path) -> tuple[int, int]:
    """Changes when something is written to a file."""
    found = file.stat()
    return found.st_mtime_ns, found.st_size


def _check(directory: Path, version: int) -> None:
    newest = len(database.STEPS)
    if version > newest:
        raise JournalTooNew(
            f"the journal in {directory} has version {version}, but this program reads version {newest}: "
            "update it"
        )
    if version < newest:
        raise JournalError(
            f"the journal in {directory} has version {version}, but this program reads version {newest}: "
            "start the agent once with this version"
        )


@attrs.frozen
class SqliteReader:
    """Made by `read_sqlite`."""

    _db: sqlite3.Connection
    _file: Path
    _log: Path
    """The file that appears if an agent opens the journal meanwhile."""
    _at_rest: tuple[int, int] | None
    """The stamp of the file at rest; None if an agent has it open."""

    async def passage(self, wanted: WantedEvents, at: PassagePlace | None = None) -> Passage:
        return await self._run(lambda db: sql_passage.read(db, wanted, at))

    async def notes(self, kind: str, *, after: int = 0) -> Mapping[str, Json | None]:
        return await self._run(lambda db: sql_note.read(db, kind))

    async def _run(self, query: Callable[[sqlite3.Connection], T]) -> T:
        await trio.lowlevel.checkpoint()
        try:
            return query(self._db)
        except sqlite3.Error as error:
            raise unreadable(error) from error
        finally:
            # SQLite was told that nobody writes. An agent that is gone again has taken its log with it.
            if self._at_rest is not None and (self._log.exists() or _stamp(self._file) != self._at_rest):
                raise JournalBusy("an agent has opened the journal in the meantime: try again")
