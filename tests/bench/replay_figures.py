"""What a replay of recorded calls takes: `make bench-replay` prints it, for SQLite and PostgreSQL.

One conversation is lived through, with ten calls of which two ask, and its rows are copied until the journal
has the wanted number of calls. Then `stopgo policy replay` judges them under a file with ten rules.
"""

from __future__ import annotations

import argparse
import os
import resource
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
import psycopg
import trio
from trio.testing import MockClock

from stopgo.gateway.cli.main import main
from stopgo.runtime.journal.sqlite.sqlite_journal import FILE, open_sqlite
from tests.actors.gate.test_halt import only
from tests.actors.several_members import YES
from tests.actors.world import DESTRUCTIVE, World, call, say, use, wall
from tests.fleet.cluster import url_of
from tests.postgres_server import running_postgres

CALLS = 10
"""Calls of a conversation."""
RULES = """\
data_dir: data
mcp_servers: [{name: tools, command: none}]
approval:
  rules:
    - {tool: "admin_*", then: deny}
    - {tool: wipe, then: deny, arguments: {name: {matches: "^prod"}}}
    - {tool: wipe, then: run, arguments: {name: {one_of: [lamp, shelf]}}}
    - {server: billing, then: ask, optional: true}
    - {tool: send, then: ask, arguments: {size: {above: 100}}}
    - {tool: send, then: ask, arguments: {name: {matches: "secret|internal"}}}
    - {effect: read, then: run}
    - {node: nobody, then: deny, optional: true}
    - {tool: "*_list", then: run}
    - {tool: wipe, then: ask}
"""


def make_journal(folder: Path, calls: int) -> None:
    """A journal of one conversation, multiplied."""

    async def live() -> None:
        async with open_sqlite(folder / "data", wall=wall, inline=True) as journal:
            world = World(folder, journal)
            schema = {"type": "object"}
            world.tool("send", schema=schema)
            world.tool("wipe", DESTRUCTIVE, schema=schema)
            sends = [call("send", name=f"letter {number}", size=number, text="x" * 60) for number in range(4)]
            world.plan("agent", use(*sends, call("wipe", name="lamp")), say("done"))
            async with world.agent() as agent:
                id = (await agent.start_conversation("go")).conversation.id
                await agent.decide(await only(agent), YES)
                await agent.send(id, "again")
                await agent.decide(await only(agent), {"approved": False})

    trio.run(live, clock=MockClock(autojump_threshold=0))
    db = sqlite3.connect(folder / "data" / FILE, isolation_level=None)
    db.execute("PRAGMA synchronous = OFF")
    db.execute("BEGIN")
    columns = [row[1] for row in db.execute("PRAGMA table_info(stream)") if row[1] not in ("id", "name")]
    numbers = (
        f"WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < {calls // CALLS - 1})"
    )
    db.execute(
        f"INSERT INTO stream (name, {', '.join(columns)})"
        f" {numbers} SELECT 'copy-' || n, {', '.join(columns)} FROM n, stream WHERE name NOT LIKE 'copy-%'"
    )
    db.execute(
        "INSERT INTO event (stream_id, seq, type, at, body) SELECT stream.id, seq, type, at, event.body"
        " FROM stream, event WHERE event.stream_id = 1 AND stream.id <> 1"
    )
    db.execute("COMMIT")
    db.close()


@contextmanager
def in_database(folder: Path) -> Iterator[str]:
    """The events of the journal in a PostgreSQL database."""
    with running_postgres() as server:
        with server.empty_schema() as dsn:
            assert main(["journal", "migrate", url_of(dsn)]) == 0
            here = sqlite3.connect(folder / "data" / FILE)
            with psycopg.connect(dsn) as db, db.cursor() as cursor:
                for table, names, query in (
                    ("stream", "name, last_seq, created, updated", "SELECT {} FROM stream ORDER BY id"),
                    (
                        "event",
                        "stream, seq, type, at, body",
                        "SELECT stream_id, seq, type, at, body FROM event",
                    ),
                ):
                    with cursor.copy(f"COPY {table} ({names}) FROM STDIN".encode()) as copy:
                        for row in here.execute(query.format(names)):
                            copy.write_row(row)
                for kind, key, body in here.execute("SELECT kind, key, body FROM note"):
                    cursor.execute("INSERT INTO note VALUES (%s, %s, %s, 1)", (kind, key, body))
            with psycopg.connect(dsn, autocommit=True) as db:
                db.execute("VACUUM ANALYZE")
            yield url_of(dsn)


def measured(store: str, calls: int, *words: str) -> None:
    """Run a replay, and print what it took."""
    began, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [str(Path(sys.executable).parent / "stopgo"), "policy", "replay", "new.yaml", *words]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    most = 0
    while process.poll() is None:
        family = [psutil.Process(process.pid), *psutil.Process(process.pid).children(recursive=True)]
        most = max(most, sum(_memory(each) for each in family))
        with suppress(subprocess.TimeoutExpired):
            process.wait(0.1)
    assert process.stdout is not None
    out = process.stdout.read()
    assert out.startswith(f"{calls} calls in "), out[:400]
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    seconds = time.perf_counter() - began
    print(
        f"{store:<10} {calls:>9} calls  {seconds:6.1f} s  {cpu:6.1f} s of CPU  {most / 1e6:5.0f} MB at most",
        flush=True,
    )


def _memory(process: psutil.Process) -> int:
    try:
        return int(process.memory_info().rss)
    except psutil.Error:
        return 0


def run(calls: int, stores: list[str]) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make_journal(folder, calls)
        (folder / "new.yaml").write_text(RULES)
        os.chdir(folder)
        if "sqlite" in stores:
            measured("SQLite", calls)
        if "postgres" in stores:
            with in_database(folder) as url:
                measured("PostgreSQL", calls, "--journal", url)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--calls", type=int, default=1_000_000)
    parser.add_argument("--stores", nargs="+", default=["sqlite", "postgres"])
    given = parser.parse_args()
    run(given.calls, given.stores)
