"""A PostgreSQL server of the tests' own: Debian's package, run by an ordinary user in a private directory."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import attrs
import psycopg

from stopgo.runtime.journal.postgres.tables import migrate, sql

_NUMBERS = count(1)
_USER = "nobody" if os.getuid() == 0 else None
"""The user that runs the server, which refuses to run as root."""


def _program(name: str) -> str:
    found = [
        shutil.which(name),
        *sorted(map(str, Path("/usr/lib/postgresql").glob(f"*/bin/{name}")), reverse=True),
    ]
    program = next((each for each in found if each is not None), None)
    assert program is not None, f"there is no {name}: install the package postgresql"
    return program


@attrs.define
class Database:
    """A schema of a server, with the tables of a journal and a clock that is set by hand."""

    dsn: str
    _db: psycopg.Connection[tuple[Any, ...]]
    _now: float = 0.0

    def set_clock(self, now: float) -> None:
        if now == self._now:
            return
        self._now = now
        self._db.execute("UPDATE clock SET now = %s", (now,))

    def clear(self) -> None:
        """Forget all streams, nodes and notes."""
        self._db.execute("TRUNCATE stream, event, inbox, question, intent, node, note, note_kind")

    def end_sessions(self) -> None:
        """End the connections of journals."""
        self._db.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'stopgo'"
        )


@attrs.frozen
class PostgresServer:
    dsn: str

    @contextmanager
    def empty_schema(self) -> Iterator[str]:
        """A schema without tables, as a connection string."""
        schema = f"journal{next(_NUMBERS)}"
        with psycopg.connect(self.dsn, autocommit=True) as db:
            db.execute(sql(f"CREATE SCHEMA {schema}"))
            yield f"{self.dsn} options=-csearch_path={schema}"
            db.execute(sql(f"DROP SCHEMA {schema} CASCADE"))

    @contextmanager
    def new_database(self) -> Iterator[Database]:
        with self.empty_schema() as dsn, psycopg.connect(dsn, autocommit=True) as db:
            migrate(db)
            db.execute("CREATE TABLE clock AS SELECT 0::float8 AS now")
            db.execute(
                "CREATE OR REPLACE FUNCTION journal_now() RETURNS float8 STABLE LANGUAGE sql"
                " AS 'SELECT now FROM clock'"
            )
            yield Database(dsn, db)


@contextmanager
def running_postgres(*settings: str) -> Iterator[PostgresServer]:
    """`settings` are lines of `postgresql.conf`."""
    folder = Path(tempfile.mkdtemp(prefix="stopgo-postgres-"))
    data = str(folder / "data")
    try:
        if _USER is not None:
            shutil.chown(folder, _USER)
        initdb = [
            _program("initdb"),
            "--pgdata",
            data,
            "--username=stopgo",
            "--auth=trust",
            "--encoding=UTF8",
            "--no-sync",
        ]
        subprocess.run([*initdb, "--locale=C"], check=True, stdout=subprocess.DEVNULL, user=_USER, cwd=folder)
        options = {"listen_addresses": "", "unix_socket_directories": folder, "max_connections": 200}
        argv = [_program("postgres"), "-D", data, *[f"--{name}={value}" for name, value in options.items()]]
        argv += [f"--{each}" for each in settings]
        log = (folder / "log").open("wb")
        with log, subprocess.Popen(argv, stdout=log, stderr=log, user=_USER, cwd=folder) as server:
            try:
                _wait(folder, server)
                yield PostgresServer(f"host={folder} user=stopgo dbname=postgres")
            finally:
                server.terminate()
    finally:
        shutil.rmtree(folder)


def _wait(folder: Path, server: subprocess.Popen[bytes]) -> None:
    ready = [_program("pg_isready"), "--quiet", "--host", str(folder)]
    while subprocess.run(ready, check=False).returncode:
        assert server.poll() is None, (folder / "log").read_text()
