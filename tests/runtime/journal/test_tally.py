"""The tally of PostgreSQL against a count of all streams, while several sessions write, end and are killed.

The sessions write to the tables as a member of a version does that knows nothing of the tally.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from typing import Any

import attrs
import psycopg
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from stopgo.runtime.journal.postgres import tables, tally
from stopgo.runtime.journal.postgres.journal import open_postgres
from stopgo.runtime.journal.postgres.tables import Connection, migrate, sql
from stopgo.runtime.journal.summary import Among
from tests.postgres_server import PostgresServer

pytestmark = pytest.mark.postgres

OWNERS = ("", "ann", "bob")
STATUSES = ("", "active", "done")
SESSIONS = 2

_INSERT = """INSERT INTO stream (name, status, owner, last_seq, created, updated)
    VALUES (%s || nextval('numbers'), %s, %s, %s, 0, 0)"""
_MINE = "id = (SELECT id FROM stream WHERE name LIKE %s || '%%' ORDER BY id DESC LIMIT 1)"
_WITHOUT_TALLY = """DROP TABLE tally, tally_change; DROP FUNCTION fold_tally CASCADE;
    DROP FUNCTION tally_stream CASCADE; DROP FUNCTION tally_inserted CASCADE"""


@attrs.frozen
class Step:
    """A change that a session makes to a stream of its own."""

    session: int
    statement: str
    values: tuple[Any, ...] = ()

    def take(self, db: Connection) -> None:
        name = f"s{self.session} "
        match self.statement:
            case "insert":
                db.execute(sql(_INSERT), (name, *self.values))
            case "delete":
                db.execute(sql(f"DELETE FROM stream WHERE {_MINE}"), (name,))
            case "BEGIN" | "COMMIT" | "ROLLBACK" | tally.FOLD:
                db.execute(sql(self.statement))
            case column:
                db.execute(sql(f"UPDATE stream SET {column} = %s WHERE {_MINE}"), (*self.values, name))


def _steps() -> st.SearchStrategy[Step]:
    owners, statuses, seqs = st.sampled_from(OWNERS), st.sampled_from(STATUSES), st.integers(0, 2)
    done = st.one_of(
        st.tuples(st.just("insert"), st.tuples(statuses, owners, seqs)),
        st.tuples(st.just("owner"), st.tuples(owners)),
        st.tuples(st.just("status"), st.tuples(statuses)),
        st.tuples(st.just("last_seq"), st.tuples(seqs)),
        st.just(("delete",)),
        st.just((tally.FOLD,)),
        st.sampled_from([("BEGIN",), ("COMMIT",), ("ROLLBACK",), ("kill",)]),
    )
    return st.builds(lambda session, what: Step(session, *what), st.integers(0, SESSIONS - 1), done)


@pytest.fixture(scope="module")
def dsn(postgres_server: PostgresServer) -> Iterator[str]:
    with postgres_server.empty_schema() as dsn, psycopg.connect(dsn, autocommit=True) as db:
        migrate(db)
        db.execute("CREATE SEQUENCE numbers")
        yield dsn


def connected(dsn: str) -> Connection:
    """A session that waits for no other."""
    db = psycopg.connect(dsn, autocommit=True)
    db.execute("SET lock_timeout = '5s'")
    return db


def agrees(db: Connection) -> bool:
    """Whether the tally agrees with a count, in one snapshot."""
    with db.transaction():
        db.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        counted: dict[str | None, Counter[str]] = {None: Counter()} | {each: Counter() for each in OWNERS}
        listed = "SELECT owner, status, count(*) FROM stream WHERE last_seq <> 0 GROUP BY owner, status"
        for owner, status, count in db.execute(listed):
            counted[None][status] += count
            if owner:
                counted[owner][status] += count
        return all(
            dict(db.execute(sql(tally.query(among)), {"owner": owner, "names": []}).fetchall())
            == counted[owner]
            for owner in counted
            for among in (None if owner is None else Among(owner),)
        )


def run(db: Connection, dsn: str, steps: Sequence[Step], *, counted: bool) -> None:
    sessions: list[Connection] = []
    with ExitStack() as stack:

        def session() -> Connection:
            return stack.enter_context(connected(dsn))

        sessions = [session() for _ in range(SESSIONS)]
        for step in steps:
            if step.statement == "kill":
                killed = sessions[step.session]
                db.execute("SELECT pg_terminate_backend(%s, 5000)", (killed.info.backend_pid,))
                killed.close()
                sessions[step.session] = session()
            else:
                step.take(sessions[step.session])
            if counted:
                assert agrees(db)
        if not counted:
            migrate(db)  # while some have not ended their transactions
            assert agrees(db)
            for each in sessions:
                each.execute("COMMIT")
                assert agrees(db)
        db.execute(tally.FOLD)
        assert agrees(db)


@given(st.lists(_steps(), min_size=10, max_size=40), st.booleans())
@settings(max_examples=25, phases=(Phase.explicit, Phase.reuse, Phase.generate))  # shrinking takes minutes
def test_tally_is_exact_whoever_writes_ends_and_dies(dsn: str, steps: list[Step], counted: bool) -> None:
    """`counted`: otherwise the triggers were made, and the first count comes at the end."""
    with connected(dsn) as db:
        db.execute("TRUNCATE stream, extract, tally_change, tally")
        if counted:
            migrate(db)
        run(db, dsn, steps, counted=counted)


async def test_database_without_a_tally_gets_one(postgres_server: PostgresServer) -> None:
    with postgres_server.empty_schema() as dsn, psycopg.connect(dsn, autocommit=True) as db:
        migrate(db)
        db.execute(sql(_WITHOUT_TALLY))
        db.execute("CREATE SEQUENCE numbers")
        for number in range(20):
            db.execute(sql(_INSERT), ("s", STATUSES[number % 3], OWNERS[number % 2], number % 5))
        async with open_postgres(dsn) as journal:
            assert dict((await journal.list()).tally) == {"": 5, "active": 6, "done": 5}
            assert (await journal.census()).streams == {"": 5, "active": 6, "done": 5}
        assert agrees(db)


def test_new_triggers_do_not_wait_long_for_a_writer(
    postgres_server: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Writes of others wait behind them."""
    monkeypatch.setattr(tables, "_LOCK_SECONDS", 0.05)
    with postgres_server.empty_schema() as dsn, psycopg.connect(dsn, autocommit=True) as db:
        migrate(db)
        db.execute(sql(_WITHOUT_TALLY))
        db.execute("CREATE SEQUENCE numbers")
        with psycopg.connect(dsn) as writer:
            writer.execute(sql(_INSERT), ("s", "active", "ann", 1))
            with pytest.raises(psycopg.errors.LockNotAvailable):
                migrate(db)
            writer.commit()
        migrate(db)
        assert agrees(db)


def test_transactions_that_count_wait_for_nobody(dsn: str) -> None:
    """Also while another one folds, has changed the same numbers, and does not end."""
    with connected(dsn) as db, connected(dsn) as other:
        db.execute("TRUNCATE stream, extract, tally_change, tally")
        migrate(db)
        other.execute("BEGIN")
        for each in (other, db):
            each.execute(sql(_INSERT), (str(each.info.backend_pid), "active", "ann", 1))
            each.execute(tally.FOLD)
        for status in ("done", "active"):
            db.execute(
                "UPDATE stream SET status = %s WHERE name LIKE %s || '%%'", (status, str(db.info.backend_pid))
            )
            db.execute(tally.FOLD)
            assert agrees(db)
        other.execute("COMMIT")
        assert agrees(db)


def test_writer_without_rights_on_the_tally_is_counted(postgres_server: PostgresServer) -> None:
    """As the role of a member that is replaced later, where the owner of the tables has upgraded them."""
    with postgres_server.empty_schema() as dsn, psycopg.connect(dsn, autocommit=True) as db:
        migrate(db)
        schema = dsn.rpartition("=")[2]
        for statement in (
            "CREATE ROLE older LOGIN",
            f"GRANT USAGE ON SCHEMA {schema} TO older",
            "GRANT SELECT, INSERT, UPDATE, DELETE ON stream TO older",
        ):
            db.execute(sql(statement))
        with psycopg.connect(dsn.replace("user=stopgo", "user=older"), autocommit=True) as older:
            older.execute("INSERT INTO stream (name, status, created, updated) VALUES ('s', 'active', 0, 0)")
            older.execute("UPDATE stream SET last_seq = 1")
        assert agrees(db)
        assert dict(db.execute(sql(tally.query(None))).fetchall()) == {"active": 1}
        db.execute("DROP OWNED BY older")
        db.execute("DROP ROLE older")
