"""Tests of PostgreSQL alone: hints over the database, connections that break, commits whose answer is lost,
migrations."""

from __future__ import annotations

import math
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, nullcontext, suppress
from itertools import count

import psycopg
import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st

from stopgo.runtime.event_bus import Subscription
from stopgo.runtime.journal.errors import Fenced, JournalError, JournalTooNew, JournalUnavailable
from stopgo.runtime.journal.ownership import HINTS_LOST, Hint
from stopgo.runtime.journal.postgres import hints as hints_module
from stopgo.runtime.journal.postgres import pool as pool_module
from stopgo.runtime.journal.postgres.hints import parsed, payloads
from stopgo.runtime.journal.postgres.journal import PostgresJournal, open_postgres
from stopgo.runtime.journal.postgres.pool import Pool, check_sessions, connect
from stopgo.runtime.journal.postgres.tables import STEPS, Connection, migrate, sql
from stopgo.runtime.journal.protocol import Accepted, Commit, NewCommand, NewEvent, NewIntent, Repeated, Saved
from stopgo.runtime.journal.question import NewQuestion, Won
from tests.postgres_server import Database, PostgresServer, pooler
from tests.postgres_wire import Wire, wire_to
from tests.runtime.journal.kept import claimed, intents_of, row_of
from tests.runtime.journal.test_ownership import begun
from tests.waiting import until

pytestmark = pytest.mark.postgres


@pytest.fixture
def wire(database: Database) -> Iterator[Wire]:
    with wire_to(database.dsn) as wire:
        yield wire


@asynccontextmanager
async def opened(dsn: str, member: str) -> AsyncIterator[PostgresJournal]:
    async with open_postgres(dsn, member=member) as journal:
        await journal.renew()
        yield journal


async def until_hint(live: Subscription, hint: Hint) -> None:
    async for each in live:
        if each == hint:
            return


# --------------------------------------------------------------------------- hints


async def test_other_process_gets_hints(database: Database) -> None:
    async with opened(database.dsn, "a") as a, opened(database.dsn, "b") as b:
        await _hears(a, b)
        with b.watch() as live:
            fence = await begun(a, "t")
            for seq in (1, 2):
                await until_hint(live, Hint("t", "a", seq - 1))  # or they may become one hint
                await a.save(Commit(fence, seq, [NewEvent("a", {})]))
            await until_hint(live, Hint("t", "a", 2))


async def _hears(sender: PostgresJournal, receiver: PostgresJournal, name: str = "hello") -> None:
    """Wait until a member receives the hints of another: it begins to listen in the background."""
    numbers = count(1)
    with receiver.watch() as live:

        async def heard() -> bool:
            await sender.deliver(NewCommand(f"{name} {next(numbers)}", "k", "create", {}, new=True))
            return any(isinstance(each, Hint) and each.stream.startswith(name) for each in live._events)

        await until(heard)


async def test_hints_come_again_after_a_connection_was_lost(
    database: Database, wire: Wire, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hints_module, "RETRY", 0.05)
    async with opened(database.dsn, "a") as a, opened(wire.dsn, "b") as b:
        await _hears(a, b)
        with b.watch() as live:
            wire.cut()
            await _hears(a, b, "after the cut")
            assert HINTS_LOST in live._events


async def test_hints_that_are_not_sent_are_reported(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hints_module, "_MOST", 2)
    async with opened(database.dsn, "a") as a, opened(database.dsn, "b") as b:
        await _hears(a, b)
        with b.watch() as live:
            for number in range(3):
                a._hints.changed("a", f"s{number}")
            await until_hint(live, HINTS_LOST)


short = st.text(max_size=5)
long = st.builds(str.__mul__, st.text(min_size=1, max_size=3), st.integers(300, 7000))
some_hints = st.lists(st.builds(Hint, short | long, short, st.none() | st.integers(0)), max_size=20)


@given(some_hints)
@settings(max_examples=50)
def test_hints_survive_their_notifications(found: list[Hint]) -> None:
    texts = payloads(found)
    assert all(len(text.encode()) < 8000 for text in texts)
    arrived = [hint for text in texts for hint in parsed(text)]
    assert arrived == [each for each in found if each in arrived]
    assert all(len(each.stream) > 500 for each in found if each not in arrived)


@pytest.mark.parametrize("payload", ["", "x", "[]", "[1]", '["s"]', "{}", "[[]]", '["s", "n", 1, 2]', "\x00"])
def test_notification_of_another_program_is_no_hint(payload: str) -> None:
    assert parsed(payload) == []


async def test_failed_notification_is_told_when_the_server_is_back(
    database: Database, wire: Wire, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hints_module, "RETRY", 0.05)
    async with opened(wire.dsn, "a") as a, opened(database.dsn, "b") as b:
        await _hears(a, b)
        with b.watch() as live:
            with wire.losing_answers():
                a._hints.changed("a", "s")
                await until(lambda: a._hints._lost)
                assert a._hints._wake.is_set()  # or it would be told with the next change only
            await until_hint(live, HINTS_LOST)


# --------------------------------------------------------------------------- what a journal needs


# psycopg#813 (SQL_ASCII: texts come as bytes), mattermost/docs#3943 (LATIN1 lacks an emoji).
@pytest.mark.parametrize("encoding", ["LATIN1", "SQL_ASCII"])
async def test_database_in_another_encoding_is_refused(
    postgres_server: PostgresServer, encoding: str
) -> None:
    name = encoding.lower()
    postgres_server.execute(
        f"CREATE DATABASE {name} ENCODING '{encoding}' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0"
    )
    with pytest.raises(JournalError, match=f"the database has the encoding {encoding}.* ENCODING 'UTF8'"):
        async with open_postgres(f"{postgres_server.dsn} dbname={name}"):
            pass


async def test_any_text_is_stored_whatever_encoding_the_client_asks_for(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGCLIENTENCODING", "LATIN1")
    async with opened(f"{database.dsn} client_encoding=SQL_ASCII", "a") as a:
        await a.deliver(NewCommand("s", "k", "create", {"text": "\u2014 \u20ac \U0001f600"}, new=True))
        [command] = await a.inbox("s")
    assert command.body == {"text": "\u2014 \u20ac \U0001f600"}


@pytest.mark.parametrize(
    ("mode", "is_refused"), [("session", False), ("transaction", True), ("statement", True)]
)
def test_pooler_that_shares_sessions_is_refused(
    postgres_server: PostgresServer, mode: str, is_refused: bool
) -> None:
    """PgBouncer's documentation, "Feature matrix for pooling modes": LISTEN and SET need `session`."""
    with (
        pooler(postgres_server, mode) as dsn,
        connect(dsn) as db,
        pytest.raises(JournalError, match="pool_mode = session") if is_refused else nullcontext(),
    ):
        check_sessions(db, dsn)


# --------------------------------------------------------------------------- release


async def test_release_sees_the_command_that_it_waited_for(database: Database) -> None:
    """Another member delivers it, and has not committed when the release begins."""
    released: list[bool] = []
    async with opened(database.dsn, "a") as a:
        fence = await begun(a)

        async def release() -> None:
            released.append(await a.release(fence))

        with psycopg.connect(database.dsn) as b, psycopg.connect(database.dsn, autocommit=True) as look:
            b.execute("SELECT FROM stream FOR NO KEY UPDATE")
            b.execute(
                "INSERT INTO inbox (stream, key, kind, body, at, node)"
                " SELECT id, 'k', 'message', '{}', 0, 'b' FROM stream"
            )
            async with trio.open_nursery() as nursery:
                nursery.start_soon(release)
                waits = (
                    "SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%stream%'"
                )
                await until(lambda: look.execute(waits).rowcount == 1)
                b.commit()
        assert released == [False]
        assert await a.owns(fence)


# --------------------------------------------------------------- connections that break


async def test_journal_is_unavailable_until_it_can_be_reached(wire: Wire) -> None:
    async with opened(wire.dsn, "a") as a:
        fence = await begun(a)
        with wire.losing_answers():
            with pytest.raises(JournalUnavailable):
                await a.renew()
            with pytest.raises(JournalUnavailable):
                await a.row("s")
        await a.save(Commit(fence, 1, [NewEvent("a", {})]))


@pytest.mark.parametrize("read", ["row", "question"], ids=["pipeline", "pool"])
async def test_wait_for_a_server_that_does_not_answer_has_an_end(
    wire: Wire, monkeypatch: pytest.MonkeyPatch, read: str
) -> None:
    async with opened(wire.dsn, "a") as a:
        monkeypatch.setattr(pool_module, "SILENCE", 0.2)
        monkeypatch.setattr(pool_module, "POLL_EVERY", 0.05)
        wire.fault = "silence"
        with pytest.raises(JournalUnavailable):
            await getattr(a, read)("s")
        wire.cut()
        wire.fault = "none"
        assert await getattr(a, read)("s") is None


async def test_operation_that_waits_for_a_connection_ends_with_the_others(
    wire: Wire, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended: list[int] = []
    async with open_postgres(wire.dsn, member="a", connections=1) as a:
        monkeypatch.setattr(pool_module, "SILENCE", 0.2)
        monkeypatch.setattr(pool_module, "POLL_EVERY", 0.05)
        wire.fault = "silence"
        async with trio.open_nursery() as nursery:
            for number in range(3):

                @nursery.start_soon
                async def read(number: int = number) -> None:
                    with pytest.raises(JournalUnavailable):
                        await a.question("q")
                    ended.append(number)

        wire.cut()
        wire.fault = "none"
        assert await a.question("q") is None
    assert sorted(ended) == [0, 1, 2]


async def test_slow_operation_is_not_cut_off_while_others_are_answered(
    wire: Wire, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(wire.dsn, "a") as a:
        monkeypatch.setattr(pool_module, "SILENCE", 0.2)
        monkeypatch.setattr(pool_module, "POLL_EVERY", 0.05)
        done: list[object] = []

        async def wait() -> None:
            await a._pool.run(lambda db: db.execute("SELECT pg_sleep(1)"))
            done.append(True)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(wait)
            while not done:
                await a.row("s")


@pytest.mark.parametrize("is_lost", [True, False], ids=["no answer comes", "the answer comes"])
async def test_operation_that_has_begun_ends_soon_after_its_cancellation(
    wire: Wire, monkeypatch: pytest.MonkeyPatch, is_lost: bool
) -> None:
    """Without the bounds on silence, which would end it too. A write returns its outcome, if there is one."""
    monkeypatch.setattr(pool_module, "SILENCE", math.inf)
    monkeypatch.setattr(pool_module, "LONGEST", math.inf)
    accepted: list[object] = []
    async with opened(wire.dsn, "a") as a:
        with trio.CancelScope() as scope:

            async def cancel() -> None:
                await until(lambda: any(work.session is not None for work in a._pool._works))
                scope.cancel()

            async with trio.open_nursery() as nursery:
                nursery.start_soon(cancel)
                if is_lost:
                    wire.fault = "silence"
                    with pytest.raises(JournalUnavailable):
                        await a._pool.run(lambda db: db.execute("SELECT 1"))
                else:
                    accepted.append(await a._pool.run(lambda db: db.execute("SELECT pg_sleep(0.2)")))
        assert len(accepted) == (not is_lost)
        wire.cut()
        wire.fault = "none"


async def test_operation_that_was_cancelled_before_it_had_a_connection_does_not_begin(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    connecting, answered = threading.Event(), threading.Event()

    def slowly(dsn: str) -> Connection:
        connecting.set()
        answered.wait()
        return connect(dsn)

    monkeypatch.setattr(pool_module, "connect", slowly)
    pool = Pool(database.dsn, trio.CapacityLimiter(1))
    ran: list[Connection] = []
    async with trio.open_nursery() as nursery:
        nursery.start_soon(pool.run, ran.append)
        await until(connecting.is_set)
        nursery.cancel_scope.cancel()
    answered.set()
    await pool.run(lambda db: None)
    pool.close()
    assert ran == []


async def test_member_that_is_suspended_in_a_transaction_keeps_no_stream_from_others(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It cannot cut its connection itself."""
    monkeypatch.setattr(pool_module, "SILENCE", math.inf)
    async with opened(database.dsn, "a") as a, opened(database.dsn, "b") as b:
        await begun(a)
        locked, resumed = threading.Event(), threading.Event()

        def hang(db: Connection) -> None:
            db.execute("BEGIN")
            db.execute("SELECT FROM stream FOR NO KEY UPDATE")
            locked.set()
            resumed.wait()
            db.execute("COMMIT")

        async def hold() -> None:
            with pytest.raises(JournalUnavailable):
                await a._pool.run(hang)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(hold)
            await until(locked.is_set)
            accepted = None
            for _ in range(4):
                with suppress(JournalUnavailable):
                    accepted = accepted or await b.deliver(NewCommand("s", "k", "message", {}))
            resumed.set()
        assert accepted == Accepted()


async def test_start_waits_for_the_server(wire: Wire, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stopgo.runtime.journal.patience.RETRY", 0.05)
    wire.fault = "no answers"
    async with trio.open_nursery() as nursery:

        @nursery.start_soon
        async def heal() -> None:
            await until(lambda: wire.lost > 0)
            wire.fault = "none"

        async with opened(wire.dsn, "a") as a:
            assert set(await a.living()) == {"a"}


async def test_write_whose_answer_was_lost_can_be_repeated(database: Database, wire: Wire) -> None:
    async with opened(wire.dsn, "a") as a:
        await a.deliver(NewCommand("s", "first", "create", {}, new=True))
        fence = await claimed(a, "s")
        events, intents = [NewEvent("a", {"n": 1})], [NewIntent("call", 1, "once", {})]
        questions = [NewQuestion("q", "tool", {})]

        async def save(seq: int = 0) -> Saved:
            return await a.save(Commit(fence, seq, events, intents=intents, questions=questions))

        with pytest.raises(Fenced):
            await save(7)  # whose statement is prepared then
        with wire.losing_answers(), pytest.raises(JournalUnavailable):
            await save()
        assert (await row_of(a, "s")).last_seq == 1, "it was committed"
        assert (await save()).first_seq == 1
        assert len(await a.events_since("s", 0)) == len(await intents_of(a, "s")) == 1
        await a.deliver(NewCommand("s", "first", "create", {}))  # whose statements are prepared then
        with wire.losing_answers(), pytest.raises(JournalUnavailable):
            await a.deliver(NewCommand("s", "k", "message", {}))
        assert await a.deliver(NewCommand("s", "k", "message", {})) == Repeated(None), "it was committed"
        # The first round trip of these gets no answer, so they are rolled back.
        with wire.losing_answers(), pytest.raises(JournalUnavailable):
            await a.decide("q", {}, "d")
        assert isinstance(await a.decide("q", {}, "d"), Won)
        with wire.losing_answers(), pytest.raises(JournalUnavailable):
            await a.delete(fence)
        assert await a.delete(fence) == ("first", "k", "d")


async def test_session_that_the_server_ends_is_replaced(database: Database) -> None:
    async with opened(database.dsn, "a") as a:
        await begun(a)
        await a.row("s")
        database.end_sessions()
        with pytest.raises(JournalUnavailable):
            await a.row("s")
        assert (await row_of(a, "s")).last_seq == 1


@pytest.mark.parametrize(
    ("given", "used"), [("off", "on"), ("local", "on"), ("remote_apply", "remote_apply")]
)
async def test_settings_of_the_server_weaken_no_write(database: Database, given: str, used: str) -> None:
    weak = f"-csynchronous_commit={given}\\ -cdefault_transaction_isolation=serializable"
    async with opened(f"{database.dsn}\\ {weak}", "a") as a:
        await begun(a)
        names = ("synchronous_commit", "default_transaction_isolation")
        shown = await a._pool.run(lambda db: [db.execute(sql(f"SHOW {name}")).fetchone() for name in names])
        assert shown == [(used,), ("read committed",)]


# ---------------------------------------------------------------------- one database


async def test_members_make_the_tables_once(postgres_server: PostgresServer) -> None:
    with postgres_server.empty_schema() as dsn:
        async with trio.open_nursery() as nursery:
            for number in range(4):

                @nursery.start_soon
                async def start(number: int = number) -> None:
                    async with opened(dsn, f"n{number}") as journal:
                        await begun(journal, f"s{number}")

        async with opened(dsn, "last") as journal:
            assert len((await journal.list()).rows) == 4


async def test_tables_of_a_newer_version_are_left_alone(postgres_server: PostgresServer) -> None:
    with postgres_server.empty_schema() as dsn, psycopg.connect(dsn, autocommit=True) as db:
        migrate(db)
        db.execute("UPDATE journal_version SET version = %s", (len(STEPS) + 1,))
        with pytest.raises(JournalTooNew, match="update it"):
            async with opened(dsn, "a"):
                pass


async def test_tables_of_another_program_are_left_alone(postgres_server: PostgresServer) -> None:
    with postgres_server.empty_schema() as dsn, psycopg.connect(dsn, autocommit=True) as db:
        db.execute("CREATE TABLE event (id int)")
        with pytest.raises(JournalError, match="tables of another program"):
            async with opened(dsn, "a"):
                pass
        found = db.execute("SELECT count(*) FROM pg_tables WHERE schemaname = current_schema()").fetchone()
        assert found == (1,), "nothing was made"


async def test_role_without_rights(postgres_server: PostgresServer) -> None:
    with postgres_server.empty_schema() as dsn, psycopg.connect(dsn, autocommit=True) as db:
        db.execute("CREATE ROLE reader LOGIN")
        db.execute(sql(f"GRANT USAGE ON SCHEMA {dsn.rpartition('=')[2]} TO reader"))
        with pytest.raises(JournalError, match="may not create its tables"):
            async with opened(dsn.replace("user=stopgo", "user=reader"), "a"):
                pass
        db.execute("DROP OWNED BY reader")
        db.execute("DROP ROLE reader")


async def test_bad_address() -> None:
    with pytest.raises(JournalError, match="address is not one of PostgreSQL"):
        async with opened("postgresql://[", "a"):
            pass


@pytest.fixture(scope="module")
def db(postgres_server: PostgresServer) -> Iterator[Connection]:
    with connect(postgres_server.dsn) as db:
        yield db


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"])), max_size=5))
@settings(max_examples=30)
def test_every_text_passes_unchanged(db: Connection, texts: list[str]) -> None:
    texts += ["\0", "\x01", "\x01\x02\0\x01"]
    found = [db.execute("SELECT %s::text", (text,)).fetchall() for text in texts]
    assert found == [[(text,)] for text in texts]
    assert db.execute("SELECT unnest(%s::text[])", (texts,)).fetchall() == [(text,) for text in texts]
