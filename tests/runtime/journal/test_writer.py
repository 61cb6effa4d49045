"""Operations share commits, and nothing else."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import trio

from stopgo.runtime.journal.errors import JournalBroken, JournalError
from stopgo.runtime.journal.sqlite import writer
from stopgo.runtime.journal.sqlite.files import Presence
from stopgo.runtime.journal.sqlite.writer import GroupWriter, InlineWriter


class Bench:
    """A writer on a table of its own, with what it did."""

    def __init__(self, file: Path, kind: type[GroupWriter] | type[InlineWriter]) -> None:
        self.file = file
        self.commits = 0
        self.broken: list[JournalBroken] = []
        db = sqlite3.connect(file, isolation_level=None, check_same_thread=False)
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("CREATE TABLE kept (n INTEGER PRIMARY KEY)")
        db.set_trace_callback(self._count)
        self.writer = kind(db, Presence(), self.broken.append, lambda: None)

    def _count(self, statement: str) -> None:
        self.commits += statement == "COMMIT"

    async def insert(self, n: int) -> int:
        def insert(db: sqlite3.Connection) -> int:
            db.execute("INSERT INTO kept VALUES (?)", (n,))
            return n

        return await self.writer.submit(insert)

    def kept(self) -> list[int]:
        other = sqlite3.connect(self.file)
        try:
            return [n for (n,) in other.execute("SELECT n FROM kept ORDER BY n")]
        finally:
            other.close()


@pytest.fixture(params=[GroupWriter, InlineWriter])
async def bench(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Bench]:
    made = Bench(tmp_path / "db", request.param)
    yield made
    await made.writer.aclose()


@pytest.fixture
async def group(tmp_path: Path) -> AsyncIterator[Bench]:
    made = Bench(tmp_path / "db", GroupWriter)
    yield made
    await made.writer.aclose()


async def test_an_answer_means_committed(bench: Bench) -> None:
    assert await bench.insert(1) == 1
    assert bench.kept() == [1]


async def test_waiting_operations_share_a_commit(group: Bench) -> None:
    answers: list[int] = []

    async def insert(n: int) -> None:
        answers.append(await group.insert(n))
        assert n in group.kept()

    async with trio.open_nursery() as nursery:
        for n in range(100):
            nursery.start_soon(insert, n)
    assert sorted(answers) == group.kept() == list(range(100))
    assert group.commits < 50


@pytest.mark.repeat(10)
async def test_operation_one_round_later_shares_the_commit(
    group: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "_BATCH_SECONDS", 60.0)  # otherwise a busy machine splits the batch

    async def insert_after(rounds: int) -> None:
        for _ in range(rounds):
            await trio.lowlevel.checkpoint()
        await group.insert(rounds)

    async with trio.open_nursery() as nursery:
        for rounds in range(3):
            nursery.start_soon(insert_after, rounds)
    assert group.kept() == [0, 1, 2]
    assert group.commits == 1


async def test_failed_operation_rolls_back_only_itself(bench: Bench) -> None:
    outcomes: dict[int, Any] = {}

    def half(db: sqlite3.Connection) -> None:
        db.execute("INSERT INTO kept VALUES (1000)")
        raise LookupError("mine")

    async def run(n: int) -> None:
        try:
            outcomes[n] = await (bench.writer.submit(half) if n % 3 == 0 else bench.insert(n // 2))
        except (LookupError, sqlite3.IntegrityError) as error:
            outcomes[n] = type(error)

    async with trio.open_nursery() as nursery:
        for n in range(30):
            nursery.start_soon(run, n)
    assert [outcomes[n] for n in range(0, 30, 3)] == [LookupError] * 10
    inserted = [outcomes[n] for n in range(30) if n % 3]
    assert bench.kept() == sorted(each for each in inserted if isinstance(each, int))
    assert bench.kept() == sorted({n // 2 for n in range(30) if n % 3})
    assert inserted.count(sqlite3.IntegrityError) == 20 - len(bench.kept())
    assert bench.broken == []


async def test_inspection_waits_for_earlier_operations_on_disk(bench: Bench) -> None:
    seen: list[tuple[list[int], list[int]]] = []

    def look(db: sqlite3.Connection) -> None:
        assert not db.in_transaction
        seen.append(([n for (n,) in db.execute("SELECT n FROM kept ORDER BY n")], bench.kept()))

    async with trio.open_nursery() as nursery:
        for n in range(100):
            nursery.start_soon(bench.insert, n)
            nursery.start_soon(bench.writer.inspect, look)
    assert len(seen) == 100
    for inside, outside in seen:
        assert inside == outside


async def test_inspecting_commits_nothing(bench: Bench) -> None:
    def fail(_: sqlite3.Connection) -> None:
        raise LookupError("mine")

    assert await bench.writer.inspect(lambda _: 7) == 7
    with pytest.raises(LookupError, match="mine"):
        await bench.writer.inspect(fail)
    assert bench.commits == 0
    assert bench.broken == []


async def test_failed_inspection_breaks_nothing(bench: Bench) -> None:
    failed: list[str] = []

    async def inspect() -> None:
        try:
            await bench.writer.inspect(lambda db: db.execute("SELECT * FROM gone"))
        except JournalError as error:
            failed.append(str(error))

    async with trio.open_nursery() as nursery:
        for n in range(10):
            nursery.start_soon(bench.insert, n)
            nursery.start_soon(inspect)
    assert failed == ["the journal cannot be read: no such table: gone"] * 10
    assert bench.broken == []
    assert bench.kept() == list(range(10))


async def test_failed_transaction_fails_all_callers(bench: Bench) -> None:
    def fail(db: sqlite3.Connection) -> None:
        db.execute("INSERT INTO kept VALUES (1000)")
        raise sqlite3.OperationalError("disk I/O error")

    await bench.insert(1)
    answered: list[int] = []
    failed: list[str] = []

    async def insert(n: int) -> None:
        try:
            answered.append(await bench.insert(n))
        except JournalBroken as broken:
            failed.append(str(broken))

    async with trio.open_nursery() as nursery:
        for n in range(2, 12):
            nursery.start_soon(insert, n)
        with pytest.raises(JournalBroken, match="disk I/O error") as caught:
            await bench.writer.submit(fail)
        assert isinstance(caught.value.__cause__, sqlite3.OperationalError)
    for call in (bench.insert(99), bench.writer.inspect(lambda _: 99)):
        with pytest.raises(JournalBroken):
            await call
    assert len(bench.broken) == 1
    assert len(answered) + len(failed) == 10
    assert bench.kept() == [1, *sorted(answered)]


async def test_a_failed_begin_fails_everybody(bench: Bench) -> None:
    other = sqlite3.connect(bench.file, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    bench.writer._db.execute("PRAGMA busy_timeout = 0")
    with pytest.raises(JournalBroken, match="locked"):
        await bench.insert(1)
    other.close()
    assert len(bench.broken) == 1


async def test_closing_lets_the_last_commits_finish(tmp_path: Path) -> None:
    for rounds in range(2, 10):  # until they gather, and until they are being committed
        bench = Bench(tmp_path / f"db{rounds}", GroupWriter)
        answered: list[int] = []

        async def insert(n: int, bench: Bench = bench, answered: list[int] = answered) -> None:
            answered.append(await bench.insert(n))

        async with trio.open_nursery() as nursery:
            for n in range(10):
                nursery.start_soon(insert, n)
            for _ in range(rounds):
                await trio.lowlevel.checkpoint()
            await bench.writer.aclose()
        assert sorted(answered) == bench.kept() == list(range(10))
        for call in (bench.insert(10), bench.writer.inspect(lambda _: 10)):
            with pytest.raises(JournalError, match="closed"):
                await call
    assert "journal" not in {each.name for each in threading.enumerate()}


async def test_closing_is_not_cancelled(tmp_path: Path) -> None:
    bench = Bench(tmp_path / "db", GroupWriter)
    with trio.CancelScope() as scope:
        scope.cancel()
        await bench.writer.aclose()
    assert "journal" not in {each.name for each in threading.enumerate()}
