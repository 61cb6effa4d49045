"""Saves as fast as it can and writes down what was acknowledged; run by the tests to be killed.

    crash_child.py DIRECTORY [BYTES]

Its output has a line for every save that was acknowledged: the stream and its last seq. With BYTES,
no file may grow by more than that many: the disk is full at some point.
"""

from __future__ import annotations

import os
import resource
import sys
from pathlib import Path

import trio

from stopgo.runtime.journal.errors import JournalBroken
from stopgo.runtime.journal.ownership import Fence
from stopgo.runtime.journal.protocol import Commit, Journal, NewCommand, NewEvent
from stopgo.runtime.journal.sqlite.sqlite_journal import open_sqlite

STREAMS = 20


async def save_for_ever(journal: Journal, stream: str) -> None:
    await journal.deliver(NewCommand(stream, "k", "message", {}, new=True))
    fence = await journal.claim(stream)
    assert isinstance(fence, Fence)
    row = await journal.row(stream)
    assert row is not None
    seq = row.last_seq
    while True:
        await journal.save(Commit(fence, seq, [NewEvent("e", {"text": "x" * 500})] * 2))
        seq += 2
        os.write(sys.stdout.fileno(), f"{stream} {seq}\n".encode())


async def delete_for_ever(journal: Journal) -> None:
    """Leaves more free pages than are kept."""
    while True:
        await journal.deliver(NewCommand("deleted", "k", "message", {}, new=True))
        fence = await journal.claim("deleted")
        assert isinstance(fence, Fence)
        row = await journal.row("deleted")
        if row is not None and row.last_seq == 0:
            await journal.save(Commit(fence, 0, [NewEvent("e", {"text": "x" * 1_200_000})]))
        await journal.delete(fence)


async def main(directory: Path, limit: int | None) -> None:
    try:
        async with open_sqlite(directory) as journal:
            if limit is not None:
                size = (directory / "journal.db-wal").stat().st_size
                _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
                resource.setrlimit(resource.RLIMIT_FSIZE, (size + limit, hard))
            async with trio.open_nursery() as nursery:
                if limit is None:
                    nursery.start_soon(delete_for_ever, journal)
                for number in range(STREAMS):
                    nursery.start_soon(save_for_ever, journal, f"s{number}")
    except JournalBroken as broken:
        print(f"broken: {broken}")
        sys.exit(7)


if __name__ == "__main__":
    trio.run(main, Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else None)
