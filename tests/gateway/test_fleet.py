"""The processes of an agent: `/fleet` and `stopgo fleet`."""

from __future__ import annotations

import math
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from stopgo.gateway.cli.commands.fleet_command import lines_of
from stopgo.gateway.fleet.fleet_key import FleetKey
from stopgo.runtime.journal.followed_notes import FollowedNotes
from stopgo.runtime.journal.memory.memory_journal import MemoryJournal
from stopgo.runtime.journal.protocol import Journal, NewCommand
from stopgo.runtime.stores.open_journal import open_journal
from tests.actors.world import World
from tests.gateway.conftest import InProcess


async def test_processes_of_a_journal(serve: Any, tmp_path: Path, autojump_clock: MockClock) -> None:
    journal = MemoryJournal(lease=10.0, member="a")
    other = journal.another("b")
    await other.renew()
    await other.deliver(NewCommand("of-b", "k", "message", {}, new=True))
    await other.claim("of-b")
    await other.deliver(NewCommand("of-none", "k", "unknown", {}, new=True))
    async with World(tmp_path, journal).agent() as agent, serve(agent) as (_, client):
        fleet = (await client.get("/fleet")).json()
    this, that = fleet["nodes"]
    assert (fleet["store"], this["name"], this["is_this"], this["pid"]) == ("memory", "a", True, os.getpid())
    assert (that["name"], that["is_this"], that["conversations"], that["open"]) == ("b", False, 1, 1)
    assert 0 < that["lease_seconds"] <= 10
    assert "host" not in that


async def test_a_data_directory_has_one_process(
    serve: Any, tmp_path: Path, autojump_clock: MockClock
) -> None:
    autojump_clock.autojump_threshold = math.inf  # SQLite works in threads
    async with open_journal(tmp_path / "data") as journal, World(tmp_path, journal).agent() as agent:
        async with serve(agent) as (_, client):
            fleet = (await client.get("/fleet")).json()
    [member] = fleet["nodes"]
    assert fleet["store"].startswith("SQLite 3.")
    assert "lease_seconds" not in member


def test_lines_of_a_fleet() -> None:
    member = {"name": "37eff7b4d867", "is_this": False, "conversations": 12, "open": 3}
    fleet = {
        "store": "PostgreSQL 15.8",
        "round_trip_ms": 0.8,
        "synchronous_standbys": "ANY 1 (a, b)",
        "unowned": 2,
        "need_newer": 3,
        "nodes": [{**member, "host": "h", "pid": 7, "version": "0.1.0", "lease_seconds": 0}, member],
    }
    assert list(lines_of(fleet)) == [
        "journal: PostgreSQL 15.8, answers in 0.8 ms, synchronous standbys: ANY 1 (a, b)",
        "conversations with something to do, and no process yet: 2",
        "conversations that need a newer version of the agent: 3",
        "NODE          PROCESS                 VERSION       LEASE  CONVERSATIONS  OPEN",
        "37eff7b4d867  h:7                     0.1.0         ended             12     3",
        "37eff7b4d867  -                       -                 -             12     3",
    ]


def test_key_of_a_fleet_is_rotated(in_process: InProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    journal, opened = MemoryJournal(), list[str]()

    def with_journal(address: str, operation: Callable[[Journal], Awaitable[None]]) -> None:
        opened.append(address)
        trio.run(operation, journal)

    async def key() -> str:
        await FleetKey.open(FollowedNotes(journal))
        return str(((await journal.notes("fleet"))["fleet"] or {})["key"])

    monkeypatch.setattr("stopgo.gateway.cli.commands.with_journal.with_journal", with_journal)
    before = trio.run(key)
    done = in_process("fleet", "rotate-key", "--journal", "postgresql://db.example/agent")
    assert (done.returncode, done.stdout, opened) == (
        0,
        "the fleet has a new key\n",
        ["postgresql://db.example/agent"],
    )
    after = trio.run(key)
    assert after != before
    assert len(after) == len(before) == 64
    assert after not in done.stdout + done.stderr
    monkeypatch.delenv("STOPGO_JOURNAL", raising=False)
    done = in_process("fleet", "rotate-key")
    assert done.returncode == 2
    assert "--journal or $STOPGO_JOURNAL must name the database" in done.stderr
