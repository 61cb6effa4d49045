"""What only the store on disk has: files, versions, one process, and a loop that is not held up."""

from __future__ import annotations

import os
import shutil
import sqlite3
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import trio

from stopgo.runtime.journal.errors import (
    Fenced,
    IntentExists,
    JournalBroken,
    JournalBusy,
    JournalError,
    JournalTooNew,
)
from stopgo.runtime.journal.ownership import Fence
from stopgo.runtime.journal.protocol import Commit, Journal, NewCommand, NewEvent, NewIntent, NotAccepted
from stopgo.runtime.journal.question import NewQuestion
from stopgo.runtime.journal.sqlite import database, files, sql_question, sql_stream
from stopgo.runtime.journal.sqlite.files import announce
from stopgo.runtime.journal.sqlite.sqlite_journal import open_sqlite
from stopgo.runtime.journal.stream_extract import Extract
from stopgo.runtime.journal.summary import Among, Summary
from tests.runtime.journal.kept import claimed, row_of
from tests.waiting import POLL


async def write(journal: Journal, stream: str = "s", *, status: str = "active", owner: str = "") -> Fence:
    await journal.deliver(NewCommand(stream, "k", "message", {}, new=True))
    fence = await claimed(journal, stream)
    await journal.save(
        Commit(
            fence,
            0,
            [NewEvent("created", {})],
            intents=[NewIntent("c", 1, "once", {})],
            questions=[NewQuestion(f"q-{stream}", "tool", {}, expires=1.0)],
            summary=Summary(status, "title", open=False, body={}, owner=owner),
        )
    )
    return fence


# -------------------------------------------------------------------------- files


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


async def test_the_directory_is_made_for_its_owner_alone(tmp_path: Path) -> None:
    directory = tmp_path / "made" / "data"
    async with open_sqlite(directory):
        assert mode(directory) == 0o700
        assert (directory / "journal.db").exists()


async def test_a_directory_that_is_there_is_left_as_it_is(tmp_path: Path) -> None:
    directory = tmp_path / "data"
    os.mkdir(directory, 0o750)
    async with open_sqlite(str(directory)):
        assert mode(directory) == 0o750


@pytest.mark.parametrize("inline", [False, True])
async def test_reopened_journal_has_all_data(tmp_path: Path, inline: bool) -> None:
    async with open_sqlite(tmp_path, inline=inline) as journal:
        old = await write(journal)
        row, events = await journal.row("s"), await journal.events_since("s", 0)
    async with open_sqlite(tmp_path, inline=not inline) as journal:
        assert await journal.row("s") == row
        assert await journal.events_since("s", 0) == events
        assert await claimed(journal, "s") != old
    assert not (tmp_path / "journal.db-wal").exists(), "a clean end leaves one file"


@pytest.mark.parametrize(("inline", "level"), [(False, 2), (True, 0)], ids=["full", "off"])
async def test_commits_wait_for_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, inline: bool, level: int
) -> None:
    opened: list[sqlite3.Connection] = []
    open_writer = database.open_writer

    def recorded(*args: Any, **options: Any) -> sqlite3.Connection:
        opened.append(open_writer(*args, **options))
        return opened[-1]

    monkeypatch.setattr(database, "open_writer", recorded)
    async with open_sqlite(tmp_path, inline=inline):
        [db] = opened
        assert db.execute("PRAGMA synchronous").fetchone() == (level,)
        assert db.execute("PRAGMA fullfsync").fetchone() == (1,)


async def test_all_connections_share_the_memory_for_pages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[sqlite3.Connection] = []
    connect = database._connect

    def recorded(uri: str, cache: int) -> sqlite3.Connection:
        opened.append(connect(uri, cache))
        return opened[-1]

    monkeypatch.setattr(database, "_connect", recorded)
    async with open_sqlite(tmp_path, cache=8 * 1024 * 1024) as journal:
        both = threading.Barrier(database.CONNECTIONS - 2)
        async with trio.open_nursery() as nursery:
            for _ in range(both.parties):
                nursery.start_soon(journal._reader.slow, lambda db: both.wait())
        sizes = [db.execute("PRAGMA cache_size").fetchone() for db in opened]
    assert sizes == [(-2 * 1024,)] * database.CONNECTIONS


async def test_readers_cannot_write(tmp_path: Path) -> None:
    async with open_sqlite(tmp_path):
        reader = database.connect_reader(tmp_path / "journal.db")
        with pytest.raises(sqlite3.OperationalError, match="readonly"):
            reader.execute("DELETE FROM stream")
        reader.close()


@pytest.mark.parametrize("content", [b"not a database, surely, but long enough to look at" * 100])
async def test_a_file_that_is_no_journal_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "journal.db").write_bytes(content)
    with pytest.raises(JournalError, match="file is not a database"):
        async with open_sqlite(tmp_path):
            pass
    assert (tmp_path / "journal.db").read_bytes() == content


async def test_a_journal_is_its_owners_in_a_folder_of_others(tmp_path: Path) -> None:
    os.chmod(tmp_path, 0o755)
    before = os.umask(0o022)
    try:
        async with open_sqlite(tmp_path) as journal:
            await journal.deliver(NewCommand("s", "k", "x", {}, new=True))
            rights = {file.name: stat.S_IMODE(file.stat().st_mode) for file in os.scandir(tmp_path)}
    finally:
        os.umask(before)
    assert rights == dict.fromkeys(("journal.db", "journal.db-shm", "journal.db-wal", "journal.lock"), 0o600)


@pytest.mark.parametrize(
    ("mode", "says"),
    [(0o777, "is writable by everyone"), (0o1777, "writable by everyone"), (0o770, ""), (0o755, "")],
)
async def test_a_directory_that_everybody_may_write_to_is_refused(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, mode: int, says: str
) -> None:
    os.chmod(tmp_path, mode)
    if says:
        with pytest.raises(JournalError, match=says):
            async with open_sqlite(tmp_path):
                pass
        assert os.listdir(tmp_path) == []
    else:
        async with open_sqlite(tmp_path):
            pass
    assert ("writable by its group" in caplog.text) == (mode == 0o770)


@pytest.mark.parametrize("kind", ["symbolic", "nowhere", "hard", "pipe", "other"])
async def test_lock_file_of_another_program_is_not_truncated(tmp_path: Path, kind: str) -> None:
    data, victim, lock = tmp_path / "data", tmp_path / "victim", tmp_path / "data" / "journal.lock"
    data.mkdir()
    victim.write_text("precious")
    match kind:
        case "symbolic":
            lock.symlink_to(victim)
        case "nowhere":
            lock.symlink_to(tmp_path / "new")
        case "hard":
            victim.write_text("")
            lock.hardlink_to(victim)
        case "pipe":
            os.mkfifo(lock)
        case _:
            lock.write_text("precious")
    with pytest.raises(
        JournalError, match=r"journal\.lock (is a link|is not a regular file|belongs to another)"
    ):
        async with open_sqlite(data):
            pass
    assert victim.read_text() == ("" if kind == "hard" else "precious")
    assert kind != "other" or lock.read_text() == "precious"
    assert not (tmp_path / "new").exists()


def test_deleted_data_is_overwritten(tmp_path: Path) -> None:
    db = database.open_writer(tmp_path / "journal.db", wait_for_disk=False)
    try:
        assert db.execute("PRAGMA secure_delete").fetchone() == (1,)
    finally:
        db.close()


async def test_a_file_in_the_place_of_the_directory_is_refused(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("")
    with pytest.raises(JournalError, match="cannot open the journal"):
        async with open_sqlite(tmp_path / "data"):
            pass


async def test_errors_of_the_block_come_out_as_they_are(tmp_path: Path) -> None:
    with pytest.raises(LookupError, match="mine"):
        async with open_sqlite(tmp_path):
            raise LookupError("mine")


async def test_a_closed_journal_says_so(tmp_path: Path) -> None:
    for inline in (False, True):
        async with open_sqlite(tmp_path, inline=inline) as journal:
            pass
        with pytest.raises(JournalError, match="closed"):
            await journal.row("s")
        with pytest.raises(JournalError, match="closed"):
            await journal.deliver(NewCommand("s", "k", "message", {}, new=True))


async def test_deleting_leaves_no_row_behind(tmp_path: Path) -> None:
    async with open_sqlite(tmp_path) as journal:
        fence = await write(journal)
        await journal.keep_extract(fence, Extract(1, "1", "text"))
        await journal.delete(fence)
    db = sqlite3.connect(tmp_path / "journal.db")
    tables = [name for (name,) in db.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")]
    assert {"stream", "event", "inbox", "question", "intent", "extract"} <= set(tables)
    kept = {name for name in tables if db.execute(f"SELECT count(*) FROM {name}").fetchone() != (0,)}
    db.close()
    assert kept == {"sqlite_sequence", "tally"}


# ------------------------------------------------------------- one process at a time


async def test_second_process_is_told_the_holder_of_the_lock(tmp_path: Path) -> None:
    async with open_sqlite(tmp_path):
        for notice in ("", r" \(in the cellar\)", r" \(in the attic\)"):
            told = rf"process {os.getpid()} is using the journal in \S+{notice}$"
            with pytest.raises(JournalBusy, match=told):
                async with open_sqlite(tmp_path):
                    pass
            announce(tmp_path, "in the attic" if notice else "in the cellar")
    async with open_sqlite(tmp_path):
        pass


@pytest.mark.parametrize(
    "left", ["4711\nin the cellar", f"{os.getpid()}\nin the\ncellar", ""], ids=["dead", "living", "none"]
)
async def test_notice_of_another_process_is_not_shown(tmp_path: Path, left: str) -> None:
    (tmp_path / "journal.notice").write_text(left)
    async with open_sqlite(tmp_path):
        with pytest.raises(JournalBusy, match=r"is using the journal in \S+$"):
            async with open_sqlite(tmp_path):
                pass
    assert not (tmp_path / "journal.notice").exists()


HOLD = """
import sys, trio
from stopgo.runtime.journal.sqlite.sqlite_journal import open_sqlite
async def main():
    async with open_sqlite(sys.argv[1]):
        print("open", flush=True)
        await trio.sleep_forever()
trio.run(main)
"""


@pytest.fixture
def holder(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """Another process that keeps the journal."""
    command = [sys.executable, "-c", HOLD, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "open\n"
        yield process
        process.kill()


async def test_unlocked_directory_names_no_process(tmp_path: Path) -> None:
    for _ in range(2):
        async with open_sqlite(tmp_path):
            assert (tmp_path / "journal.lock").read_text() == str(os.getpid())
        assert (tmp_path / "journal.lock").read_text() == ""


async def test_another_process_is_kept_out_until_it_is_dead(
    tmp_path: Path, holder: subprocess.Popen[str]
) -> None:
    with pytest.raises(JournalBusy, match=f"process {holder.pid} "):
        async with open_sqlite(tmp_path):
            pass
    holder.kill()
    holder.wait()
    async with open_sqlite(tmp_path):
        pass


# ----------------------------------------------------------------------- versions


async def test_a_newer_journal_is_left_alone(tmp_path: Path) -> None:
    async with open_sqlite(tmp_path) as journal:
        await write(journal)
    db = sqlite3.connect(tmp_path / "journal.db")
    db.execute("PRAGMA user_version = 99")
    db.close()
    with pytest.raises(
        JournalTooNew, match=f"version 99, but this program reads versions up to {len(database.STEPS)}"
    ):
        async with open_sqlite(tmp_path):
            pass


async def test_a_database_of_another_program_is_left_as_it_is(tmp_path: Path) -> None:
    db = sqlite3.connect(tmp_path / "journal.db")
    db.execute("CREATE TABLE theirs (n)")
    db.close()
    before = (tmp_path / "journal.db").read_bytes()
    with pytest.raises(JournalError, match="is the database of another program"):
        async with open_sqlite(tmp_path):
            pass
    assert (tmp_path / "journal.db").read_bytes() == before


LATER = ("ALTER TABLE stream ADD COLUMN colour TEXT NOT NULL DEFAULT 'red'", "CREATE TABLE later (n)")


async def test_an_older_journal_is_brought_up_to_date(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_sqlite(tmp_path) as journal:
        await write(journal)
        row = await journal.row("s")
    monkeypatch.setattr(database, "STEPS", (*database.STEPS, LATER))
    for _ in range(2):
        async with open_sqlite(tmp_path) as journal:
            assert await journal.row("s") == row
    db = sqlite3.connect(tmp_path / "journal.db")
    assert db.execute("PRAGMA user_version").fetchone() == (len(database.STEPS),)
    assert db.execute("SELECT colour FROM stream").fetchall() == [("red",)]
    db.close()


async def test_the_first_version_is_brought_up_to_date(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    db = sqlite3.connect(tmp_path / "journal.db", isolation_level=None)
    database.migrate(db, database.STEPS[:1])
    db.execute(
        "INSERT INTO stream (name, status, title, last_seq, created, updated)"
        " VALUES ('s', 'active', '\"title\"', 1, 1.0, 1.0)"
    )
    db.close()
    async with open_sqlite(tmp_path) as journal:
        assert (await row_of(journal, "s")).summary == Summary("active", "title", open=False, body={})
        await journal.write_notes("a", {"x": {"n": 1}})
        assert await journal.notes("a") == {"x": {"n": 1}}
    monkeypatch.setattr(database, "STEPS", database.STEPS[:1])
    with pytest.raises(JournalTooNew):
        async with open_sqlite(tmp_path):
            pass


async def test_a_damaged_note_disturbs_no_other(tmp_path: Path) -> None:
    async with open_sqlite(tmp_path) as journal:
        await journal.write_notes("a", {"x": {"n": 1}, "y": {"n": 2}, "z": {"n": 3}})
    db = sqlite3.connect(tmp_path / "journal.db")
    db.execute("UPDATE note SET body = CAST(x'7bff' AS TEXT) WHERE key = '\"x\"'")
    db.execute("UPDATE note SET body = '7' WHERE key = '\"y\"'")
    db.execute("INSERT INTO note VALUES ('a', 'no JSON', '{}')")
    db.commit()
    db.close()
    async with open_sqlite(tmp_path) as journal:
        assert await journal.notes("a") == {"x": None, "y": None, "z": {"n": 3}}


async def test_a_migration_that_fails_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_sqlite(tmp_path) as journal:
        await write(journal)
    with monkeypatch.context() as patched:
        patched.setattr(database, "STEPS", (*database.STEPS, LATER, ("ALTER TABLE nobody ADD COLUMN n",)))
        with pytest.raises(JournalError, match="nobody"):
            async with open_sqlite(tmp_path):
                pass
    async with open_sqlite(tmp_path) as journal:
        assert await journal.row("s") is not None


# ------------------------------------------------------------------------- effort


@pytest.mark.parametrize(("status", "pages"), [(None, [[], [], ["s1"], []]), ("active", [[], ["s1"]])])
async def test_a_search_goes_on_from_page_to_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, status: str | None, pages: list[list[str]]
) -> None:
    monkeypatch.setattr(sql_stream, "MOST_SEARCHED", 3)
    async with open_sqlite(tmp_path) as journal:
        for number in range(9):
            await write(journal, f"s{number}", status="active" if number % 2 else "completed")
        fence = await claimed(journal, "s1")
        await journal.save(Commit(fence, 1, [], summary=Summary("active", "wanted", open=False, body={})))

        found: list[list[str]] = []
        cursor: str | None = None
        while cursor is not None or not found:
            page = await journal.list(q="WANTED", status=status, cursor=cursor)
            found.append([row.stream for row in page.rows])
            cursor = page.next_cursor

        assert found == pages


async def test_inline_uses_no_thread(tmp_path: Path) -> None:
    before = set(threading.enumerate())
    async with open_sqlite(tmp_path, inline=True) as journal:
        await write(journal)
        await journal.list(q="title")
        await journal.open_work()
        assert set(threading.enumerate()) == before


async def test_a_long_read_lets_others_run(tmp_path: Path) -> None:
    passes = 0

    async def others() -> None:
        nonlocal passes
        while True:
            await trio.lowlevel.checkpoint()
            passes += 1

    async with open_sqlite(tmp_path, inline=True) as journal:
        fence = await write(journal)
        await journal.save(Commit(fence, 1, [NewEvent("e", {"text": "x" * 1000})] * 1000))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(others)
            assert len(await journal.events_since("s", 0)) == 1001
            nursery.cancel_scope.cancel()
    assert passes >= 10


async def test_others_run_while_long_questions_are_read(tmp_path: Path) -> None:
    passes = 0

    async def others() -> None:
        nonlocal passes
        while True:
            await trio.lowlevel.checkpoint()
            passes += 1

    async with open_sqlite(tmp_path, inline=True) as journal:
        fence = await write(journal)
        asked = [NewQuestion(f"long {number}", "tool", {"text": "x" * 40_000}) for number in range(40)]
        await journal.save(Commit(fence, 1, questions=asked))
        for streams in (None, ["s"]):
            passes = 0
            async with trio.open_nursery() as nursery:
                nursery.start_soon(others)
                page = await journal.questions(streams=streams, limit=40)
                nursery.cancel_scope.cancel()
            assert [each.id for each in page.questions[1:]] == [each.id for each in asked[:39]]
            assert page.next_cursor is not None
            assert passes >= 15


async def test_slow_queries_run_in_a_thread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A page that finds enough at once needs none; looking for what is rare may take long."""
    threads: list[threading.Thread] = []

    def noted(page: Any) -> Any:
        def run(*arguments: Any) -> Any:
            threads.append(threading.current_thread())
            return page(*arguments)

        return run

    monkeypatch.setattr(sql_question, "page", noted(sql_question.page))
    monkeypatch.setattr(sql_stream, "page", noted(sql_stream.page))
    async with open_sqlite(tmp_path) as journal:
        await write(journal)
        found = [
            len((await journal.questions()).questions),
            len((await journal.questions(kind="tool")).questions),
            len((await journal.questions(kind="rare")).questions),
            len((await journal.list()).rows),
            len((await journal.list(q="title")).rows),
        ]
    assert found == [1, 1, 0, 1, 1]
    here = threading.current_thread()
    assert [thread is here for thread in threads] == [True, False, False, True, False]


def read_in_turns(file: Path, over: threading.Event, mine: threading.Event, other: threading.Event) -> None:
    """Read again and again, and end only when another has begun: somebody reads at every moment."""
    db = database.connect_reader(file)
    while not over.is_set():
        db.execute("BEGIN")
        db.execute("SELECT count(*) FROM stream").fetchone()
        other.clear()
        mine.set()
        while not (other.wait(POLL) or over.is_set()):
            pass
        db.execute("COMMIT")
    mine.set()
    db.close()


async def test_readers_that_overlap_do_not_make_the_write_ahead_log_grow(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "LONGEST", 200_000)
    longest = 0
    async with open_sqlite(tmp_path) as journal:
        fence = await write(journal)
        over, one, two = threading.Event(), threading.Event(), threading.Event()
        file = tmp_path / "journal.db"
        threads = [
            threading.Thread(target=read_in_turns, args=(file, over, *events))
            for events in ((one, two), (two, one))
        ]
        for thread in threads:
            thread.start()
        try:
            seq = 1
            for _ in range(60):
                await journal.save(Commit(fence, seq, [NewEvent("long", {"text": "x" * 50_000})]))
                seq += 1
                longest = max(longest, (tmp_path / "journal.db-wal").stat().st_size)
        finally:
            over.set()
            for thread in threads:
                thread.join()
    assert longest < 1_000_000  # of three million that were written


async def test_commits_do_not_wait_for_a_long_reader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database, "LONGEST", 500_000)
    monkeypatch.setattr(database, "BUSY_SECONDS", 0.01)
    asked: list[str] = []
    async with open_sqlite(tmp_path) as journal:
        fence = await write(journal)
        reader = database.connect_reader(tmp_path / "journal.db")
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM stream").fetchone()
        journal._writer._db.set_trace_callback(asked.append)  # type: ignore[attr-defined]
        for seq in range(1, 41):
            await journal.save(Commit(fence, seq, [NewEvent("long", {"text": "x" * 50_000})]))
        reader.close()
    assert 2 <= sum("wal_checkpoint" in each for each in asked) <= 8  # of 40 commits


async def test_a_page_ends_before_it_gets_long(tmp_path: Path) -> None:
    async with open_sqlite(tmp_path, inline=True) as journal:
        fence = await write(journal)
        await journal.save(Commit(fence, 1, [NewEvent("e", {"text": "x" * 40_000})] * 10))
        await journal.save(Commit(fence, 11, [NewEvent("e", {})] * 1000))
        db = database.connect_reader(tmp_path / "journal.db")
        id = sql_stream.find_id(db, "s")
        assert id is not None
        for after, length in ((0, 3), (3, 2), (11, 100)):
            events, more = sql_stream.page_of_events(db, id, "s", after, None)
            assert (len(events), more) == (length, True)
        db.close()


async def test_a_stream_deleted_while_it_is_read_is_not_mixed_with_its_successor(tmp_path: Path) -> None:
    async with open_sqlite(tmp_path, inline=True) as journal:
        fence = await write(journal)
        await journal.save(Commit(fence, 1, [NewEvent("old", {})] * 500))
        db = database.connect_reader(tmp_path / "journal.db")
        id = sql_stream.find_id(db, "s")
        assert id is not None
        await journal.delete(fence)
        fence = await write(journal)
        await journal.save(Commit(fence, 1, [NewEvent("new", {})] * 500))
        assert sql_stream.page_of_events(db, id, "s", 100, None) == ([], False)
        db.close()


# ------------------------------------------------------------- what the writer remembers


@pytest.mark.parametrize("inline", [False, True])
async def test_cache_forgets_rolled_back_values(tmp_path: Path, inline: bool) -> None:
    async with open_sqlite(tmp_path, inline=inline) as journal:
        with pytest.raises(UnicodeEncodeError):
            await journal.deliver(NewCommand("new", "half a pair: \ud800", "message", {}, new=True))
        assert await journal.deliver(NewCommand("new", "k", "message", {})) == NotAccepted("unknown_stream")
        names = [f"s{number}" for number in range(10)]
        fences = {name: await write(journal, name) for name in names}
        failed: list[str] = []

        async def save(name: str, intents: list[NewIntent]) -> None:
            try:
                await journal.save(Commit(fences[name], 1, [NewEvent("e", {})], intents=intents))
            except IntentExists:
                failed.append(name)

        for begun in ([NewIntent("c", 1, "once", {})], [NewIntent("c", 2, "once", {})]):
            async with trio.open_nursery() as nursery:
                for number, name in enumerate(names):
                    if begun[0].attempt == 1 or number % 2:
                        nursery.start_soon(save, name, begun if number % 2 else [])
        assert sorted(failed) == names[1::2]
        for name in names:
            row = await row_of(journal, name)
            assert row.last_seq == len(await journal.events_since(name, 0)) == 2


async def test_more_streams_than_are_remembered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sql_stream, "_HEADS", 2)
    async with open_sqlite(tmp_path, inline=True) as journal:
        names = [f"s{number}" for number in range(5)]
        fences = {name: await write(journal, name) for name in names}
        for seq in (1, 2):
            for name in names:
                await journal.save(Commit(fences[name], seq, [NewEvent("e", {})]))
        assert len(journal._streams._heads) == 2
        old, fences["s0"] = fences["s0"], await claimed(journal, "s0")
        for name in names[1:]:
            await journal.save(Commit(fences[name], 3))
        with pytest.raises(Fenced, match="another owner"):
            await journal.save(Commit(old, 3))
        await journal.save(Commit(fences["s0"], 3))


# ------------------------------------------------------------------ a broken journal


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Streams are not made, as when the disk fails."""

    def fail(*_: object) -> None:
        raise sqlite3.OperationalError("disk I/O error")

    monkeypatch.setattr(sql_stream.Streams, "create", fail)


async def deliver(journal: Journal) -> None:
    await journal.deliver(NewCommand("s", "k", "message", {}, new=True))


async def fail_and_wait(directory: Path, inline: bool) -> None:
    async with open_sqlite(directory, inline=inline) as journal:
        with pytest.raises(JournalBroken):
            await deliver(journal)
        await trio.sleep_forever()


async def fail_among_others(directory: Path, inline: bool) -> None:
    async with open_sqlite(directory, inline=inline) as journal:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.sleep_forever)
            nursery.start_soon(deliver, journal)


@pytest.mark.parametrize("block", [fail_and_wait, fail_among_others])
@pytest.mark.parametrize("inline", [False, True])
@pytest.mark.usefixtures("failing")
async def test_a_broken_journal_ends_the_block_and_says_why(tmp_path: Path, block: Any, inline: bool) -> None:
    with pytest.raises(JournalBroken, match="disk I/O error") as caught:
        await block(tmp_path, inline)
    assert isinstance(caught.value.__cause__, sqlite3.OperationalError)


def another(file: Path) -> None:
    """As an editor or a restored copy does: a file of the same content takes its place."""
    copy = file.with_name("copy")
    copy.write_bytes(file.read_bytes())
    copy.rename(file)


@pytest.mark.parametrize(
    ("what", "told"),
    [
        (lambda data: shutil.rmtree(data), r"journal\.db was removed while the journal was open"),
        (
            lambda data: data.rename(data.with_name("moved")),
            r"journal\.db was removed while the journal was open",
        ),
        (lambda data: another(data / "journal.db"), r"journal\.db was replaced"),
        (
            lambda data: (data / "journal.lock").unlink(),
            r"journal\.lock was removed while the journal was open",
        ),
        (
            lambda data: (data / "journal.db-wal").unlink(),
            r"journal\.db-wal was removed while the journal was open",
        ),
        (lambda data: another(data / "journal.db-wal"), r"journal\.db-wal was replaced"),
        (
            lambda data: (data / "journal.db-shm").unlink(),
            r"journal\.db-shm was removed while the journal was open",
        ),
        (lambda data: another(data / "journal.lock"), r"journal\.lock was replaced"),
    ],
)
@pytest.mark.parametrize("inline", [False, True])
async def test_writes_stop_after_files_are_removed_or_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: Any, told: str, inline: bool
) -> None:
    monkeypatch.setattr(files, "CHECK_EVERY", 0.0)

    async def use(data: Path) -> None:
        async with open_sqlite(data, inline=inline) as journal:
            await write(journal)
            what(data)
            with pytest.raises(JournalBroken, match=told):
                await deliver(journal)

    with pytest.raises(JournalBroken, match=told):
        await use(tmp_path / "data")


@pytest.mark.parametrize("name", ["wal", "shm"])
async def test_removed_file_is_noticed_without_a_write_or_a_loss(tmp_path: Path, name: str) -> None:
    """Nearly all that was answered is in the log; the process still has it open, and saves it as it ends."""

    async def use() -> None:
        async with open_sqlite(tmp_path) as journal:
            fence = await write(journal)
            (tmp_path / f"journal.db-{name}").unlink()
            await journal.save(Commit(fence, 1, [NewEvent("late", {})]))
            await trio.sleep_forever()

    with pytest.raises(JournalBroken, match=rf"journal\.db-{name} was removed"):
        await use()
    async with open_sqlite(tmp_path) as journal:
        assert [event.type for event in await journal.events_since("s", 0)][1:] == ["late"]


async def test_its_files_are_looked_at_now_and_then(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not for each write, which would cost a turn something; those of other programs do not matter."""
    now = 0.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    file = tmp_path / "file"
    file.touch()
    there = files.Presence(file)
    file.unlink()
    now = files.CHECK_EVERY / 2
    there.check()
    now = files.CHECK_EVERY
    with pytest.raises(OSError, match="was removed while the journal was open: No such file"):
        there.check()


# --------------------------------------------------------------------- many rows


def effort(db: sqlite3.Connection, query: Any) -> int:
    """How many steps of SQLite's machine a query takes, in tens."""
    steps = 0

    def count() -> int:
        nonlocal steps
        steps += 1
        return 0

    db.set_progress_handler(count, 10)
    query(db)
    db.set_progress_handler(None, 0)
    return steps


async def test_no_page_costs_more_when_more_is_stored(tmp_path: Path) -> None:
    queries = {
        "streams": lambda db: sql_stream.page(db, None, None, 20, None),
        "streams, deep": lambda db: sql_stream.page(db, None, None, 20, 60),
        "streams by status": lambda db: sql_stream.page(db, "rare", None, 20, None),
        "streams by status, deep": lambda db: sql_stream.page(db, "active", None, 20, 60),
        "streams of an owner": lambda db: sql_stream.page(db, None, None, 20, None, Among("ann")),
        "streams of an owner, deep": lambda db: sql_stream.page(db, None, None, 5, 60, Among("ann")),
        "streams of an owner by status": lambda db: sql_stream.page(
            db, "active", None, 20, None, Among("bob", ("s1", "s140"))
        ),
        "streams by name": lambda db: sql_stream.page(db, None, None, 2, None, Among("", ("s1", "s140"))),
        "questions": lambda db: sql_question.page(db, "pending", None, None, 20, 0),
        "questions, deep": lambda db: sql_question.page(db, "pending", None, None, 20, 60),
        "questions in every state": lambda db: sql_question.page(db, None, None, None, 20, 0),
        "questions of streams": lambda db: sql_question.page(db, "pending", None, ["s1", "s2"], 20, 0),
        "questions of streams in every state": lambda db: sql_question.page(db, None, None, ["s1"], 20, 0),
        "due": lambda db: sql_question.due(db, 0.5, None),
        "due, many": lambda db: sql_question.due(db, 5.0, None),
        "open work": sql_stream.open_work,
    }
    async with open_sqlite(tmp_path, inline=True) as journal:

        async def fill(numbers: range) -> None:
            for number in numbers:
                status = "active" if number > 25 else "rare"
                owner = "bob" if number == 30 else ("ann", "")[number % 2]
                fence = await write(journal, f"s{number}", status=status, owner=owner)
                await journal.save(Commit(fence, 1, ack=["k"]))

        def measure() -> dict[str, int]:
            db = database.connect_reader(tmp_path / "journal.db")
            costs = {name: effort(db, query) for name, query in queries.items()}
            db.close()
            return costs

        await fill(range(150))
        few = measure()
        await fill(range(150, 600))
        many = measure()
    assert {name for name in queries if many[name] > few[name] * 1.3 + 2} == set()
