"""What was acknowledged is there after the process is killed, the disk fills, or a write fails."""

from __future__ import annotations

import random
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import trio

from stopgo.runtime.journal.sqlite import open_sqlite

CHILD = Path(__file__).with_name("crash_child.py")


def acknowledged(file: Path) -> dict[str, int]:
    """The last seq of every stream that its writer was told of."""
    told: dict[str, int] = {}
    for line in file.read_text().splitlines(keepends=True):
        if line.endswith("\n"):
            stream, seq = line.split()
            told[stream] = max(told.get(stream, 0), int(seq))
    return told


async def assert_all_there(directory: Path, told: dict[str, int]) -> None:
    db = sqlite3.connect(directory / "journal.db")
    assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    assert db.execute("PRAGMA foreign_key_check").fetchall() == []
    db.close()
    async with open_sqlite(directory) as journal:
        for stream, seq in told.items():
            row = await journal.row(stream)
            assert row is not None
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


def kill_while_it_saves(directory: Path, told: Path, pause: float) -> None:
    size = told.stat().st_size if told.exists() else 0
    with child(directory, told) as process:
        deadline = time.monotonic() + 30
        while not told.exists() or told.stat().st_size == size:
            assert process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.005)
        time.sleep(pause)
        process.kill()
        assert process.wait() == -9


def rounds(number: int, tmp_path: Path) -> None:
    """Kill one process after another on the same directory."""
    choose = random.Random(number)
    told = tmp_path / "told"
    for _ in range(number):
        kill_while_it_saves(tmp_path / "data", told, choose.uniform(0.0, 0.15))
        trio.run(assert_all_there, tmp_path / "data", acknowledged(told))
    assert len(acknowledged(told)) == 20


def test_killed_while_saving(tmp_path: Path) -> None:
    rounds(3, tmp_path)


@pytest.mark.crash
def test_killed_while_saving_many_times(tmp_path: Path) -> None:
    rounds(40, tmp_path)


@pytest.mark.parametrize("room", [0, 100_000, 1_000_000])
def test_a_commit_that_fails_stops_the_block(tmp_path: Path, room: int) -> None:
    told = tmp_path / "told"
    with child(tmp_path / "data", told, room) as process:
        output, _ = process.communicate(timeout=60)
    assert output == "broken: a commit failed, what is on disk is not known: disk I/O error\n"
    assert process.returncode == 7
    assert bool(told.read_text()) == bool(room)
    trio.run(assert_all_there, tmp_path / "data", acknowledged(told))
