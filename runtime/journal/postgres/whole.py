"""The tables as a whole, for copies of the journal."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeAlias

import psycopg

from ..errors import JournalError
from .pool import connect
from .tables import migrate, sql

Run: TypeAlias = Callable[..., list[tuple[Any, ...]]]
RunAll: TypeAlias = Callable[[str, Sequence[tuple[Any, ...]]], None]


@contextmanager
def open_tables(dsn: str, *, writes: bool) -> Iterator[tuple[Run, RunAll]]:
    """Functions that execute a statement with question marks, once or for each of several rows, in one
    transaction, which is committed at the end if `writes`, and sees one state of the database.

    Raises:
        JournalError
    """
    try:
        with connect(dsn) as db:
            migrate(db)
            db.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
            if writes:  # no process can begin its lease meanwhile
                db.execute("LOCK TABLE node IN EXCLUSIVE MODE")

            def run(statement: str, *values: object) -> list[tuple[Any, ...]]:
                done = db.execute(sql(statement.replace("?", "%s")), values)
                return done.fetchall() if done.description is not None else []

            def run_all(statement: str, rows: Sequence[tuple[Any, ...]]) -> None:
                db.cursor().executemany(sql(statement.replace("?", "%s")), rows)

            yield run, run_all
            db.execute("COMMIT" if writes else "ROLLBACK")
    except psycopg.Error as error:
        raise JournalError(f"the database refuses: {' '.join(str(error).split())}") from error
