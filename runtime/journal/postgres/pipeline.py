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
PipelineAnswer: TypeAlias = Sequence[PGresult] | psycopg.Error
"""The results of the statements of a committed transaction, or why nothing was committed."""


@attrs.frozen
class _Sent:
    """What comes before a Sync."""

    texts: Sequence[str]
    """Of the statements."""
    name: bytes | None = None
    """If a statement is prepared: its name."""


@attrs.define(eq=False)
class Pipeline:
    """Used by one task at a time. After an error or a cancellation, it must be closed."""

    _db: Connection
    _prepared: dict[str, bytes] = attrs.field(factory=dict)
    """The names of the prepared statements, by their texts."""
    _refused: dict[str, psycopg.Error] = attrs.field(factory=dict)
    """The statements that were sent now and cannot be prepared, by their texts."""
    _names: int = 0
    _sent: deque[_Sent] = attrs.field(factory=deque)
    """What has no answer yet."""
    _results: list[PGresult] = attrs.field(factory=list)
    """Those of the first of them."""
    _answers: list[PipelineAnswer] = attrs.field(factory=list)

    @property
    def _libpq(self) -> PGconn:
        return self._db.pgconn

    def send(self, transactions: Sequence[Sequence[BinaryQuery]]) -> None:
        """Put transactions into the buffer."""
        self._answers = []
        self._refused = {}
        for queries in transactions:
            for query in queries:
                if query.text not in self._prepared:
                    self._prepare(query)
            for query in queries:
                formats = [_BINARY] * len(query.values)
                self._libpq.send_query_prepared(self._prepared[query.text], query.values, formats, _BINARY)
            self._sync(_Sent([query.text for query in queries]))

    def _prepare(self, query: BinaryQuery) -> None:
        """By itself, so that no error of another statement undoes it."""
        self._names += 1
        name = self._prepared[query.text] = b"s%d" % self._names
        self._libpq.send_prepare(name, sql(query.text), query.types)
        self._sync(_Sent([query.text], name))

    def _sync(self, sent: _Sent) -> None:
        self._libpq.pipeline_sync()
        self._sent.append(sent)

    async def answers(self) -> Sequence[PipelineAnswer]:
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
                self._answer(self._sent.popleft())
            else:
                self._results.append(result)
        return self._answers

    def _answer(self, sent: _Sent) -> None:
        results, self._results = self._results, []
        failed = next((each for each in results if each.status not in _GOOD), None)
        error = None if failed is None else psycopg.errors.error_from_result(failed)
        if sent.name is None:
            refused = (self._refused[text] for text in sent.texts if text in self._refused)
            self._answers.append(next(refused, error) or results)
        elif error is not None:
            [text] = sent.texts
            self._refused[text] = error
            del self._prepared[text]

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
