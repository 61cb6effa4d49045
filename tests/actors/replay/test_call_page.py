"""Recorded calls page by page: the same calls as in one reading, whatever ends a page."""

from __future__ import annotations

from typing import Any

import attrs
import pytest
from trio.testing import MockClock

from stopgo.actors.common.errors import AgentError
from stopgo.actors.replay import call_page as pages
from stopgo.actors.replay.recorded_call import Damage, RecordedCall, read_calls
from stopgo.runtime.journal import passage
from tests.actors.replay.test_judged_calls import NO, Edited, damaging, lived
from tests.actors.several_members import YES
from tests.actors.world import World, call, say, use


async def all_at_once(journal: Any) -> tuple[list[RecordedCall], Damage]:
    found: list[RecordedCall] = []

    def take(call: RecordedCall) -> bool:
        found.append(call)
        return True

    return found, await read_calls(journal, take)


async def page_by_page(journal: Any, limit: int) -> tuple[list[RecordedCall], Damage, list[int]]:
    found: list[RecordedCall] = []
    damage, sizes, cursor, more = Damage(), list[int](), None, True
    while more:
        page = await pages.call_page(journal, limit=limit, cursor=cursor)
        found += page.calls
        damage.merge(page.damage)
        sizes.append(len(page.calls))
        cursor, more = page.next_cursor, page.next_cursor is not None
        assert len(sizes) < 100
    return found, damage, sizes


async def several(world: World) -> None:
    for number in range(3):
        first = (call("send"), call("wipe"), call("gone"))
        await lived(world, first, call("wipe", name=f"{number}"), decisions=[YES, NO])


@pytest.mark.parametrize("limit", [1, 2, 3, 5, 1000])
@pytest.mark.parametrize("events", [3, 2000])
async def test_pages_have_all_calls_once(
    world: World, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch, limit: int, events: int
) -> None:
    monkeypatch.setattr(passage, "MOST_EVENTS", events)
    await several(world)
    whole, _ = await all_at_once(world.journal)
    found, damage, sizes = await page_by_page(world.journal, limit)
    assert found == whole
    assert (len(whole), max(sizes), damage.events) == (12, min(limit, max(sizes)), 0)


async def test_pages_end_with_their_bytes(
    world: World, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    await several(world)
    whole, _ = await all_at_once(world.journal)
    monkeypatch.setattr(pages, "MOST_BYTES", 1200)
    found, _, sizes = await page_by_page(world.journal, 1000)
    assert (found, max(sizes)) == (whole, 2)
    monkeypatch.setattr(pages, "MOST_BYTES", 1)  # one call is always on a page
    assert (await page_by_page(world.journal, 1000))[::2] == (whole, [1] * 12)


@pytest.mark.parametrize("limit", [1, 3, 1000])
async def test_damage_is_counted_once_and_remembered(
    world: World, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch, limit: int
) -> None:
    await lived(world, call("wipe"), decisions=[NO])
    conversation = await lived(world, call("wipe"), decisions=[NO])
    world.plan("agent", use(call("send")), say("done"))
    async with world.agent() as agent:
        await agent.send(conversation, "again")
    await several(world)
    journal = Edited(world.journal, damaging("approval.resolved", body="{"))
    whole, damage = await all_at_once(journal)
    monkeypatch.setattr(passage, "MOST_EVENTS", 3)
    found, counted, _ = await page_by_page(journal, limit)
    assert [attrs.asdict(each) for each in found] == [attrs.asdict(each) for each in whole]
    assert counted == damage
    assert damage.events == 8


async def test_cursor_of_another_list(world: World, autojump_clock: MockClock) -> None:
    async with world.agent() as agent:
        for cursor in ("x", "1.2.3", "1.2.3.2", "-1.2.3.0", "1.2.3.0\n"):
            with pytest.raises(AgentError, match="cursor"):
                await agent.recorded_calls(cursor=cursor)
        assert (await agent.recorded_calls(cursor="1.2.3.0")).calls == ()
