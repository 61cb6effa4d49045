"""What was acknowledged survives a power cut, a sync that fails and a disk that is full."""

from __future__ import annotations

import contextlib
import importlib.util
import itertools
import random
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trio

from stopgo.runtime.journal.errors import JournalBroken
from stopgo.runtime.journal.protocol import Commit, Journal, NewCommand, NewEvent
from stopgo.runtime.journal.question import NewQuestion, Won
from stopgo.runtime.journal.sqlite import database
from stopgo.runtime.journal.sqlite.sqlite_journal import open_sqlite
from stopgo.runtime.journal.summary import Summary
from tests.runtime.journal.kept import claimed, question_of, row_of

pytestmark = pytest.mark.crash


def load(name: str) -> Any:
    spec = importlib.util.spec_from_file_location(name, Path(__file__).with_name(f"{name}.py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


names = itertools.count()


@pytest.fixture
def new_disk(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], Any]]:
    """Puts a fresh faulty disk under every connection opened from then on."""
    faulty_disk = load("faulty_disk")
    layers = contextlib.ExitStack()

    def new_disk() -> Any:
        name = f"faulty-{next(names)}"
        disk = faulty_disk.Disk()
        layer = faulty_disk.FaultyVFS(name, disk)
        layers.callback(layer.unregister)
        monkeypatch.setattr(database, "_connect", lambda uri, cache: faulty_disk.Connection(uri, name))
        return disk

    yield new_disk
    monkeypatch.undo()
    layers.close()


class Load:
    """Writers that remember what they were told."""

    def __init__(self, choose: random.Random) -> None:
        self.told: dict[str, int] = {}
        self.decided: set[str] = set()
        self.saves = 0
        self.choose = choose

    async def run(self, journal: Journal, saves: int) -> None:
        """Return after so many saves of all writers, with some in flight."""
        async with trio.open_nursery() as nursery:
            for number in range(8):
                nursery.start_soon(self._write, journal, f"s{number}", saves, nursery.cancel_scope)

    async def _write(self, journal: Journal, stream: str, enough: int, scope: trio.CancelScope) -> None:
        await journal.deliver(NewCommand(stream, "k", "message", {}, new=True))
        fence = await claimed(journal, stream)
        row = await row_of(journal, stream)
        seq = row.last_seq
        while self.saves < enough:
            body = {"text": "x" * self.choose.randrange(10, 2000)}
            question = f"{stream}/{seq}"
            await journal.save(
                Commit(
                    fence,
                    seq,
                    [NewEvent("e", body)] * 2,
                    questions=[NewQuestion(question, "tool", {})],
                    summary=Summary(f"at {seq % 3}", stream, open=True, body=body),
                )
            )
            seq += 2
            self.told[stream] = seq
            self.saves += 1
            if isinstance(await journal.decide(question, {"yes": 1}, question), Won):
                self.decided.add(question)
        scope.cancel()

    async def assert_all_there(self, directory: Path) -> None:
        async with open_sqlite(directory) as journal:
            for stream, seq in self.told.items():
                row = await row_of(journal, stream)
                assert row.last_seq >= seq
                assert row.last_seq % 2 == 0, "half a save"
                events = await journal.events_since(stream, 0)
                assert [each.seq for each in events] == list(range(1, row.last_seq + 1))
            for id in self.decided:
                question = await question_of(journal, id)
                assert question.state == "decided"
                assert id in {each.key for each in await journal.inbox(question.stream)}
            page = await journal.list()
            statuses = [row.summary.status for row in page.rows if row.summary is not None]
            assert dict(page.tally) == {status: statuses.count(status) for status in set(statuses)}


REAL_CONNECT = database._connect


def restart(monkeypatch: pytest.MonkeyPatch, load: Load, found: Path) -> None:
    """Open what a power cut left on an ordinary disk."""
    with monkeypatch.context() as patched:
        patched.setattr(database, "_connect", REAL_CONNECT)
        trio.run(load.assert_all_there, found)


async def cut_power_after(saves: int, load: Load, disk: Any, data: Path, found: Path) -> None:
    async with open_sqlite(data) as journal:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(load.run, journal, 10**6)
            while load.saves < saves:
                await trio.lowlevel.checkpoint()
            # In the middle of whatever is going on: told and found are of one moment.
            disk.cut_power(found, load.choose)
            told, decided = dict(load.told), set(load.decided)
            nursery.cancel_scope.cancel()
    load.told, load.decided = told, decided


def test_power_cuts(tmp_path: Path, new_disk: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    saves = 0
    for seed in range(60):
        choose = random.Random(seed)
        load, found = Load(choose), tmp_path / f"found{seed}"
        trio.run(cut_power_after, choose.randrange(1, 300), load, new_disk(), tmp_path / f"data{seed}", found)
        restart(monkeypatch, load, found)
        saves += sum(load.told.values()) // 2
    assert saves > 500


async def fails(load: Load, disk: Any, data: Path, *, sync: int | None, room: int | None) -> bool:
    """Did the journal stop, when this sync failed or there was this much room?"""
    try:
        async with open_sqlite(data) as journal:
            disk.room = room
            disk.fail_at_sync = sync and disk.syncs + sync
            await load.run(journal, 200)
    except JournalBroken:
        return True
    finally:
        disk.fail_at_sync = disk.room = None
    return False


@pytest.mark.parametrize("fault", ["sync", "full"])
def test_a_write_that_fails_stops_the_journal(
    tmp_path: Path, new_disk: Any, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    stopped = 0
    for number in range(1, 41):
        load, disk = Load(random.Random(number)), new_disk()
        sync, room = (number, None) if fault == "sync" else (None, number * 7000)
        stopped += trio.run(partial(fails, load, disk, tmp_path / f"data{number}", sync=sync, room=room))
        found = tmp_path / f"found{number}"
        disk.cut_power(found, load.choose)
        restart(monkeypatch, load, found)
    # A sync that fails while the log is moved into the file loses nothing and stops nobody.
    assert stopped >= (25 if fault == "sync" else 40)
