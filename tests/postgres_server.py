"""A PostgreSQL server of the tests' own: Debian's package, run by an ordinary user in a private directory."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Any

import attrs
import psutil
import psycopg

from stopgo.runtime.journal.postgres.tables import migrate, sql
from tests.waiting import line_with

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
        """Forget all streams, members and notes."""
        self._db.execute(
            "TRUNCATE stream, event, inbox, question, intent, extract, node, note, note_kind, tally_change"
        )
        self._db.execute("UPDATE tally SET streams = 0")

    def end_sessions(self) -> None:
        """End the connections of journals."""
        self._db.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'stopgo'"
        )


@attrs.define
class PostgresServer:
    """A server, in a folder that a standby can share."""

    folder: Path
    port: int = 5432
    """The number of its socket in the folder. It listens at no address."""
    settings: tuple[str, ...] = ()
    """Lines of `postgresql.conf`."""
    _process: subprocess.Popen[bytes] | None = None

    @property
    def dsn(self) -> str:
        return f"host={self.folder} port={self.port} user=stopgo dbname=postgres"

    @property
    def _data(self) -> Path:
        return self.folder / f"data{self.port}"

    @property
    def _log(self) -> Path:
        return self.folder / f"log{self.port}"

    @contextmanager
    def empty_schema(self) -> Iterator[str]:
        """A schema without tables, as a connection string."""
        schema = f"journal{next(_NUMBERS)}"
        self.execute(f"CREATE SCHEMA {schema}")
        yield f"{self.dsn} options=-csearch_path={schema}"
        self.execute(f"DROP SCHEMA {schema} CASCADE")

    def execute(self, *statements: str) -> None:
        with psycopg.connect(self.dsn, autocommit=True) as db:
            for each in statements:
                db.execute(sql(each))

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

    def create(self) -> None:
        initdb = ["--username=stopgo", "--auth=trust", "--encoding=UTF8", "--no-sync", "--locale=C"]
        self._run("initdb", f"--pgdata={self._data}", *initdb)

    def standby(self, port: int) -> PostgresServer:
        """Create a standby, named `standby`, which follows this server."""
        other = PostgresServer(self.folder, port, self.settings)
        source = f"{self.dsn} application_name=standby"
        self._run("pg_basebackup", f"--pgdata={other._data}", f"--dbname={source}", "--write-recovery-conf")
        return other

    def require_standby(self) -> None:
        """From now on, a commit waits for the standby."""
        self.execute("ALTER SYSTEM SET synchronous_standby_names = 'standby'", "SELECT pg_reload_conf()")

    def promote(self) -> None:
        """Make the primary of a standby."""
        self._run("pg_ctl", "promote", f"--pgdata={self._data}")

    def start(self) -> None:
        options = {
            "port": self.port,
            "listen_addresses": "",
            "unix_socket_directories": self.folder,
            "max_connections": 200,
        }
        argv = [_program("postgres"), "-D", str(self._data)]
        argv += [f"--{name}={value}" for name, value in options.items()]
        argv += [f"--{each}" for each in self.settings]
        ready = [_program("pg_isready"), "--quiet", f"--host={self.folder}", f"--port={self.port}"]
        attempts = 0
        while self._process is None or subprocess.run(ready, check=False).returncode:
            if self._process is None or self._process.poll() is not None:
                attempts += 1  # after SIGKILL, the other processes of the server take a moment to end
                assert attempts < 100, self._log.read_text()
                with self._log.open("ab") as log:
                    self._process = subprocess.Popen(
                        argv, stdout=log, stderr=log, user=_USER, cwd=self.folder
                    )

    def stop(self, number: signal.Signals = signal.SIGINT) -> None:
        """SIGINT ends the sessions of clients, SIGQUIT stops without writing the server's state to disk,
        SIGKILL ends the first process only; the others notice it."""
        assert self._process is not None
        self._process.send_signal(number)
        self._process.wait()

    def suspend(self) -> None:
        """From now on, the server answers nothing, but its machine confirms what it gets."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._signal(signal.SIGCONT)

    def _signal(self, number: signal.Signals) -> None:
        assert self._process is not None
        first = psutil.Process(self._process.pid)
        first.send_signal(number)  # before it can start others
        for each in first.children(recursive=True):
            with suppress(psutil.NoSuchProcess):
                each.send_signal(number)

    def _run(self, program: str, *options: str) -> None:
        command = [_program(program), *options]
        done = subprocess.run(command, capture_output=True, text=True, user=_USER, cwd=self.folder)
        assert done.returncode == 0, done.stderr


@contextmanager
def running_postgres(*settings: str) -> Iterator[PostgresServer]:
    """`settings` are lines of `postgresql.conf`."""
    folder = Path(tempfile.mkdtemp(prefix="stopgo-postgres-"))
    try:
        if _USER is not None:
            shutil.chown(folder, _USER)
        server = PostgresServer(folder, settings=settings)
        server.create()
        server.start()
        try:
            yield server
        finally:
            server.stop()
    finally:
        shutil.rmtree(folder)


@contextmanager
def pooler(server: PostgresServer, mode: str) -> Iterator[str]:
    """A PgBouncer before the server, as a connection string."""
    settings = {
        "pool_mode": mode,
        "unix_socket_dir": server.folder,
        "listen_port": 6432,
        "auth_type": "any",
        "logfile": server.folder / "pooler.log",
    }
    file = server.folder / "pooler.ini"
    lines = [f"* = host={server.folder} port={server.port} user=stopgo", "[pgbouncer]"]
    lines += [f"{name} = {value}" for name, value in settings.items()]
    file.write_text("\n".join(["[databases]", *lines, ""]))
    file.chmod(0o644)
    process = subprocess.Popen(
        ["/usr/sbin/pgbouncer", file],
        user=_USER,
        stderr=subprocess.PIPE,
        text=True,
        stdout=subprocess.DEVNULL,
    )
    assert process.stderr is not None
    try:
        line_with("process up", process.stderr)
        yield f"host={server.folder} port=6432 user=stopgo dbname=postgres"
    finally:
        process.kill()
        process.communicate()
