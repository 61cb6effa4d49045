from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import attrs
import pytest

from stopgo.runtime.journal.memory import MemoryJournal
from stopgo.runtime.journal.protocol import Fence, Journal, Json, NewEvent, Summary
from stopgo.runtime.journal.sqlite import open_sqlite


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
        fence = await journal.claim(stream, "me")
        await journal.save(
            fence,
            0,
            [NewEvent("created", {})],
            ack=["first"],
            summary=Summary(status, title, open, body or {}, owner),
        )
        return fence

    return begin
