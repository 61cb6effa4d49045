"""The contract: an extract is as good as none, and never of events that its stream has not."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest

from stopgo.runtime.journal.ownership import Fence
from stopgo.runtime.journal.postgres.journal import open_postgres
from stopgo.runtime.journal.protocol import Commit, Journal, NewCommand, NewEvent
from stopgo.runtime.journal.sqlite.sqlite_journal import open_sqlite
from stopgo.runtime.journal.stream_extract import Extract
from tests.postgres_server import PostgresServer
from tests.runtime.journal.conftest import Members
from tests.runtime.journal.kept import claimed

ONE = Extract(1, "1", "é\ud800\x00".encode("unicode_escape").decode())


async def made(journal: Journal) -> Fence:
    """A stream with one event."""
    await journal.deliver(NewCommand("s", "first", "message", {}, new=True))
    fence = await claimed(journal, "s")
    await journal.save(Commit(fence, 0, [NewEvent("a", {})], ack=["first"]))
    return fence


async def test_the_latest_extract_of_a_form_is_read(journal: Journal, begin: Any) -> None:
    assert await journal.extract("s", "1") is None
    fence = await begin()
    assert await journal.extract("s", "1") is None
    await journal.keep_extract(fence, ONE)
    assert await journal.extract("s", "1") == ONE
    assert await journal.extract("s", "2") is None
    await journal.save(Commit(fence, 1, [NewEvent("a", {})]))
    two = Extract(2, "2", "two")
    await journal.keep_extract(fence, two)
    assert (await journal.extract("s", "1"), await journal.extract("s", "2")) == (None, two)


async def test_an_extract_is_not_ahead_of_its_stream(journal: Journal, begin: Any) -> None:
    await journal.keep_extract(await begin(), Extract(2, "1", "ahead"))
    assert await journal.extract("s", "1") is None


async def test_only_the_owner_writes_an_extract(members: Members) -> None:
    fence = await made(members.a)
    await members.a.release(fence)
    theirs = await claimed(members.b, "s")
    await members.a.keep_extract(fence, ONE)
    assert await members.a.extract("s", "1") is None
    await members.b.keep_extract(theirs, ONE)
    assert await members.a.extract("s", "1") == ONE


async def test_an_extract_ends_with_its_stream(journal: Journal, begin: Any) -> None:
    fence = await begin()
    await journal.keep_extract(fence, ONE)
    await journal.delete(fence)
    assert await journal.extract("s", "1") is None
    await journal.keep_extract(fence, ONE)
    await begin()
    assert await journal.extract("s", "1") is None


async def test_an_extract_is_deleted_from_the_disk(tmp_path: Path) -> None:
    async with open_sqlite(tmp_path) as journal:
        fence = await made(journal)
        await journal.keep_extract(fence, Extract(1, "1", "the quiet secret" * 1000))
        await journal.delete(fence)
    assert not any(b"quiet secret" in found for found in _bytes_of(tmp_path))


def _bytes_of(folder: Path) -> list[bytes]:
    return [file.read_bytes() for file in folder.iterdir()]


async def test_an_older_program_deletes_the_extract_that_it_does_not_know(tmp_path: Path) -> None:
    async with open_sqlite(tmp_path) as journal:
        fence = await made(journal)
        await journal.keep_extract(fence, ONE)
    with closing(sqlite3.connect(tmp_path / "journal.db")) as db, db:
        db.execute("PRAGMA foreign_keys = ON")
        db.execute("DELETE FROM stream")
        assert db.execute("SELECT count(*) FROM extract").fetchone() == (0,)


@pytest.mark.postgres
async def test_an_older_member_deletes_the_extract_that_it_does_not_know(
    postgres_server: PostgresServer,
) -> None:
    with postgres_server.new_database() as database:
        async with open_postgres(database.dsn) as journal:
            await journal.keep_extract(await made(journal), ONE)
        with psycopg.connect(database.dsn) as db:
            assert db.execute("SELECT count(*) FROM extract").fetchone() == (1,)
            db.execute("DELETE FROM event")
            db.execute("DELETE FROM stream")
            assert db.execute("SELECT count(*) FROM extract").fetchone() == (0,)


@pytest.mark.parametrize("change", ["seq = 'x'", "seq = 0", "body = x'ff'", "body = CAST(x'ff' AS TEXT)"])
async def test_a_damaged_extract_is_none(tmp_path: Path, change: str) -> None:
    async with open_sqlite(tmp_path) as journal:
        fence = await made(journal)
        await journal.keep_extract(fence, ONE)
    with closing(sqlite3.connect(tmp_path / "journal.db")) as db, db:
        db.execute(f"UPDATE extract SET {change}")
    async with open_sqlite(tmp_path) as journal:
        assert await journal.extract("s", "1") is None
