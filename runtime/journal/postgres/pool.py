"""Connections to PostgreSQL, used in threads.

Psycopg waits in the thread that calls it, so each operation runs in a thread, with a connection of its own.
A wait for a database that does not answer ends in any case: where TCP notices nothing, because a proxy still
confirms what it gets, `watch` cuts the connection, which fails the operation.
"""

from __future__ import annotations

import os
import re
import socket
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, TypeVar

import attrs
import psycopg
import trio
from psycopg.conninfo import conninfo_to_dict
from psycopg.types.string import StrDumperUnknown, TextLoader

from ..errors import JournalError, JournalUnavailable
from .tables import Connection

T = TypeVar("T")

LONGEST = 10.0
"""Seconds after which an operation counts as unanswered."""
LOOK_EVERY = 1.0
_LOOKS = 3
"""How often two sessions are compared: a busy pooler may give them different connections."""

_DEFAULTS: Mapping[str, Any] = {
    "application_name": "stopgo",
    "connect_timeout": 5,
    # A partner that has vanished is noticed within a lease.
    "tcp_user_timeout": 5000,
    "keepalives_idle": 5,
    "keepalives_interval": 2,
    "keepalives_count": 2,
}
"""Parameters of a connection that the DSN may replace."""

_UNAVAILABLE = (psycopg.OperationalError, psycopg.InterfaceError, psycopg.errors.ReadOnlySqlTransaction)
"""Errors that another attempt may not have, perhaps at another server. Among them: connections that broke,
timeouts, deadlocks, a server that shuts down, starts, is full or is a standby."""


@attrs.define(eq=False)
class _Session:
    """A connection, and its socket, which stays the same when the library has closed its own."""

    db: Connection
    wire: socket.socket
    since: float = 0.0
    """The time at which the current operation began."""
    is_set: bool = False

    def close(self) -> None:
        self.db.close()
        self.wire.close()


@attrs.define(eq=False)
class Pool:
    _dsn: str
    _limiter: trio.CapacityLimiter
    """Bounds the number of connections."""
    _idle: list[_Session] = attrs.field(factory=list)
    _busy: set[_Session] = attrs.field(factory=set)
    _lock: threading.Lock = attrs.field(factory=threading.Lock)
    _closed: bool = False

    async def run(self, operation: Callable[[Connection], T]) -> T:
        """Run an operation in a thread. It can be cancelled only until it has begun.

        Raises:
            JournalUnavailable: the database cannot be reached. JournalError: it refuses the operation.
        """
        try:
            return await trio.to_thread.run_sync(self._with_session, operation, limiter=self._limiter)
        except _UNAVAILABLE as error:
            self._close_idle()  # they have most likely lost the same server
            raise JournalUnavailable(_described(error)) from error
        except psycopg.Error as error:
            raise JournalError(f"the database refuses the journal: {_described(error)}") from error

    def _with_session(self, operation: Callable[[Connection], T]) -> T:
        session = self._take()
        is_sound = False
        try:
            if not session.is_set:
                session.db.execute(_SETTINGS)
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
            session = self._idle.pop() if self._idle else None
        if session is None:
            db = connect(self._dsn)
            session = _Session(db, socket.socket(fileno=os.dup(db.fileno())))
        session.since = time.monotonic()
        with self._lock:
            self._busy.add(session)
        return session

    def _give_back(self, session: _Session, *, is_sound: bool) -> None:
        with self._lock:
            self._busy.remove(session)
            if is_sound and not self._closed:
                self._idle.append(session)
                return
        session.close()

    async def watch(self) -> None:
        """Cut the connections that have not answered for too long."""
        while True:
            await trio.sleep(LOOK_EVERY)
            limit = time.monotonic() - LONGEST
            with self._lock:
                for session in self._busy:
                    if session.since < limit:
                        with suppress(OSError):  # it is broken already
                            session.wire.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self._closed = True
        self._close_idle()

    def _close_idle(self) -> None:
        with self._lock:
            idle, self._idle = self._idle, []
        for session in idle:
            session.close()


_SETTINGS = """SELECT set_config('default_transaction_isolation', 'read committed', false),
    CASE WHEN current_setting('synchronous_commit') IN ('off', 'local')
    THEN set_config('synchronous_commit', 'on', false) END"""
"""After the lock of a stream, a statement must see what was committed before. What a write has returned must
not be lost."""


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


def check_sessions(db: Connection, dsn: str) -> None:
    """Raises `JournalError` if a pooler gives connections of the server to others between transactions, as
    PgBouncer does with `pool_mode = transaction`: LISTEN and settings of a session would have no effect."""
    with connect(dsn) as other:
        for _ in range(_LOOKS):
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


# PostgreSQL stores every character but NUL.
_ESCAPE = {0: "\x01\x02", 1: "\x01\x01"}


class _TextDumper(StrDumperUnknown):
    def dump(self, obj: str) -> Any:
        return super().dump(obj.translate(_ESCAPE) if "\0" in obj or "\x01" in obj else obj)


class _TextLoader(TextLoader):
    def load(self, data: Any) -> str | bytes:
        text = super().load(data)
        if isinstance(text, str) and "\x01" in text:
            return re.sub("\x01(.)", lambda found: "\0" if found[1] == "\x02" else "\x01", text)
        return text


def _described(error: psycopg.Error) -> str:
    """The message of an error in one line."""
    return " ".join(str(error).split()) or type(error).__name__
