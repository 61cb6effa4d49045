"""The read side of the SQLite journal: connections beside the one that writes."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import trio

from ..errors import unreadable
from . import database

T = TypeVar("T")

_THREADS = 2


class SqlReader:
    """Runs queries that see every commit made before they begin.

    Queries for one stream or one page run on trio's thread, because they take less time than a hop to another
    thread. Queries that may scan a whole table run in a thread.
    """

    def __init__(self, file: Path, *, inline: bool) -> None:
        self._file = file
        self._inline = inline
        self._db = database.connect_reader(file)
        self._idle: list[sqlite3.Connection] = []
        self._threads = trio.CapacityLimiter(_THREADS)

    async def quick(self, query: Callable[[sqlite3.Connection], T]) -> T:
        """Run a query on trio's thread. For queries of a millisecond or less.

        Raises:
            JournalError: the database cannot be read.
        """
        await trio.lowlevel.checkpoint()
        try:
            return query(self._db)
        except sqlite3.Error as error:
            raise unreadable(error) from error

    async def slow(self, query: Callable[[sqlite3.Connection], T]) -> T:
        """Run a query in a thread. For queries without a bound on their time.

        Raises:
            JournalError: the database cannot be read.
        """
        if self._inline:
            return await self.quick(query)
        try:
            return await trio.to_thread.run_sync(self._with_idle, query, limiter=self._threads)
        except sqlite3.Error as error:
            raise unreadable(error) from error

    def _with_idle(self, query: Callable[[sqlite3.Connection], T]) -> T:
        db = self._idle.pop() if self._idle else database.connect_reader(self._file)
        try:
            return query(db)
        finally:
            self._idle.append(db)

    def close(self) -> None:
        for db in (self._db, *self._idle):
            db.close()
