from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import cast

import attrs
import pytest

from stopgo.runtime.journal.local_member import LocalMember
from stopgo.runtime.journal.memory.memory_journal import MemoryJournal
from stopgo.runtime.journal.ownership import Fence
from stopgo.runtime.journal.postgres.journal import PostgresJournal, open_postgres
from stopgo.runtime.journal.protocol import Commit, Journal, Json, NewCommand, NewEvent
from stopgo.runtime.journal.sqlite.sqlite_journal import open_sqlite
from stopgo.runtime.journal.summary import Summary
from tests.postgres_server import Database
from tests.runtime.journal.kept import claimed


@attrs.define
class Wall:
    """A wall clock that is set by hand."""

    now: float = 1_000.0

    def __call__(self) -> float:
        return self.now


class DatabaseWall(Wall):
    """The clock of a database."""

    def __init__(self, database: Database) -> None:
        self._database = database
        super().__init__()

    @property
    def now(self) -> float:
        return self._now

    @now.setter
    def now(self, now: float) -> None:
        self._now = now
        self._database.set_clock(now)


LOCAL_STORES = ["memory", "sqlite", "sqlite-inline"]
"""The stores whose members share a process."""
POSTGRES = {"postgres": True, "postgres-alone": False}
"""Whether the operations are made in groups, or each alone on a connection of the pool."""
STORES = [*LOCAL_STORES, *(pytest.param(each, marks=pytest.mark.postgres) for each in POSTGRES)]


@pytest.fixture
def wall(request: pytest.FixtureRequest) -> Wall:
    """The clock of the store."""
    is_postgres = "postgres" in request.node.name
    return DatabaseWall(request.getfixturevalue("database")) if is_postgres else Wall()


@pytest.fixture(params=STORES)
async def journal(request: pytest.FixtureRequest, tmp_path: Path, wall: Wall) -> AsyncIterator[Journal]:
    """Every store there is: the tests that use this are the contract."""
    if request.param == "memory":
        yield MemoryJournal(wall)
        return
    if request.param in POSTGRES:
        async with open_postgres(request.getfixturevalue("database").dsn) as postgres:
            _group(postgres, is_grouped=POSTGRES[request.param])
            yield postgres
        return
    async with open_sqlite(tmp_path / "data", wall=wall, inline=request.param == "sqlite-inline") as opened:
        yield opened


def _group(journal: PostgresJournal, *, is_grouped: bool) -> None:
    journal._writer._is_running = journal._reads._is_running = is_grouped


LEASE = 10.0


def another(member: Journal, name: str, *, version: int = 0) -> Journal:
    """Another member on the same store."""
    assert isinstance(member, LocalMember | PostgresJournal)
    return cast(Journal, member.another(name, version=version))


@attrs.frozen
class Members:
    """Two members on one store, both with a lease."""

    a: Journal
    b: Journal
    wall: Wall


async def _both(first: Journal, wall: Wall) -> Members:
    second = another(first, "b")
    await first.renew()
    await second.renew()
    return Members(first, second, wall)


@pytest.fixture(params=STORES)
async def members(request: pytest.FixtureRequest, tmp_path: Path, wall: Wall) -> AsyncIterator[Members]:
    if request.param == "memory":
        yield await _both(MemoryJournal(wall, lease=LEASE, member="a"), wall)
        return
    if request.param in POSTGRES:
        async with open_postgres(
            request.getfixturevalue("database").dsn, lease=LEASE, member="a"
        ) as postgres:
            _group(postgres, is_grouped=POSTGRES[request.param])
            yield await _both(postgres, wall)
        return
    inline = request.param == "sqlite-inline"
    async with open_sqlite(tmp_path / "data", wall=wall, inline=inline, lease=LEASE, member="a") as opened:
        yield await _both(opened, wall)


Begin = Callable[..., Awaitable[Fence]]


@pytest.fixture
def begin(journal: Journal) -> Begin:
    """Make a stream with one event and claim it."""

    async def begin(
        stream: str = "s",
        *,
        status: str = "active",
        title: str = "",
        open: bool = False,
        body: Json | None = None,
        owner: str = "",
    ) -> Fence:
        await journal.deliver(NewCommand(stream, "first", "message", {}, new=True))
        fence = await claimed(journal, stream)
        await journal.save(
            Commit(
                fence,
                0,
                [NewEvent("created", {})],
                ack=["first"],
                summary=Summary(status, title, open, body or {}, owner),
            )
        )
        return fence

    return begin
