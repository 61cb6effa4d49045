"""A connection to PostgreSQL that trio drives, without a thread.

Psycopg's connections wait in the thread that calls them, or need asyncio. So this one uses `psycopg.pq`, its
documented wrapper of libpq, in pipeline mode: statements are put into a buffer, and the task waits for the
socket. Each statement is prepared at its first use.

A row is not a commit: rows arrive before the server commits at the Sync behind the statement. So only a
statement whose Sync was answered, without an error before it, has an answer.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeAlias

import attrs
import psycopg
import trio
from psycopg import pq
from psycopg.pq.abc import PGconn, PGresult

from .binary import BinaryQuery
from .pool import SETTINGS, connected
from .tables import Connection, sql

_OWN_SETTINGS = """SELECT set_config('plan_cache_mode', 'force_generic_plan', false),
    set_config('enable_seqscan', 'off', false), set_config('jit', 'off', false)"""
"""A statement is planned once, whatever the tables had then: by their indexes. Such a plan looks so expensive
that it would be compiled each time, which takes 0.3 s."""

_Readiness: TypeAlias = Callable[[int], Awaitable[None]]
GroupAnswer: TypeAlias = PGresult | psycopg.Error
"""The rows of a committed statement, or why nothing was committed."""


@attrs.define(eq=False)
class Pipeline:
    """Used by one task at a time. After an error or a cancellation, it must be closed."""

    _db: Connection
    _prepared: dict[str, bytes] = attrs.field(factory=dict)
    """The names of the prepared statements, by their texts."""
    _names: int = 0
    _sent: deque[tuple[str, bytes | None]] = attrs.field(factory=deque)
    """The statements that have no answer yet, with the names of those that are prepared before."""
    _results: list[PGresult] = attrs.field(factory=list)
    """Those of the first of them."""
    _answers: list[GroupAnswer] = attrs.field(factory=list)

    @property
    def _libpq(self) -> PGconn:
        return self._db.pgconn

    def send(self, queries: Sequence[BinaryQuery]) -> None:
        """Put statements into the buffer, each a transaction of its own."""
        self._answers = []
        for query in queries:
            name, new = self._prepared.get(query.text), None
            if name is None:
                self._names += 1
                name = new = b"s%d" % self._names
                self._libpq.send_prepare(new, sql(query.text), query.types)
            self._libpq.send_query_prepared(name, query.values, [_BINARY] * len(query.values), _BINARY)
            self._libpq.pipeline_sync()
            self._sent.append((query.text, new))

    async def answers(self) -> Sequence[GroupAnswer]:
        """Return the answers to what was sent. Can be called again after a cancellation.

        Raises:
            psycopg.OperationalError: the connection was lost. What was committed is not known.
        """
        while self._libpq.flush():
            await _readable_or_writable(self._libpq.socket)
            self._libpq.consume_input()
        while self._sent:
            while self._libpq.is_busy():
                await trio.lowlevel.wait_readable(self._libpq.socket)
                self._libpq.consume_input()
            result = self._libpq.get_result()
            if result is None:  # it also comes between two results
                if self._libpq.status != pq.ConnStatus.OK:
                    raise psycopg.OperationalError("the connection was lost")
            elif result.status == pq.ExecStatus.PIPELINE_SYNC:
                self._answers.append(self._answer(*self._sent.popleft()))
            else:
                self._results.append(result)
        return self._answers

    def _answer(self, text: str, new: bytes | None) -> GroupAnswer:
        results, self._results = self._results, []
        if new is not None and results[0].status == pq.ExecStatus.COMMAND_OK:
            self._prepared[text] = new
        failed = next((each for each in results if each.status not in _GOOD), None)
        return results[-1] if failed is None else psycopg.errors.error_from_result(failed)

    def close(self) -> None:
        self._db.close()


_GOOD = (pq.ExecStatus.TUPLES_OK, pq.ExecStatus.COMMAND_OK)
_BINARY = pq.Format.BINARY


async def _readable_or_writable(socket: int) -> None:
    """A server may read no more before its answers are read."""
    async with trio.open_nursery() as nursery:
        for wait in (trio.lowlevel.wait_readable, trio.lowlevel.wait_writable):

            @nursery.start_soon
            async def either(wait: _Readiness = wait) -> None:
                await wait(socket)
                nursery.cancel_scope.cancel()


async def open_pipeline(dsn: str) -> Pipeline:
    """Raises psycopg.Error, `JournalError`."""

    def prepare(db: Connection) -> None:
        db.execute(SETTINGS)
        db.execute(_OWN_SETTINGS)

    db = await connected(dsn, prepare)
    db.pgconn.nonblocking = 1
    db.pgconn.enter_pipeline_mode()
    return Pipeline(db)
