"""Connections to PostgreSQL, used in threads.

Psycopg waits in the thread that calls it, so each operation runs in a thread, with a connection of its own.
Each wait for a database that does not answer has an end, also where TCP notices nothing, because the server
is suspended or a proxy still confirms what it gets:

=====================================================  =====================================================
the operation                                          ends
=====================================================  =====================================================
has waited for `SILENCE`, for a connection or its      with `JournalUnavailable`
answer, and nothing else was answered meanwhile
has worked for `LONGEST`                               with `JournalUnavailable`
is cancelled before it has a connection                at once, and nothing was done
is cancelled later                                     with its outcome, or with `JournalUnavailable` after
                                                       `GRACE`
=====================================================  =====================================================

An operation is ended by cutting its connection. No statement is cancelled at the server: a commit whose wait
for a standby is cancelled there counts as done.
"""

from __future__ import annotations

import math
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

import attrs
import psycopg
import trio
from psycopg.conninfo import conninfo_to_dict
from psycopg.types.string import StrDumperUnknown, TextLoader

from ..errors import JournalError, JournalUnavailable
from .binary import escaped, unescaped
from .tables import Connection

T = TypeVar("T")

SILENCE = 2.0
"""Seconds without any answer after which the database counts as away."""
LONGEST = 10.0
"""Seconds after which an operation counts as unanswered although others are answered."""
GRACE = 0.5
"""Seconds that a cancelled operation has for its answer."""
POLL_EVERY = 0.25
_COMPARISONS = 3
"""How often two sessions are compared: a busy pooler may give them different connections."""

_DEFAULTS: Mapping[str, Any] = {
    "application_name": "stopgo",
    "connect_timeout": 2,
    # A partner that has vanished is noticed within a lease.
    "tcp_user_timeout": 5000,
    "keepalives_idle": 5,
    "keepalives_interval": 2,
    "keepalives_count": 2,
}
"""Parameters of a connection that the DSN may replace."""

_UNAVAILABLE = (
    psycopg.OperationalError,
    psycopg.InterfaceError,
    psycopg.errors.ReadOnlySqlTransaction,
    psycopg.errors.IdleInTransactionSessionTimeout,
)
"""Errors that another attempt may not have, perhaps at another server. Among them: connections that broke,
timeouts, deadlocks, a server that shuts down, starts, is full or is a standby."""


@attrs.define(eq=False)
class _Session:
    """A connection, and its socket, which stays the same when the library has closed its own."""

    db: Connection
    wire: socket.socket
    is_set: bool = False

    def cut(self) -> None:
        with suppress(OSError):  # it is broken already
            self.wire.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self.db.close()
        self.wire.close()


@attrs.define(eq=False)
class Awaited:
    """A wait for the database, from the call of `Pool.run` to its end."""

    scope: trio.CancelScope
    since: float = attrs.field(factory=trio.current_time)
    is_late: bool = False
    """The database has not answered in time."""
    is_given_up: bool = False
    """The operation must not begin."""
    session: _Session | None = None
    """Set when the operation begins, by its thread."""
    began: float = math.inf
    """The time of that, on the clock `time.monotonic`."""

    @property
    def patience(self) -> float:
        """Seconds for the answer, once the wait was cancelled."""
        return POLL_EVERY if self.is_late else GRACE


@attrs.define(eq=False)
class Pool:
    _dsn: str
    _limiter: trio.CapacityLimiter
    """Bounds the number of connections."""
    _idle: list[_Session] = attrs.field(factory=list)
    _works: set[Awaited] = attrs.field(factory=set)
    _last_reply: float = 0.0
    """The time of the last answer of the database."""
    _lock: threading.Lock = attrs.field(factory=threading.Lock)
    _closed: bool = False

    async def run(self, operation: Callable[[Connection], T]) -> T:
        """Run an operation in a thread. The table at the top says how it ends.

        Raises:
            JournalUnavailable: the database cannot be reached. JournalError: it refuses the operation.
        """
        with self.watched() as work:
            return await self._outcome(work, operation)

    @contextmanager
    def watched(self) -> Iterator[Awaited]:
        """For a wait in this block, also for connections that are not of the pool: it ends as the table at
        the top says, if its `began` is set. Raises as `run`."""
        with trio.CancelScope() as scope:
            work = Awaited(scope)
            self._works.add(work)
            try:
                yield work
                self._last_reply = trio.current_time()
            except psycopg.Error as error:
                if isinstance(error, _UNAVAILABLE):
                    self._close_idle()  # they have most likely lost the same server
                raise meaning(error) from error
            finally:
                self._works.discard(work)
        if scope.cancelled_caught:  # by `watch`
            raise JournalUnavailable(NO_ANSWER)

    async def _outcome(self, work: Awaited, operation: Callable[[Connection], T]) -> T:
        done, token = trio.Event(), trio.lowlevel.current_trio_token()
        outcome: Future[T] = Future()

        def in_thread() -> None:
            try:
                outcome.set_result(self._with_session(work, operation))
            except BaseException as error:
                outcome.set_exception(error)
            with suppress(trio.RunFinishedError):
                token.run_sync_soon(done.set)

        try:
            await trio.to_thread.run_sync(in_thread, limiter=self._limiter, abandon_on_cancel=True)
        except trio.Cancelled:
            with self._lock:
                work.is_given_up = True
            if work.session is None:
                raise
            with trio.CancelScope(shield=True):
                with trio.move_on_after(work.patience):
                    await done.wait()
                if not done.is_set():
                    work.session.cut()
                    with trio.move_on_after(GRACE):
                        await done.wait()
        if not outcome.done():  # the thread ends later, and closes its connection
            raise JournalUnavailable(NO_ANSWER)
        return outcome.result()

    def _with_session(self, work: Awaited, operation: Callable[[Connection], T]) -> T:
        session = self._take()
        with self._lock:
            if not work.is_given_up:
                work.session, work.began = session, time.monotonic()
        if work.session is None:
            self._give_back(session, is_sound=True)
            raise JournalUnavailable(NO_ANSWER)
        is_sound = False
        try:
            if not session.is_set:
                session.db.execute(SETTINGS)
                session.is_set = True
            value = operation(session.db)
            if session.db.info.transaction_status != psycopg.pq.TransactionStatus.IDLE:
                session.db.rollback()
            is_sound = True
        finally:
            # After an error, psycopg and the server may differ about the state of the session.
            self._give_back(session, is_sound=is_sound)
        return value

    def _take(self) -> _Session:
        with self._lock:
            if self._idle:
                return self._idle.pop()
        db = connect(self._dsn)
        try:
            return _Session(db, socket.socket(fileno=os.dup(db.fileno())))
        except (psycopg.Error, OSError):
            db.close()
            raise

    def _give_back(self, session: _Session, *, is_sound: bool) -> None:
        with self._lock:
            if is_sound and not self._closed:
                self._idle.append(session)
                return
        session.close()

    async def watch(self) -> None:
        """End the operations that the database does not answer in time."""
        while True:
            await trio.sleep(POLL_EVERY)
            silent, longest = trio.current_time() - SILENCE, time.monotonic() - LONGEST
            for work in self._works:
                if max(work.since, self._last_reply) < silent or work.began < longest:
                    work.is_late = True
                    work.scope.cancel()

    def close(self) -> None:
        self._closed = True
        self._close_idle()

    def _close_idle(self) -> None:
        with self._lock:
            idle, self._idle = self._idle, []
        for session in idle:
            session.close()


NO_ANSWER = "the database does not answer"

SETTINGS = """SELECT set_config('default_transaction_isolation', 'read committed', false),
    set_config('lock_timeout', '2s', false), set_config('idle_in_transaction_session_timeout', '2s', false),
    CASE WHEN current_setting('synchronous_commit') IN ('off', 'local')
    THEN set_config('synchronous_commit', 'on', false) END"""
"""After the lock of a stream, a statement must see what was committed before. What a write has returned must
not be lost. A member that is suspended or cut off in the middle of a transaction must not keep the lock of a
stream from the others, nor may a lock keep all connections of a member."""


def connect(dsn: str) -> Connection:
    """Raises psycopg.Error, `JournalError`: the database or the DSN cannot be used."""
    db = psycopg.connect(dsn, autocommit=True, **{**_DEFAULTS, **_given(dsn), "client_encoding": "UTF8"})
    # In another encoding, some texts of models and tools could not be stored, perhaps after a tool has acted.
    if (encoding := db.info.parameter_status("server_encoding")) != "UTF8":
        db.close()
        raise JournalError(
            f"the database has the encoding {encoding}, which cannot store every text: make one for the"
            " journal with CREATE DATABASE ... ENCODING 'UTF8' TEMPLATE template0"
        )
    db.adapters.register_dumper(str, _TextDumper)
    db.adapters.register_loader("text", _TextLoader)
    return db


async def connected(dsn: str, prepare: Callable[[Connection], object]) -> Connection:
    """A connection that is not of a pool, after `prepare`. Raises psycopg.Error, `JournalError`."""
    opened: list[_Session] = []
    made: list[Connection] = []
    lock, is_given_up = threading.Lock(), False

    def in_thread() -> None:
        db = connect(dsn)
        try:
            wire = socket.socket(fileno=os.dup(db.fileno()))
        except OSError as error:
            db.close()
            raise psycopg.OperationalError(str(error)) from error
        with wire:
            session = _Session(db, wire)
            opened.append(session)
            if is_given_up:
                session.cut()
            try:
                prepare(db)
            except psycopg.Error:
                db.close()
                raise
        with lock:
            if not is_given_up:
                made.append(db)
                return
        db.close()

    with trio.move_on_after(LONGEST):
        try:
            await trio.to_thread.run_sync(in_thread, abandon_on_cancel=True)
            return made.pop()
        except trio.Cancelled:
            with lock:
                is_given_up = True
            for session in tuple(opened):
                session.cut()  # otherwise its thread could wait without end, and there are only so many
            for db in made:
                db.close()
            raise
    raise JournalUnavailable(NO_ANSWER)


def check_sessions(db: Connection, dsn: str) -> None:
    """Raises `JournalError` if a pooler gives connections of the server to others between transactions, as
    PgBouncer does with `pool_mode = transaction`: LISTEN and settings of a session would have no effect."""
    with connect(dsn) as other:
        for _ in range(_COMPARISONS):
            if _server_process(db) == _server_process(other):
                raise JournalError(
                    "a pooler shares the sessions of the database, as PgBouncer does with pool_mode ="
                    " transaction or statement: give the journal the address of the database itself, or use"
                    " pool_mode = session"
                )


def _server_process(db: Connection) -> int:
    ((id,),) = db.execute("SELECT pg_backend_pid()").fetchall()
    return int(id)


def _given(dsn: str) -> Mapping[str, Any]:
    """The parameters of a DSN. Raises `JournalError`."""
    try:
        return conninfo_to_dict(dsn)
    except psycopg.ProgrammingError as error:
        raise JournalError(f"the journal's address is not one of PostgreSQL: {_described(error)}") from error


class _TextDumper(StrDumperUnknown):
    def dump(self, obj: str) -> Any:
        return super().dump(escaped(obj))


class _TextLoader(TextLoader):
    def load(self, data: Any) -> str | bytes:
        text = super().load(data)
        return unescaped(text) if isinstance(text, str) else text


def meaning(error: psycopg.Error) -> JournalError:
    if isinstance(error, _UNAVAILABLE):
        return JournalUnavailable(_described(error))
    return JournalError(f"the database refuses the journal: {_described(error)}")


def _described(error: psycopg.Error) -> str:
    """The message of an error in one line."""
    return " ".join(str(error).split()) or type(error).__name__
