"""The tables as a whole, for copies of the journal, by `COPY`: row by row in one statement for each table."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

import attrs
import psycopg

from ... import json_text
from ..copied_rows import COLUMNS, CopiedRow, LivingMember
from ..errors import JournalError
from . import tally
from .pool import connect
from .tables import Connection, migrate, sql

_COLUMNS = {
    **{table: columns.replace("stream_id", "stream") for table, columns in COLUMNS.items()},
    "stream": COLUMNS["stream"].replace("open", "work"),
}
_NUMBERS = {"stream": "id", "inbox": "id", "question": "number", "outbox": "id"}
_BODY = COLUMNS["question"].split(", ").index("body")
_GONE_AFTER = """SELECT set_config('tcp_keepalives_' || name, value, false) FROM
    (VALUES ('idle', '10'), ('interval', '5'), ('count', '4')) AS given (name, value)"""
"""The server undoes the copy of a machine that has vanished, and unlocks the table, in half a minute."""


@attrs.frozen
class DatabaseRows:
    """The implementation of `CopiedRows` on PostgreSQL. Created by `open_rows`."""

    _db: Connection

    def living(self) -> Sequence[LivingMember]:
        found = self._db.execute(
            "SELECT name, about, until - journal_now() FROM node WHERE until > journal_now() ORDER BY name"
        )
        return [LivingMember(*row) for row in found]

    def count(self, table: str) -> int:
        ((count,),) = self._db.execute(sql(f"SELECT count(*) FROM {table}")).fetchall()
        return int(count)

    @contextmanager
    def read(self, table: str) -> Iterator[Iterator[CopiedRow]]:
        patch = ", patch" if table == "question" else ""
        query = f"SELECT {_COLUMNS[table]}{patch} FROM {table}"
        columns = self._db.execute(sql(f"{query} LIMIT 0")).description or ()
        with self._db.cursor().copy(sql(f"COPY ({query}) TO STDOUT")) as copy:
            copy.set_types([each.type_code for each in columns])
            yield map(_patched, copy.rows()) if patch else copy.rows()

    def write(self, table: str, rows: Iterable[CopiedRow]) -> None:
        columns = _COLUMNS[table]
        if table == "note":
            columns, rows = f"{columns}, revision", ((*row, 1) for row in rows)
        with self._db.cursor().copy(sql(f"COPY {table} ({columns}) FROM STDIN")) as copy:
            for row in rows:
                copy.write_row(row)
        if number := _NUMBERS.get(table):  # the role of an agent may use a sequence, but not set it
            sequence = f"pg_get_serial_sequence('{table}', '{number}')"
            highest = f"(SELECT max({number}) FROM {table})"
            self._db.execute(sql(f"SELECT count(nextval({sequence})) FROM generate_series(1, {highest})"))

    def name(self, stream: int) -> str:
        ((name,),) = self._db.execute("SELECT name FROM stream WHERE id = %s", (stream,)).fetchall()
        return str(name)

    def complete(self) -> None:
        self._db.execute("INSERT INTO note_kind SELECT DISTINCT kind, 1 FROM note ON CONFLICT DO NOTHING")
        self._db.execute(tally.FOLD)


def _patched(row: CopiedRow) -> CopiedRow:
    *columns, patch = row
    if patch is not None:
        columns[_BODY] = json_text.dump({**json_text.load(columns[_BODY]), **json_text.load(patch)})
    return tuple(columns)


@contextmanager
def open_rows(dsn: str, *, writes: bool) -> Iterator[DatabaseRows]:
    """The tables in one transaction, which is committed at the end of the block if `writes`, and sees one
    state of the database. If the process dies before, the server undoes it.

    Raises:
        JournalError
    """
    try:
        with connect(dsn) as db:
            migrate(db)
            db.execute(_GONE_AFTER)
            db.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
            if writes:  # no process can begin its lease meanwhile
                db.execute("LOCK TABLE node IN EXCLUSIVE MODE")
            yield DatabaseRows(db)
            db.execute("COMMIT" if writes else "ROLLBACK")
    except psycopg.Error as error:
        raise JournalError(f"the database refuses: {' '.join(str(error).split())}") from error
