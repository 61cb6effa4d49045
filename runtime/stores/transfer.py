"""Copies a journal to another store: from a directory to PostgreSQL, back, or between two of a kind.

All rows are copied as they are stored, in one transaction of the target, and are then read there and compared
with the source. A stream keeps its order among the others; its owner is not copied.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import zip_longest
from pathlib import Path
from typing import Any, TypeAlias

import attrs

from .. import json_text
from ..journal import database
from ..journal.errors import JournalError, StreamDamaged
from ..journal.files import check_directory, locked, make_directory
from ..journal.sqlite import FILE
from ..journal.store_address import is_postgres

Row: TypeAlias = tuple[Any, ...]

_STREAM = "name, status, title, folded_title, {work}, body, owner, last_seq, created, updated, demands"
_PARTS = {
    "event": ("seq, type, at, body", "seq"),
    "inbox": ("key, kind, body, at, node, open, reply", "id"),
    "intent": ("key, attempt, effect, state, body", "key, attempt"),
}
"""Columns and order of the tables whose rows belong to a stream and need no other order."""
_QUESTION = "id, kind, state, body, decision, created, expires, settled, votes"
_PAGE = 500


@attrs.frozen
class Copied:
    """What was copied and compared."""

    streams: int
    events: int
    notes: int


@attrs.frozen
class _Store:
    """A store as tables. Both kinds have the same, with small differences."""

    run: Callable[..., Any]
    """Executes a statement with question marks, and returns its rows."""
    run_all: Callable[[str, Sequence[Row]], None]
    """Executes a statement for each row."""
    of_stream: str
    """The column with the id of the stream."""
    work: str
    """The column with the work of the stream."""
    is_postgres: bool

    def streams(self, after: int = 0) -> Iterator[tuple[int, Row]]:
        """Id and row of each stream, in order."""
        columns = _STREAM.format(work=self.work)
        while True:
            query = f"SELECT id, {columns} FROM stream WHERE id > ? ORDER BY id LIMIT {_PAGE}"
            found = self.run(query, after)
            yield from ((id, tuple(row)) for id, *row in found)
            if len(found) < _PAGE:
                return
            after = found[-1][0]

    def parts(self, id: int) -> dict[str, list[Row]]:
        """The rows that belong to a stream, by table, without the questions."""
        return {
            table: self.run(f"SELECT {columns} FROM {table} WHERE {self.of_stream} = ? ORDER BY {order}", id)
            for table, (columns, order) in _PARTS.items()
        }

    def questions(self) -> Iterator[tuple[int, str, Row]]:
        """Number, stream and row of each question, in order."""
        after, patch = 0, ", patch" if self.is_postgres else ""
        columns = ", ".join(f"question.{name}" for name in (_QUESTION + patch).split(", "))
        while True:
            found = self.run(
                f"SELECT number, name, {columns} FROM question JOIN stream ON stream.id = {self.of_stream}"
                f" WHERE number > ? ORDER BY number LIMIT {_PAGE}",
                after,
            )
            for number, name, *row in found:
                yield number, name, _patched(row) if self.is_postgres else tuple(row)
            if len(found) < _PAGE:
                return
            after = found[-1][0]

    def notes(self) -> list[Row]:
        return sorted(map(tuple, self.run("SELECT kind, key, body FROM note")))

    def add_stream(self, row: Row) -> int:
        columns = _STREAM.format(work=self.work)
        [(id,)] = self.run(f"INSERT INTO stream ({columns}) VALUES ({_marks(row)}) RETURNING id", *row)
        return int(id)

    def add(self, table: str, columns: str, rows: Sequence[Row]) -> None:
        """Each row begins with the id of its stream."""
        if rows:
            marks = _marks(rows[0])
            self.run_all(f"INSERT INTO {table} ({self.of_stream}, {columns}) VALUES ({marks})", rows)

    def add_note(self, row: Row) -> None:
        if self.is_postgres:
            self.run("INSERT INTO note_kind VALUES (?, 1) ON CONFLICT DO NOTHING", row[0])
            self.run("INSERT INTO note VALUES (?, ?, ?, 1)", *row)
        else:
            self.run("INSERT INTO note VALUES (?, ?, ?)", *row)

    def count(self) -> None:
        """Bring the numbers of streams up to date, which SQLite keeps in tables."""
        if not self.is_postgres:
            listed = "FROM stream WHERE last_seq <> 0"
            self.run(f"INSERT INTO tally SELECT status, count(*) {listed} GROUP BY status")
            self.run(
                f"INSERT INTO owner_tally SELECT owner, status, count(*) {listed} AND owner <> ''"
                " GROUP BY owner, status"
            )

    def check_unused(self) -> None:
        """Raises `JournalError` if a process works with it. A directory is locked."""
        if self.is_postgres:
            [(living,)] = self.run("SELECT count(*) FROM node WHERE until > journal_now()")
            if living:
                raise JournalError(f"processes work with the database: {living}; stop them first")

    @property
    def is_empty(self) -> bool:
        return not self.run("SELECT 1 FROM stream LIMIT 1") and not self.run("SELECT 1 FROM note LIMIT 1")


def copy_journal(source: Path | str, target: Path | str) -> Copied:
    """Copy a journal to an empty one, and compare.

    Addresses are as in `open_journal`. Nothing is copied if it fails.

    Raises:
        JournalError: a journal cannot be opened or is in use, the target is not empty, or a row is damaged.
    """
    with _opened(source, writes=False) as old, _opened(target, writes=True) as new:
        old.check_unused()
        new.check_unused()
        if not new.is_empty:
            raise JournalError(f"{_shown(target)} already has conversations or notes")
        ids: dict[str, int] = {}
        for id, row in old.streams():
            name = row[0]
            new_id = ids[name] = new.add_stream(_sound(name, row))
            for table, rows in old.parts(id).items():
                new.add(table, _PARTS[table][0], [(new_id, *_sound(name, each)) for each in rows])
        for _, name, row in old.questions():
            new.add("question", _QUESTION, [(ids[name], *_sound(name, row))])
        for note in old.notes():
            new.add_note(note)
        new.count()
        return _compare(old, new)


def _compare(old: _Store, new: _Store) -> Copied:
    """Raises `JournalError` if the stores differ."""
    streams = events = 0
    for before, after in zip_longest(_contents(old), _contents(new)):
        if before != after:
            raise JournalError(f"the copy differs: {(before or after)[0]!r} of the source or the target")
        streams, events = streams + 1, events + len(before[1]["event"])
    for one, other in zip_longest(old.questions(), new.questions(), fillvalue=(0, "", ())):
        if one[1:] != other[1:]:
            raise JournalError(f"the copy of a question of {one[1] or other[1]!r} differs")
    notes = new.notes()
    if old.notes() != notes:
        raise JournalError("the copies of the notes differ")
    return Copied(streams, events, len(notes))


def _contents(store: _Store) -> Iterator[tuple[Row, dict[str, list[Row]]]]:
    for id, row in store.streams():
        parts = {table: [tuple(each) for each in rows] for table, rows in store.parts(id).items()}
        parts["intent"].sort()  # the stores sort texts differently
        yield row, parts


def _sound(stream: str, row: Row) -> Row:
    """Raises `StreamDamaged` for a text that is none."""
    if any(isinstance(value, bytes) for value in row):
        raise StreamDamaged(stream, "a row is damaged; delete the conversation, or restore it from a backup")
    return tuple(row)


def _patched(row: Sequence[Any]) -> Row:
    *columns, patch = row
    if patch is not None:
        columns[3] = json_text.dump({**json_text.load(columns[3]), **json_text.load(patch)})
    return tuple(columns)


def _marks(row: Row) -> str:
    return ", ".join("?" * len(row))


def _shown(address: Path | str) -> str:
    return "the database" if is_postgres(address) else str(address)


def _sqlite(db: sqlite3.Connection) -> _Store:
    def run(statement: str, *values: object) -> list[Row]:
        return db.execute(statement, values).fetchall()

    def run_all(statement: str, rows: Sequence[Row]) -> None:
        db.executemany(statement, rows)

    return _Store(run, run_all, "stream_id", "open", is_postgres=False)


@contextmanager
def _opened(address: Path | str, *, writes: bool) -> Iterator[_Store]:
    """The tables of a journal, in a transaction that is committed at the end if `writes`."""
    if isinstance(address, str) and is_postgres(address):
        from ..journal.postgres.whole import open_tables

        with open_tables(address, writes=writes) as (run, run_all):
            yield _Store(run, run_all, "stream", "work", is_postgres=True)
        return
    directory = Path(address)
    if not writes and not (directory / FILE).exists():
        raise JournalError(f"{directory} has no journal")
    make_directory(directory)
    check_directory(directory)
    with locked(directory):
        db = database.open_writer(directory / FILE, wait_for_disk=True)
        try:
            db.execute("BEGIN IMMEDIATE")
            yield _sqlite(db)
            db.execute("COMMIT" if writes else "ROLLBACK")
        finally:
            db.close()
