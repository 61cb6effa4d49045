"""What durable saves cost, alone and together.

How much is gained by sharing commits depends on how long a disk takes to flush: some milliseconds
where data reach the medium, 0.1 ms where a cache with a battery takes them. So it is measured on the
disk as it is, and on one slowed down to 4 ms.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

import pytest
import trio

from stopgo.runtime.journal.protocol import Commit, Journal, NewCommand, NewEvent
from stopgo.runtime.journal.sqlite.sqlite_journal import SqliteJournal, open_sqlite
from stopgo.runtime.journal.sqlite.writer import GroupWriter
from stopgo.runtime.journal.summary import Summary
from tests.runtime.journal.kept import claimed

pytestmark = pytest.mark.bench

SECONDS = 0.6
ROUNDS = 5
FLUSH_SECONDS = 0.004
TARGET = 10.0
"""Saves together over saves alone, on every disk."""
BOUND = 4.0
"""Holds where a flush takes 0.1 ms and other programs use the processor; an idle slow machine has 6."""
SLOW_DISK_BOUND = 12.0
SHARED_BOUND = 18
"""Saves of a commit: as many as become ready in the time of a flush, so fewer on a slow machine."""
BODY = {"role": "assistant", "content": "x" * 700}


class Commits:
    """Counts the commits of a journal, and lets each take as long as a slower disk would.

    It stands where the thread that commits reports to the event loop: the saves themselves are as they were.
    """

    def __init__(self, journal: SqliteJournal, flush: float, scratch: Path) -> None:
        self.count = 0
        self._flush = flush
        self._scratch = scratch.open("wb", buffering=0)
        assert isinstance(journal._writer, GroupWriter)
        self._token = journal._writer._trio
        journal._writer._trio = self  # type: ignore[assignment]

    def run_sync_soon(self, settle: Callable[..., object], *arguments: object) -> None:
        self.count += 1
        until = time.perf_counter() + self._flush
        while time.perf_counter() < until:
            self._scratch.write(bytes(4096))
            os.fdatasync(self._scratch)
        self._token.run_sync_soon(settle, *arguments)

    def close(self) -> None:
        self._scratch.close()


async def saves_per_second(journal: Journal, conversations: int, prefix: str) -> float:
    """Every conversation saves one event after the other, each when the one before is on disk."""
    saves = 0
    end = trio.current_time() + SECONDS

    async def converse(stream: str) -> None:
        nonlocal saves
        await journal.deliver(NewCommand(stream, "k", "message", {}, new=True))
        fence = await claimed(journal, stream)
        seq = 0
        while trio.current_time() < end:
            event = NewEvent("message.added", BODY)
            await journal.save(
                Commit(fence, seq, [event], summary=Summary("active", "t", open=True, body={}))
            )
            seq += 1
            saves += 1

    started = time.perf_counter()
    async with trio.open_nursery() as nursery:
        for number in range(conversations):
            nursery.start_soon(converse, f"{prefix}{number}")
    return saves / (time.perf_counter() - started)


@pytest.mark.parametrize("flush", [0.0, FLUSH_SECONDS], ids=["disk as it is", "slow disk"])
async def test_saves_together(tmp_path: Path, flush: float) -> None:
    alone: list[float] = []
    together: list[float] = []
    shared: list[float] = []
    cpu: list[float] = []
    async with open_sqlite(tmp_path) as journal:
        commits = Commits(journal, flush, tmp_path / "scratch")
        for turn in range(ROUNDS):
            alone.append(await saves_per_second(journal, 1, f"one{turn}-"))
            before, used = commits.count, time.process_time()
            together.append(await saves_per_second(journal, 100, f"many{turn}-"))
            saves = together[-1] * SECONDS
            shared.append(saves / (commits.count - before))
            cpu.append((time.process_time() - used) / saves)
        commits.close()
    # Round by round: what else the machine and its disk do slows down both sides of a ratio.
    ratio = median(many / one for many, one in zip(together, alone, strict=True))
    figures = {
        "bench": "durable saves",
        "added_flush_ms": flush * 1000,
        "per_second_alone": short(median(alone)),
        "per_second_at_100": short(median(together)),
        "ratio": short(ratio),
        "target": TARGET,
        "saves_per_commit": short(median(shared)),
        "cpu_us_per_save": short(median(cpu) * 1e6),
    }
    print(json.dumps(figures))
    assert median(shared) >= SHARED_BOUND
    assert ratio >= (SLOW_DISK_BOUND if flush else BOUND)


def short(value: float) -> float:
    return float(f"{value:.3g}")
