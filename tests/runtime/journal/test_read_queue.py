"""Reads of streams on PostgreSQL, which share one connection: what a read may not do to the others."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import psycopg
import pytest
import trio

from stopgo.runtime.journal.errors import JournalError, JournalUnavailable, UnknownCommand
from stopgo.runtime.journal.postgres import pipeline_queue as queue_module
from stopgo.runtime.journal.postgres import read_queue as module
from stopgo.runtime.journal.postgres import stream_reads
from stopgo.runtime.journal.postgres.binary import query
from stopgo.runtime.journal.postgres.journal import PostgresJournal, open_postgres
from stopgo.runtime.journal.postgres.pool import connected
from stopgo.runtime.journal.postgres.read_queue import ReadQueue
from stopgo.runtime.journal.postgres.stream_reads import PipelinedRead, executed
from stopgo.runtime.journal.postgres.tables import Connection
from stopgo.runtime.journal.protocol import Commit, NewCommand, NewEvent
from stopgo.runtime.journal.summary import Row
from tests.postgres_server import Database
from tests.postgres_wire import Wire, wire_to
from tests.runtime.journal.kept import claimed
from tests.waiting import until

pytestmark = pytest.mark.postgres


@pytest.fixture
def wire(database: Database) -> Iterator[Wire]:
    with wire_to(database.dsn) as wire:
        yield wire


@asynccontextmanager
async def opened(dsn: str) -> AsyncIterator[PostgresJournal]:
    """A journal with the stream "s", which has one event and one command."""
    async with open_postgres(dsn, member="a") as journal:
        await journal.renew()
        await journal.deliver(NewCommand("s", "first", "message", {}, new=True))
        await journal.save(Commit(await claimed(journal, "s"), 0, [NewEvent("created", {})]))
        yield journal


async def read_together(*reads: Callable[[], Awaitable[object]]) -> list[object]:
    """The outcomes of reads that wait at the same time."""
    outcomes: dict[int, object] = {}

    async def read(number: int) -> None:
        try:
            outcomes[number] = await reads[number]()
        except JournalError as error:
            outcomes[number] = error

    async with trio.open_nursery() as nursery:
        for number in range(len(reads)):
            nursery.start_soon(read, number)
    return [outcomes[number] for number in range(len(reads))]


def groups_of(journal: PostgresJournal, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The sizes of the groups that are read from now on."""
    sizes: list[int] = []
    transactions = journal._reads._transactions

    def noted(group: Sequence[Any]) -> Any:
        sizes.append(len(group))
        return transactions(group)

    monkeypatch.setattr(type(journal._reads), "_transactions", lambda _, group: noted(group))
    return sizes


async def test_reads_that_wait_at_the_same_time_are_one_round_trip(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(database.dsn) as a:
        fence = await claimed(a, "s")
        sizes = groups_of(a, monkeypatch)
        row, inbox, events, unknown, owns, reply, no_command = await read_together(
            partial(a.row, "s"),
            partial(a.inbox, "s"),
            partial(a.events_since, "s", 0),
            partial(a.row, "unknown"),
            partial(a.owns, fence),
            partial(a.stored_reply, "s", "first"),
            partial(a.stored_reply, "s", "second"),
        )
        assert sizes == [7]
        assert row == await a.row("s")
        assert row is not None
        assert (inbox, events) == (await a.inbox("s"), await a.events_since("s", 0))
        assert inbox
        assert events
        assert (unknown, owns, reply, type(no_command)) == (None, True, None, UnknownCommand)


@pytest.mark.parametrize("fault", ["SELECT 1 / $1", "SELECT $1 FROM nowhere"], ids=["executed", "prepared"])
async def test_read_that_fails_fails_alone(database: Database, fault: str) -> None:
    async with opened(database.dsn) as a:
        guilty = partial(a._reads.read, PipelinedRead([query(fault, ("int4", 0))], len))
        outcomes = await read_together(partial(a.row, "s"), guilty, guilty, partial(a.inbox, "s"))
        assert outcomes[0] == await a.row("s")
        assert [type(each) for each in outcomes[1:3]] == [JournalError] * 2
        assert "division by zero" in str(outcomes[1]) or "nowhere" in str(outcomes[1])
        assert str(outcomes[1]) == str(outcomes[2])
        assert outcomes[3] == await a.inbox("s")


async def test_read_waits_for_no_commit(database: Database) -> None:
    async with opened(database.dsn) as a:
        fence = await claimed(a, "s")
        with psycopg.connect(database.dsn) as other:
            other.execute("LOCK TABLE event IN EXCLUSIVE MODE")
            async with trio.open_nursery() as nursery:
                nursery.start_soon(a.save, Commit(fence, 1, [NewEvent("a", {})]))
                await until(lambda: a._writer._pipeline is not None and bool(a._writer._pipeline._sent))
                assert len(await a.events_since("s", 0)) == 1
                other.rollback()
        assert len(await a.events_since("s", 0)) == 2


async def test_answers_may_be_larger_than_the_buffers(database: Database) -> None:
    async with opened(database.dsn) as a:
        text = "\0\x01" + "x" * 1_000_000
        await a.save(Commit(await claimed(a, "s"), 1, [NewEvent("a", {"text": text})]))
        outcomes: list[Any] = await read_together(*[partial(a.events_since, "s", 1)] * 20)
        assert [[event.body for event in events] for events in outcomes] == [[{"text": text}]] * 20


@pytest.mark.parametrize(("bound", "expected"), [("MOST_READS", [2, 2, 1]), ("MOST_WAITING", [2])])
async def test_groups_of_reads_have_bounds(
    database: Database, monkeypatch: pytest.MonkeyPatch, bound: str, expected: list[int]
) -> None:
    """What finds a full queue is read on a connection of the pool."""
    async with opened(database.dsn) as a:
        sizes, row = groups_of(a, monkeypatch), await a.row("s")
        sizes.clear()
        monkeypatch.setattr(module if bound == "MOST_READS" else queue_module, bound, 2)
        assert await read_together(*[partial(a.row, "s")] * 5) == [row] * 5
        assert sizes == expected


async def test_queue_that_has_ended_leaves_the_reads_to_the_pool(database: Database) -> None:
    async with opened(database.dsn) as a:
        expected = [await a.row("s"), await a.events_since("s", 0)]
        a._reads._is_running = False
        assert await read_together(partial(a.row, "s"), partial(a.events_since, "s", 0)) == expected
        with pytest.raises(JournalError, match="division by zero"):
            await a._reads.read(PipelinedRead([query("SELECT 1 / $1", ("int4", 0))], len))


async def test_reads_whose_answers_are_lost_can_be_repeated(wire: Wire) -> None:
    async with opened(wire.dsn) as a:
        expected = await a.row("s")
        with wire.losing_answers():
            outcomes = await read_together(*[partial(a.row, "s")] * 3)
            assert [type(each) for each in outcomes] == [JournalUnavailable] * 3
        assert await a.row("s") == expected


async def test_reader_that_gives_up_takes_nothing_from_the_others(database: Database) -> None:
    async with opened(database.dsn) as a:
        expected = await a.row("s")
        ends: set[int] = set()
        for moments in range(12):
            read: list[object] = []

            async def give_up(scope: trio.CancelScope, read: list[object]) -> None:
                with scope:
                    read.append(await a.row("s"))

            scope = trio.CancelScope()
            async with trio.open_nursery() as nursery:
                nursery.start_soon(give_up, scope, read)
                for _ in range(moments):
                    await trio.lowlevel.checkpoint()
                scope.cancel()
                assert await read_together(*[partial(a.row, "s")] * 2) == [expected] * 2
            assert read in ([], [expected])
            ends.add(len(read))
        assert 0 in ends


async def test_read_on_a_connection_of_the_pool_that_is_lost_says_so(database: Database) -> None:
    async with opened(database.dsn) as a:

        def read(db: Connection) -> object:
            database.end_sessions()
            return executed(db, stream_reads.row("s"))

        with pytest.raises(JournalUnavailable):
            await a._pool.run(read)


async def test_read_in_a_queue_that_ends_is_made_without_it(database: Database) -> None:
    async with opened(database.dsn) as a:
        queue, rows = ReadQueue(database.dsn, a._pool), list[Row | None]()

        async def read() -> None:
            rows.append(await queue.read(stream_reads.row("s")))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(read)
            await until(lambda: bool(queue._waiting))
            with trio.CancelScope() as scope:
                scope.cancel()
                await queue.run()
        assert rows == [await a.row("s")]


async def test_connection_that_nobody_waits_for_holds_no_thread(wire: Wire) -> None:
    begun, ended = threading.Event(), threading.Event()

    def prepare(db: Connection) -> None:
        wire.fault = "silence"
        begun.set()
        try:
            db.execute("SELECT 1")
        finally:
            ended.set()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(connected, wire.dsn, prepare)
        await until(begun.is_set)
        nursery.cancel_scope.cancel()
    await until(ended.is_set)
