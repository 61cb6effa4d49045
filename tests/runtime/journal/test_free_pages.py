"""The space of deleted streams is returned to the file system: in steps, or at once by `compact`."""

from __future__ import annotations

import sqlite3
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import trio

from stopgo.gateway.cli.main import main
from stopgo.runtime.journal.errors import JournalBusy
from stopgo.runtime.journal.ownership import Fence
from stopgo.runtime.journal.protocol import Commit, Journal, NewCommand, NewEvent
from stopgo.runtime.journal.sqlite import database
from stopgo.runtime.journal.sqlite.database import FreePages
from stopgo.runtime.journal.sqlite.sqlite_journal import compact, open_sqlite
from tests.runtime.journal.kept import claimed
from tests.waiting import until

MB = 1_000_000
_EVENTS = [NewEvent("added", {"text": "x" * 10_000})] * 400


async def write(journal: Journal, stream: str) -> Fence:
    """A stream of 4 MB."""
    await journal.deliver(NewCommand(stream, "k", "message", {}, new=True))
    fence = await claimed(journal, stream)
    await journal.save(Commit(fence, 0, _EVENTS))
    return fence


def make_old(directory: Path) -> None:
    """A file of a version that did not set ``auto_vacuum``."""
    directory.mkdir()
    with closing(sqlite3.connect(directory / "journal.db")) as db:
        db.execute("CREATE TABLE passing (n)")
        db.execute("DROP TABLE passing")


def size(directory: Path) -> int:
    return (directory / "journal.db").stat().st_size


def check(directory: Path) -> None:
    with closing(sqlite3.connect(directory / "journal.db")) as db:
        assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)


@pytest.mark.parametrize("is_busy", [False, True], ids=["no writer", "a writer never pauses"])
async def test_space_of_deleted_streams_is_returned(tmp_path: Path, is_busy: bool) -> None:
    async with open_sqlite(tmp_path) as journal:
        first, kept, last = [await write(journal, name) for name in ("a", "b", "c")]
        for each in (first, last):
            await journal.delete(each)
        assert size(tmp_path) > 8 * MB
        seq = len(_EVENTS)
        if not is_busy:
            await until(lambda: size(tmp_path) < 6 * MB)
        while size(tmp_path) > 6 * MB:
            await journal.save(Commit(kept, seq, [NewEvent("added", {})]))
            seq += 1
        events = await journal.events_since("b", 0)
        assert [each.seq for each in events] == list(range(1, seq + 1))
        assert all(each.body == _EVENTS[0].body for each in events[: len(_EVENTS)])
    check(tmp_path)


async def test_space_that_was_free_at_the_start_is_returned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process was killed before."""
    with monkeypatch.context() as patch:
        patch.setattr(FreePages, "check", lambda self, db: None)
        async with open_sqlite(tmp_path) as journal:
            await journal.delete(await write(journal, "a"))
    assert size(tmp_path) > 4 * MB
    async with open_sqlite(tmp_path) as journal:
        await until(lambda: size(tmp_path) < 2 * MB)


async def test_older_file_gets_smaller_once_it_was_compacted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    directory = tmp_path / "it's data"
    make_old(directory)
    async with open_sqlite(directory) as journal:
        fences = [await write(journal, name) for name in ("a", "b")]
        await journal.delete(fences[0])
        with pytest.raises(JournalBusy):
            compact(directory)
        assert main(["journal", "compact", str(directory)]) == 1
        assert "is using the journal" in capsys.readouterr().err
    assert size(directory) > 8 * MB
    assert main(["journal", "compact", str(directory)]) == 0
    assert capsys.readouterr().out.endswith(" MB now\n")
    assert 4 * MB < size(directory) < 6 * MB
    check(directory)
    async with open_sqlite(directory) as journal:
        assert len(await journal.events_since("b", 0)) == len(_EVENTS)
        await journal.delete(await claimed(journal, "b"))
        await until(lambda: size(directory) < 2 * MB)


@pytest.mark.parametrize(
    ("directory", "said"), [("none", "has no journal"), ("theirs", "database of another program")]
)
def test_what_cannot_be_compacted(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    directory: str,
    said: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("theirs").mkdir(0o700)
    with closing(sqlite3.connect("theirs/journal.db")) as db:
        db.execute("CREATE TABLE theirs (n)")
    assert main(["journal", "compact", directory]) == 1
    assert said in capsys.readouterr().err
    assert not Path("none").exists()
    with pytest.raises(SystemExit, match="2"):
        main(["journal", "compact", "postgresql://db.example/agent"])


def freed(file: Path) -> sqlite3.Connection:
    """A database with thousands of free pages."""
    db = database.open_writer(file, wait_for_disk=False)
    db.execute("INSERT INTO note VALUES ('k', 'k', ?)", ("x" * 8 * MB,))
    db.execute("DELETE FROM note")
    return db


def pages(db: sqlite3.Connection) -> int:
    return int(db.execute("PRAGMA page_count").fetchone()[0])


def test_step_is_short(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a disk that needs a millisecond for a few pages."""
    now = 0.0

    def clock() -> float:
        nonlocal now
        now += 0.001
        return now

    with closing(freed(tmp_path / "db")) as db:
        monkeypatch.setattr(time, "perf_counter", clock)
        free, before = FreePages(db), pages(db)
        free.step(db)
        assert 1 <= before - pages(db) <= 100
        assert free.are_many
        while free.are_many:
            free.step(db)
        assert pages(db) < 400


def test_step_that_fails_breaks_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another program has locked the database."""
    monkeypatch.setattr(database, "BUSY_SECONDS", 0.01)
    with closing(freed(tmp_path / "db")) as db, closing(sqlite3.connect(tmp_path / "db")) as other:
        free, before = FreePages(db), pages(db)
        other.execute("BEGIN IMMEDIATE")
        free.step(db)
        assert not db.in_transaction
        assert not free.are_many
        other.rollback()
        free.check(db)
        assert not free.are_many, "no step is made again"
        assert pages(db) == before
        db.execute("INSERT INTO note VALUES ('k', 'k', '1')")


async def test_closing_does_not_wait_for_the_last_step(tmp_path: Path) -> None:
    for _ in range(3):
        async with open_sqlite(tmp_path) as journal:
            fences: list[Any] = [await write(journal, name) for name in ("a", "b", "c")]
            for each in fences:
                await journal.delete(each)
            await trio.lowlevel.checkpoint()
        check(tmp_path)
