"""The journal in a database, opened for reading only, beside the members. Nothing is written."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import TypeVar

import attrs
import trio

from .. import note
from ..errors import JournalError, JournalTooNew
from ..passage import Passage, PassagePlace, WantedEvents
from ..protocol import Json
from . import note_table, passages
from .pool import Pool
from .tables import STEPS, Connection

T = TypeVar("T")


@asynccontextmanager
async def read_postgres(dsn: str) -> AsyncIterator[PostgresReader]:
    """Open the journal in a database for reading.

    Raises:
        JournalTooNew: a newer version of the program wrote it. JournalUnavailable. JournalError: it cannot be
            read, or there is none.
    """
    pool = Pool(dsn, trio.CapacityLimiter(1))
    failed: Exception | None = None
    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(pool.watch)
            reader = PostgresReader(pool)
            try:
                await reader.check()
                yield reader
            except Exception as error:
                failed = error  # raised outside: the nursery would put it into a group
            nursery.cancel_scope.cancel()
    finally:
        pool.close()
    if failed is not None:
        raise failed


@attrs.frozen
class PostgresReader:
    """Made by `read_postgres`."""

    _pool: Pool

    async def check(self) -> None:
        """Raises `JournalError` if there is no journal of this version."""
        version, newest = await self._run(_version), len(STEPS)
        if version == 0:
            raise JournalError("the database has no journal in the schema of this connection")
        if version > newest:
            raise JournalTooNew(
                f"the journal has version {version}, but this program reads version {newest}: update it"
            )

    async def passage(self, wanted: WantedEvents, at: PassagePlace | None = None) -> Passage:
        return await self._run(lambda db: passages.read(db, wanted, at))

    async def notes(self, kind: str, *, after: int = 0) -> Mapping[str, Json | None]:
        return note.parsed((await self._run(lambda db: note_table.read(db, kind, after))).items())

    async def _run(self, query: Callable[[Connection], T]) -> T:
        def run(db: Connection) -> T:
            with db.transaction():
                db.execute("SET TRANSACTION READ ONLY")
                return query(db)

        return await self._pool.run(run)


def _version(db: Connection) -> int:
    ((known,),) = db.execute("SELECT to_regclass('journal_version')").fetchall()
    if known is None:
        return 0
    ((version,),) = db.execute("SELECT version FROM journal_version").fetchall()
    return int(version)
