"""Copies of a journal between the stores."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from stopgo.runtime.journal.copied_rows import CopiedRow
from stopgo.runtime.journal.errors import JournalBusy, JournalError
from stopgo.runtime.journal.protocol import Commit, Journal, NewCommand, NewEvent, NewIntent
from stopgo.runtime.journal.question import CloseQuestion, NewQuestion
from stopgo.runtime.journal.sqlite.sqlite_journal import open_sqlite
from stopgo.runtime.journal.sqlite.whole_file import DirectoryRows
from stopgo.runtime.journal.summary import Summary
from stopgo.runtime.stores import transfer
from stopgo.runtime.stores.open_journal import open_journal
from stopgo.runtime.stores.transfer import Copied, copy_journal
from tests.fleet.cluster import url_of
from tests.postgres_server import PostgresServer
from tests.runtime.journal.kept import claimed, intents_of, reply_of

ODD = {"text": "a\0b\x01\ud800 \U0001f600", "n": 10**30, "f": 0.1}
"""Values that PostgreSQL stores in another form, or not at all."""


async def fill(journal: Journal) -> None:
    for name in ("s", "t", "u"):
        await journal.deliver(NewCommand(name, "k1", "message", ODD, new=True))
        await journal.deliver(NewCommand(name, "k2", "message", {"n": 2}))
        fence = await claimed(journal, name)
        await journal.save(
            Commit(
                fence,
                0,
                [NewEvent("a", ODD), NewEvent("b", {}, at=5.0)],
                intents=[NewIntent("z", 1, "once", {}), NewIntent("Y", 1, "read", ODD)],
                questions=[NewQuestion(f"{name}{each}", "tool", ODD, 1e9 + each) for each in range(3)],
                ack=["k1"],
                replies={"k1": ODD},
                refuse={},
                summary=Summary(
                    "waiting", f"title {name}", open=True, body=ODD, owner="ann" if name == "t" else ""
                ),
            )
        )
        await journal.decide(f"{name}0", {"approved": True}, "d")
        await journal.save(
            Commit(fence, 2, questions=[CloseQuestion(f"{name}1", "void", {"void_reason": "x"})])
        )
        await journal.release(fence, leave=["k2", "d"])
    await journal.deliver(NewCommand("empty", "k", "message", {}, new=True))
    await journal.write_notes("kind", {"x": ODD, "y": {}}, outbox=[{"n": 1}, {"n": 2}])


async def contents(journal: Journal) -> list[Any]:
    found: list[Any] = [await journal.list(), await journal.list(status="waiting"), await journal.census()]
    for name in ("s", "t", "u", "empty"):
        found += [await journal.row(name), await journal.events_since(name, 0), await journal.inbox(name)]
        found.append(sorted(await intents_of(journal, name), key=lambda each: each.key))
        found.append(await reply_of(journal, name, "k1"))
    found += [await journal.questions(state=None), await journal.due(), await journal.open_work()]
    return [*found, await journal.notes("kind"), await journal.decided(10)]


@pytest.fixture
def url(postgres_server: PostgresServer) -> Any:
    with postgres_server.empty_schema() as dsn:
        yield url_of(dsn)


async def read(address: Path | str) -> list[Any]:
    async with open_journal(address) as journal:
        return await contents(journal)


async def test_copies_between_directories(tmp_path: Path) -> None:
    async with open_sqlite(tmp_path / "a") as journal:
        await fill(journal)
        before = await contents(journal)
        with pytest.raises(JournalBusy):
            copy_journal(tmp_path / "a", tmp_path / "b")
    assert copy_journal(tmp_path / "a", tmp_path / "b") == Copied(4, 6, 2)
    assert await read(tmp_path / "b") == before
    with pytest.raises(JournalError, match="already has"):
        copy_journal(tmp_path / "a", tmp_path / "b")
    with pytest.raises(JournalError, match="has no journal"):
        copy_journal(tmp_path / "none", tmp_path / "c")


async def test_directory_has_the_version_that_it_is_opened_with(tmp_path: Path) -> None:
    """So a member may own what a member of that version has written, wherever that was."""
    async with open_sqlite(tmp_path / "a", version=7) as journal:
        await fill(journal)
    copy_journal(tmp_path / "a", tmp_path / "b")
    async with open_journal(tmp_path / "b", version=7) as journal:
        await claimed(journal, "s")
        assert await journal.need_newer() == 0
    async with open_journal(tmp_path / "b") as journal:
        assert await journal.need_newer() == 3


@pytest.mark.postgres
async def test_copies_to_a_database_and_back(tmp_path: Path, url: str) -> None:
    async with open_sqlite(tmp_path / "a") as journal:
        await fill(journal)
        before = await contents(journal)
    assert copy_journal(tmp_path / "a", url) == Copied(4, 6, 2)
    async with open_journal(url) as database:
        assert await contents(database) == before
        await database.renew()
        with pytest.raises(JournalError, match="stop them first"):
            copy_journal(url, tmp_path / "b")
        assert (await database.note_revisions())["kind"] > 0
        fence = await claimed(database, "s")
        await database.save(Commit(fence, 2, [NewEvent("c", {})]))
        await database.deliver(
            NewCommand("new", "k", "message", {}, new=True)
        )  # the numbers of the copy are taken
        await database.leave()
    assert copy_journal(url, tmp_path / "b") == Copied(5, 7, 2)
    async with open_sqlite(tmp_path / "b") as journal:
        assert len(await journal.events_since("s", 0)) == 3
        assert await journal.questions(state=None) == before[-5]


def sizes(folder: Path) -> dict[Path, int]:
    return {path: path.stat().st_size for path in folder.rglob("*")}


class Interrupted(BaseException):
    pass


@pytest.mark.parametrize("existing", [None, "keys.json", "journal.db"])
@pytest.mark.parametrize("step", ["copying", "comparing", "last"])
async def test_interrupted_copy_removes_what_it_wrote(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str, existing: str | None
) -> None:
    monkeypatch.setattr(transfer, "_TELL_EVERY", 1)

    def stop(now: str = "last", *_: int) -> None:
        if now == step:
            raise Interrupted

    async with open_sqlite(tmp_path / "a") as journal:
        await fill(journal)
    target = tmp_path / "new" / "b"
    if existing == "journal.db":
        async with open_sqlite(target):
            pass
    elif existing is not None:
        target.mkdir(parents=True)
        (target / existing).write_text("")
    before = sizes(tmp_path)
    with pytest.raises(Interrupted):
        copy_journal(tmp_path / "a", target, tell=stop, last=stop)
    assert sizes(tmp_path) == before
    assert copy_journal(tmp_path / "a", target) == Copied(4, 6, 2)
    assert await read(target) == await read(tmp_path / "a")


@pytest.mark.parametrize("wrong", ["left out", "changed", "added"])
async def test_copy_that_differs_is_not_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wrong: str
) -> None:
    async with open_sqlite(tmp_path / "a") as journal:
        await fill(journal)
    write = DirectoryRows.write

    def write_wrong(self: DirectoryRows, table: str, rows: Iterable[CopiedRow]) -> None:
        first, *others = rows
        if table == "intent":
            match wrong:
                case "changed":
                    others.append((*first[:-1], first[-1] + " "))
                case "added":
                    others += [first, (*first[:2], 99, *first[3:])]
        else:
            others.append(first)
        write(self, table, others)

    monkeypatch.setattr(DirectoryRows, "write", write_wrong)
    with pytest.raises(JournalError, match="differs in the table 'intent'"):
        copy_journal(tmp_path / "a", tmp_path / "b")
    assert not (tmp_path / "b").exists()


async def test_notes_that_are_left_out_and_added(tmp_path: Path) -> None:
    async with open_sqlite(tmp_path / "a") as journal:
        await fill(journal)
        await journal.write_notes("other", {"z": {"n": 1}})
    notes = [("third", '"w"', '{"n": 2}')]
    assert copy_journal(tmp_path / "a", tmp_path / "b", without=["kind"], notes=notes) == Copied(4, 6, 2)
    async with open_sqlite(tmp_path / "b") as journal:
        assert await journal.notes("kind") == {}
        assert await journal.notes("other") == {"z": {"n": 1}}
        assert await journal.notes("third") == {"w": {"n": 2}}


async def test_damaged_rows_are_not_copied(tmp_path: Path) -> None:
    async with open_sqlite(tmp_path / "a") as journal:
        await fill(journal)
    import sqlite3

    with sqlite3.connect(tmp_path / "a" / "journal.db") as db:
        db.execute("UPDATE event SET body = CAST(x'ff' AS TEXT) WHERE seq = 2")
    db.close()
    with pytest.raises(JournalError, match="s: a row is damaged"):
        copy_journal(tmp_path / "a", tmp_path / "b")
    assert not (tmp_path / "b").exists()
