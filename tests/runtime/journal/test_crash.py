"""What was acknowledged is there after the process is killed, the disk fills, or a write fails."""

from __future__ import annotations

import itertools
import random
import sqlite3
import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import trio

from stopgo.runtime.journal.sqlite.sqlite_journal import open_sqlite
from tests.runtime.journal.kept import row_of

CHILD = Path(__file__).with_name("crash_child.py")


def acknowledged(lines: Iterable[str]) -> dict[str, int]:
    """The last seq of every stream that its writer was told of."""
    told: dict[str, int] = {}
    for line in lines:
        if line.endswith("\n"):
            stream, seq = line.split()
            told[stream] = int(seq)
    return told


async def assert_all_there(directory: Path, told: dict[str, int]) -> None:
    db = sqlite3.connect(directory / "journal.db")
    assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    assert db.execute("PRAGMA foreign_key_check").fetchall() == []
    db.close()
    async with open_sqlite(directory) as journal:
        for stream, seq in told.items():
            row = await row_of(journal, stream)
            assert row.last_seq >= seq, f"{stream}: an acknowledged save is gone"
            events = await journal.events_since(stream, 0)
            assert [each.seq for each in events] == list(range(1, row.last_seq + 1))
            assert row.last_seq % 2 == 0, "half a save"
        page = await journal.list(limit=1000)
        assert sum(page.tally.values()) == len(page.rows)


@contextmanager
def child(*arguments: object) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, str(CHILD), *map(str, arguments)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def kill_while_it_saves(directory: Path, after: int) -> dict[str, int]:
    """Kill the writer after so many acknowledged saves; return all that were."""
    with child(directory) as process:
        assert process.stdout is not None
        lines = list(itertools.islice(process.stdout, after))
        process.kill()
        lines += process.stdout
        assert process.wait() == -9
    return acknowledged(lines)


def rounds(number: int, directory: Path) -> None:
    """Kill one process after another on the same directory."""
    choose = random.Random(number)
    told: dict[str, int] = {}
    for _ in range(number):
        told |= kill_while_it_saves(directory, choose.randrange(1, 1500))
        trio.run(assert_all_there, directory, told)
    assert len(told) == 20


def test_killed_while_saving(tmp_path: Path) -> None:
    rounds(3, tmp_path / "data")


@pytest.mark.crash
def test_killed_while_saving_many_times(tmp_path: Path) -> None:
    rounds(40, tmp_path / "data")


@pytest.mark.parametrize("room", [0, 200_000, 1_000_000])
def test_a_commit_that_fails_stops_the_block(tmp_path: Path, room: int) -> None:
    with child(tmp_path / "data", room) as process:
        output, _ = process.communicate()
    *lines, last = output.splitlines(keepends=True)
    assert last == "broken: commit failed, state on disk unknown: disk I/O error\n"
    assert process.returncode == 7
    assert bool(lines) == bool(room)
    trio.run(assert_all_there, tmp_path / "data", acknowledged(lines))
