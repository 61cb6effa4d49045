"""Pages of lists end at a bound in bytes, because clients and tools choose the sizes of what is listed."""

from __future__ import annotations

from typing import Any

import pytest
from trio.testing import MockClock

from stopgo.actors.agent import lists
from stopgo.runtime.journal import question
from tests.actors.world import DESTRUCTIVE, World, call, say, use


@pytest.fixture
def most(monkeypatch: pytest.MonkeyPatch) -> int:
    most = 20_000
    monkeypatch.setattr(lists, "MOST_BYTES", most)
    monkeypatch.setattr(question, "MOST_BYTES", most)
    return most


async def all_pages(listing: Any, **options: Any) -> list[list[str]]:
    found: list[list[str]] = []
    cursor: str | None = None
    while True:
        page = await listing(cursor=cursor, limit=200, **options)
        found.append([each.id for each in getattr(page, "conversations", getattr(page, "approvals", ()))])
        cursor = page.next_cursor
        if cursor is None:
            return found


async def test_full_conversations_end_a_page_early(
    world: World, autojump_clock: MockClock, most: int
) -> None:
    world.plan("agent", say("hello"))
    async with world.agent() as agent:
        for number in range(6):
            await agent.start_conversation("x" * (most // 2 if number else 3 * most))
        everything = [item.id for item in (await agent.conversations()).conversations]
        full = await all_pages(agent.conversations, full=True)
        # Two halves reach the bound. The oldest one is longer than a page, and has one of its own.
        assert [len(page) for page in full] == [2, 2, 2]
        assert [id for page in full for id in page] == everything
        assert await all_pages(agent.conversations) == [everything], "without messages they are short"


async def test_approvals_end_a_page_early(world: World, autojump_clock: MockClock, most: int) -> None:
    world.tool("wipe", DESTRUCTIVE)
    world.plan("agent", use(call("wipe", name="x" * (most // 3))))
    async with world.agent() as agent:
        asked = [(await agent.start_conversation("wipe")).conversation for _ in range(5)]
        pending = await all_pages(agent.approvals)
        assert [id for page in pending for id in page] == [each.head.pending[0] for each in asked]
        assert max(map(len, pending)) == 2
        # An item of this list has the approvals of its conversation.
        listed = await all_pages(agent.conversations)
        assert [id for page in listed for id in page] == [each.id for each in reversed(asked)]
        assert max(map(len, listed)) <= 2
