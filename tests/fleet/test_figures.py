"""What the journal on PostgreSQL costs and carries, with the database on the same cores.

The database is Debian's, with its default settings. A turn is a message with one call of a stdio tool and its
answer, or, where it says so, a message and its answer; it is counted when the client has the answer.
"""

from __future__ import annotations

import http.client
import json
import signal
import socket
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from datetime import datetime
from functools import partial
from pathlib import Path
from statistics import median, quantiles
from threading import Thread

import psutil
import psycopg
import pytest
import trio

from stopgo.runtime.journal.postgres.journal import open_postgres
from stopgo.runtime.journal.protocol import Commit, NewCommand, NewEvent
from stopgo.runtime.journal.summary import Summary
from tests.bench.served import (
    STOPGO,
    cpu_of,
    new_conversations,
    post,
    post_all,
    report,
    serve_command,
    serving,
)
from tests.bench.test_turn_bench import AGENT, BODY, SCRIPT, is_done
from tests.fleet.people import pause
from tests.postgres_server import PostgresServer
from tests.runtime.journal.kept import claimed

from .cluster import url_of

pytestmark = pytest.mark.figures

ROUNDS = 5
CLIENTS = 64
TURNS = 400
LEASE = 1.0


@pytest.fixture
def url(postgres_server: PostgresServer) -> Iterator[str]:
    with postgres_server.empty_schema() as dsn:
        yield url_of(dsn)


@pytest.fixture
def config(tmp_path: Path) -> Path:
    (tmp_path / "script.yaml").write_text(SCRIPT)
    (tmp_path / "agent.yaml").write_text(AGENT.format(stopgo=STOPGO, db=tmp_path / "turn.db"))
    return tmp_path / "agent.yaml"


@pytest.fixture
def plain(tmp_path: Path) -> Path:
    """An agent without tools."""
    (tmp_path / "plain.yaml").write_text("llm: {model: 'script:said.yaml'}\n")
    (tmp_path / "said.yaml").write_text(
        "replies: [{when: {user: slow}, delay: 20, text: done}, {text: done}]\n"
    )
    return tmp_path / "plain.yaml"


@contextmanager
def members(
    config: Path, url: str, count: int, lease: float = 10.0
) -> Iterator[list[tuple[str, psutil.Process]]]:
    with ExitStack() as stack:
        options = ("--journal", url, "--lease", str(lease))
        folders = (config.parent / f"member{number}" for number in range(count))
        yield [stack.enter_context(serving(serve_command(config, each, *options))) for each in folders]


def messages(address: str, count: int) -> list[tuple[str, bytes]]:
    return [(f"/conversations/{id}/messages", BODY) for id in new_conversations(address, count)]


@pytest.mark.parametrize("clients", [1, 16])
def test_turn_over_one_on_sqlite(config: Path, url: str, tmp_path: Path, clients: int) -> None:
    times = 20 * clients
    cpu: list[float] = []
    wall: list[float] = []
    with (
        serving(serve_command(config, tmp_path / "data")) as (here, sqlite),
        members(config, url, 1) as [(there, postgres)],
    ):
        for _ in range(ROUNDS):
            spent = []
            for address, process in ((here, sqlite), (there, postgres)):
                work = partial(post_all, address, messages(address, times), is_done, clients)
                began = time.monotonic()
                spent.append((cpu_of(process, work) / times * 1000, time.monotonic() - began))
            (cpu_here, wall_here), (cpu_there, wall_there) = spent
            cpu.append(cpu_there / cpu_here)
            wall.append(wall_there / wall_here)
    report(bench="turn on PostgreSQL over SQLite", clients=clients, cpu=median(cpu), time=median(wall))


@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize("kind", ["plain", "config"])
def test_turns_in_a_second(request: pytest.FixtureRequest, url: str, count: int, kind: str) -> None:
    """All members get the same number of messages, and each conversation has a client of its own."""
    best = 0.0
    with members(request.getfixturevalue(kind), url, count) as started:
        for _ in range(3):
            batches = [messages(address, TURNS // count) for address, _ in started]
            threads = [
                Thread(target=post_all, args=(address, batch, is_done, CLIENTS // count))
                for (address, _), batch in zip(started, batches, strict=True)
            ]
            began = time.monotonic()
            for each in threads:
                each.start()
            for each in threads:
                each.join()
            best = max(best, sum(map(len, batches)) / (time.monotonic() - began))
    tools = "one tool call" if kind == "config" else "no tools"
    report(bench="turns in a second", members=count, clients=CLIENTS, turn=tools, turns=best, target=400)


@pytest.mark.parametrize("tasks", [1, 32])
def test_saves_in_a_second(url: str, tasks: int) -> None:
    seconds, done = 3.0, 0

    async def run() -> None:
        async with open_postgres(url) as store:

            async def each(name: str) -> None:
                nonlocal done
                await store.deliver(NewCommand(name, "k", "message", {}, new=True))
                fence = await claimed(store, name)
                for seq in range(100_000):
                    summary = Summary("active", "t", open=True, body={"n": seq})
                    event = NewEvent("message.added", {"text": "x" * 200})
                    await store.save(Commit(fence, seq, [event], summary=summary))
                    done += 1

            with trio.move_on_after(seconds):
                async with trio.open_nursery() as nursery:
                    for number in range(tasks):
                        nursery.start_soon(each, str(number))

    trio.run(run)
    report(bench="saves in a second", tasks=tasks, saves=done / seconds)


@contextmanager
def watching(address: str, id: str) -> Iterator[list[float]]:
    """Follow a conversation. The times at which its events arrived after their commit, in milliseconds."""
    lags: list[float] = []
    connection = http.client.HTTPConnection(address)
    connection.request("GET", f"/conversations/{id}/events")
    response = connection.getresponse()

    def follow() -> None:
        for line in response:
            if line.startswith(b"data: "):
                at = json.loads(line[6:])["at"]
                lags.append((time.time() - _seconds(at)) * 1000)

    reader = Thread(target=follow)
    reader.start()
    yield lags
    assert connection.sock is not None
    connection.sock.shutdown(socket.SHUT_RDWR)
    reader.join()
    connection.close()


def _seconds(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


@pytest.mark.parametrize("rate", [5, 50])
def test_commit_to_watcher_at_another_member(plain: Path, url: str, rate: int) -> None:
    """Events of turns at one member, as a client of the other gets them. Their times are those of their
    saves, in whole milliseconds."""
    lags: list[float] = []
    with members(plain, url, 2) as [(here, _), (there, _)], ExitStack() as stack:
        watched = new_conversations(here, 10)
        all_lags = [stack.enter_context(watching(there, id)) for id in watched]
        pause(0.5)
        for each in all_lags:
            each.clear()
        connection = stack.enter_context(closing(http.client.HTTPConnection(here)))
        for number in range(200):
            began = time.monotonic()
            post(connection, f"/conversations/{watched[number % 10]}/messages", BODY)
            pause(max(0.0, 1 / rate - (time.monotonic() - began)))
        pause(0.5)
        lags = [each for found in all_lags for each in found]
    cut = quantiles(lags, n=100)
    report(
        bench="commit to watcher",
        turns_in_a_second=rate,
        events=len(lags),
        p50_ms=cut[49],
        p99_ms=cut[98],
        target=100,
    )


def test_takeover(plain: Path, url: str) -> None:
    """kill -9 of a member whose conversation waits for its model, until another one has begun with it."""
    times: list[float] = []
    with members(plain, url, 1, LEASE) as [_]:
        for _ in range(5):
            with members(plain, url, 1, LEASE) as [(owner, process)], ExitStack() as stack:
                [id] = new_conversations(owner, 1)
                connection = stack.enter_context(closing(http.client.HTTPConnection(owner)))
                connection.request("POST", f"/conversations/{id}/messages", b'{"message": "slow"}')
                while not _owner_is_busy(url, id):
                    pause(0.01)
                before = _epoch(url, id)
                process.send_signal(signal.SIGKILL)
                began = time.monotonic()
                while _epoch(url, id) == before:
                    pause(0.005)
                times.append(time.monotonic() - began)
    report(bench="takeover", lease=LEASE, p50=median(times), most=max(times), target=LEASE + 1)


def _owner_is_busy(url: str, id: str) -> bool:
    return bool(_row(url, "SELECT 1 FROM stream WHERE name = %s AND work = 1", id))


def _epoch(url: str, id: str) -> object:
    return _row(url, "SELECT epoch FROM stream WHERE name = %s", id)


def _row(url: str, query: str, id: str) -> object:
    with psycopg.connect(url) as db:
        return db.execute(query.encode(), (id,)).fetchone()


STORED = 100_000
_FILL = (
    """INSERT INTO stream (name, status, title, folded_title, body, last_seq, created, updated)
        SELECT 's' || n, 'active', '"t"', 't', '{}', 3, n, n FROM generate_series(1, %s) AS n""",
    """INSERT INTO event SELECT id, seq, 'note', 1, '{"text": "some words"}'
        FROM stream, generate_series(1, 3) AS seq""",
    """INSERT INTO inbox (stream, key, kind, body, at, node, open)
        SELECT id, 'k', 'message', '{}', 1, 'n', 0 FROM stream""",
)


def test_many_stored_conversations(url: str) -> None:
    """The operations of a turn and of a poll, with this many conversations, in milliseconds."""

    async def run() -> None:
        async with open_postgres(url) as journal:
            with psycopg.connect(url, autocommit=True) as db:
                for statement in _FILL:
                    db.execute(statement.encode(), (STORED,) if "%s" in statement else None)
                db.execute("VACUUM ANALYZE")
            await journal.renew()
            figures: dict[str, float] = {}

            async def timed(name: str, operation: Callable[[int], Awaitable[object]]) -> None:
                began = time.perf_counter()
                for number in range(20):
                    await operation(number)
                figures[name] = (time.perf_counter() - began) / 20 * 1000

            await timed(
                "deliver",
                lambda n: journal.deliver(NewCommand(f"s{n + 1}", "key", "message", {}, follow=True)),
            )
            await timed("claim", lambda n: journal.claim(f"s{n + 1}"))
            await timed("row", lambda n: journal.row(f"s{n + 1}"))
            await timed("open_work", lambda n: journal.open_work())
            await timed("list", lambda n: journal.list())
            await timed("census", lambda n: journal.census())
            await timed("fleet", lambda n: journal.fleet())
            report(bench="stored conversations", conversations=STORED, **figures)

    trio.run(run)
