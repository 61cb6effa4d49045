from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import cast

import attrs
import pytest

from stopgo.runtime.journal.local_node import LocalNode
from stopgo.runtime.journal.memory import MemoryJournal
from stopgo.runtime.journal.ownership import Fence
from stopgo.runtime.journal.protocol import Journal, Json, NewEvent
from stopgo.runtime.journal.sqlite import open_sqlite
from stopgo.runtime.journal.summary import Summary
from tests.runtime.journal.kept import claimed


@attrs.define
class Wall:
    """A wall clock that is set by hand."""

    now: float = 1_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def wall() -> Wall:
    return Wall()


@pytest.fixture(params=["memory", "sqlite", "sqlite-inline"])
async def journal(request: pytest.FixtureRequest, tmp_path: Path, wall: Wall) -> AsyncIterator[Journal]:
    """Every store there is: the tests that use this are the contract."""
    if request.param == "memory":
        yield MemoryJournal(wall)
        return
    async with open_sqlite(tmp_path / "data", wall=wall, inline=request.param == "sqlite-inline") as opened:
        yield opened


LEASE = 10.0


def another(node: Journal, name: str, *, version: int = 0) -> Journal:
    """Another node on the same store."""
    assert isinstance(node, LocalNode)
    return cast(Journal, node.another(name, version=version))


@attrs.frozen
class Nodes:
    """Two nodes on one store, both with a lease."""

    a: Journal
    b: Journal
    wall: Wall


@pytest.fixture(params=["memory", "sqlite", "sqlite-inline"])
async def nodes(request: pytest.FixtureRequest, tmp_path: Path, wall: Wall) -> AsyncIterator[Nodes]:
    async def both(first: Journal, second: Journal) -> Nodes:
        await first.renew()
        await second.renew()
        return Nodes(first, second, wall)

    if request.param == "memory":
        memory = MemoryJournal(wall, lease=LEASE, node="a")
        yield await both(memory, memory.another("b"))
        return
    inline = request.param == "sqlite-inline"
    async with open_sqlite(tmp_path / "data", wall=wall, inline=inline, lease=LEASE, node="a") as opened:
        yield await both(opened, opened.another("b"))


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
        await journal.deliver(stream, "first", "message", {}, new=True)
        fence = await claimed(journal, stream)
        await journal.save(
            fence,
            0,
            [NewEvent("created", {})],
            ack=["first"],
            summary=Summary(status, title, open, body or {}, owner),
        )
        return fence

    return begin
