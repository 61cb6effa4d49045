"""Copies a journal to another store: from a directory to PostgreSQL, back, or between two of a kind.

All rows are copied as they are stored, with their numbers, then read from the target and compared. Nothing
of it can be seen there before: a database gets one transaction, a directory a file that is renamed at the
end. The owner of a stream is not copied.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from itertools import chain
from pathlib import Path
from typing import Literal, TypeAlias

import attrs

from ..journal.copied_rows import COLUMNS, CopiedRow, CopiedRows, LivingMember
from ..journal.errors import JournalError, StreamDamaged, shown
from ..journal.sqlite.whole_file import existing_rows, new_rows
from ..journal.store_address import is_postgres

CopyPhase: TypeAlias = Literal["copying", "comparing"]
Tell: TypeAlias = Callable[[CopyPhase, int, int], None]
"""Is told the step, and how many rows of how many it has done."""

_TELL_EVERY = 256
"""Rows."""


class JournalInUse(JournalError):
    """Members work with the database."""

    def __init__(self, members: Sequence[LivingMember]) -> None:
        super().__init__(f"processes work with the database: {len(members)}; stop them first")
        self.members = members


@attrs.frozen
class Copied:
    """What was copied and compared."""

    streams: int
    events: int
    notes: int


def copy_journal(
    source: Path | str,
    target: Path | str,
    *,
    without: Collection[str] = (),
    notes: Sequence[CopiedRow] = (),
    tell: Tell = lambda step, done, total: None,
    last: Callable[[], None] = lambda: None,
) -> Copied:
    """Copy a journal to an empty one, and compare. If it fails or is interrupted, nothing is copied.

    Addresses are as in `open_journal`. Notes of the kinds `without` are not copied; the target also gets
    `notes`. `last` is called when all is compared: the target has the copy only if it returns.

    Raises:
        JournalInUse: members work with a journal.
        JournalError: a journal cannot be opened, the target is not empty, or a row is damaged.
    """
    with _opened(source) as old, _opened(target, is_new=True) as new:
        for each in (old, new):
            if members := each.living():
                raise JournalInUse(members)
        if new.count("stream") or new.count("note"):
            raise JournalError("the database already has conversations or notes")
        total = sum(map(old.count, COLUMNS)) + len(notes)
        copied, found = _Counted("copying", total, tell), _Counted("comparing", total, tell)
        for table in COLUMNS:
            with old.read(table) as stored:
                rows = _sound(old, table, stored)
                if table == "note":
                    rows = chain((row for row in rows if row[0] not in without), notes)
                new.write(table, copied.each(table, rows))
        new.complete()
        for table in COLUMNS:
            with new.read(table) as stored:
                deque(found.each(table, stored), maxlen=0)
            if found.sums[table] != copied.sums[table]:
                raise JournalError(f"the copy differs in the table {table!r}")
        last()
        return Copied(*(copied.sums[table].rows for table in ("stream", "event", "note")))


@attrs.define
class _Sum:
    """Of rows in any order: equal for equal rows, and practically never for others."""

    rows: int = 0
    hashes: int = 0


@attrs.define
class _Counted:
    """Counts the rows of a step while they pass."""

    _step: CopyPhase
    _total: int
    _tell: Tell
    sums: dict[str, _Sum] = attrs.field(factory=dict)
    """By table."""
    _done: int = 0

    def each(self, table: str, rows: Iterable[CopiedRow]) -> Iterator[CopiedRow]:
        sum = self.sums[table] = _Sum()
        for row in rows:
            yield row
            sum.rows += 1
            sum.hashes += hash(row)
            self._done += 1
            if self._done % _TELL_EVERY == 0:
                self._tell(self._step, self._done, self._total)


def _sound(store: CopiedRows, table: str, rows: Iterable[CopiedRow]) -> Iterator[CopiedRow]:
    """Raises `JournalError` for a text that is none."""
    columns = COLUMNS[table].split(", ")
    for row in rows:
        if bytes in map(type, row):
            if table in ("note", "outbox"):
                raise JournalError(f"a row of {table!r} is damaged; restore the journal from a backup")
            id = row[columns.index("id" if table == "stream" else "stream_id")]
            stream = shown(store.name(id))
            raise StreamDamaged(
                stream, "a row is damaged; delete the conversation, or restore it from a backup"
            )
        yield row


def _opened(address: Path | str, *, is_new: bool = False) -> AbstractContextManager[CopiedRows]:
    if isinstance(address, str) and is_postgres(address):
        from ..journal.postgres.whole import open_rows

        return open_rows(address, writes=is_new)
    return new_rows(Path(address)) if is_new else existing_rows(Path(address))
