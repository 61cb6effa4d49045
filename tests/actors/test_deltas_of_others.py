"""Deltas that a member gets from the member that works on the conversation."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import cast

import pytest
import trio
from trio.testing import MockClock

from stopgo.actors.agent.agent import Agent
from stopgo.actors.agent.watch import Announced, Watched
from stopgo.actors.log.words.deltas import AnyDelta
from stopgo.actors.models.messages.messages import TextDelta
from stopgo.runtime.journal.memory.memory_journal import MemoryJournal
from stopgo.runtime.journal.protocol import Event
from tests.actors.several_members import LEASE, Members
from tests.actors.world import Streamed, say, wall

TEXT = "abcdef"


@pytest.fixture
def members(tmp_path: Path) -> Members:
    members = Members(tmp_path, MemoryJournal(wall, lease=LEASE, member="a"))
    members.world("a").plan("agent", Streamed(tuple(map(TextDelta, TEXT)), say(TEXT)))
    return members


@asynccontextmanager
async def passed_on(a: Agent, b: Agent) -> AsyncIterator[None]:
    """Pass the deltas of member `a` to member `b`, without a network."""
    async with trio.open_nursery() as nursery:
        with a.delta_exchange.deltas(lambda id: b.delta_exchange.wanted().covers(id)) as deltas:

            async def run() -> None:
                async for delta in deltas:
                    await b.delta_exchange.take(cast(AnyDelta, delta))

            nursery.start_soon(run)
            yield
            nursery.cancel_scope.cancel()


async def of_one(agent: Agent, id: str, into: list[str]) -> None:
    async with aclosing(agent.events(id, deltas=True)) as items:
        async for item in items:
            into.append(name_of(item))


async def of_all(agent: Agent, _: str, into: list[str]) -> None:
    with agent.all_events(deltas=True) as items:
        async for item in items:
            into.append(name_of(item))


def name_of(item: Event | Watched) -> str:
    """Of an event, its type; of a delta, its text."""
    if isinstance(item, Event | Announced):
        return (item.event if isinstance(item, Announced) else item).type
    return item.delta.text  # type: ignore[union-attr]


@pytest.mark.parametrize("hinted", [True, False], ids=["with hints", "before the events"])
@pytest.mark.parametrize("watch", [of_one, of_all])
async def test_watchers_at_another_member_get_deltas_in_their_place(
    members: Members,
    autojump_clock: MockClock,
    monkeypatch: pytest.MonkeyPatch,
    watch: Callable[[Agent, str, list[str]], Awaitable[None]],
    hinted: bool,
) -> None:
    at_a: list[str] = []
    at_b: list[str] = []
    async with members.agents("a", "b") as (a, b), passed_on(a, b), trio.open_nursery() as nursery:
        nursery.start_soon(of_all, b, "", [])  # so that the watchers below know the conversation
        await trio.sleep(0.1)
        id = (await a.start_conversation()).conversation.id
        await trio.sleep(3)
        if not hinted:
            monkeypatch.setattr(MemoryJournal, "_changed", lambda *_: None)
        nursery.start_soon(watch, b, id, at_b)
        nursery.start_soon(of_one, a, id, at_a)
        await trio.sleep(1)
        await a.send(id, "go")
        await trio.sleep(3)
        nursery.cancel_scope.cancel()
    assert at_b[-len(at_a) + 1 :] == at_a[1:]
    assert [each for each in at_b if each in TEXT] == list(TEXT)


async def test_wanted_is_what_others_may_have(members: Members, autojump_clock: MockClock) -> None:
    async with members.agents("a", "b") as (a, b), trio.open_nursery() as nursery:
        id = (await a.post_conversation("go")).conversation.id
        for agent in (a, b):
            nursery.start_soon(of_one, agent, id, [])
        await trio.sleep(1)
        assert not a.delta_exchange.wanted().covers(id), "it works on the conversation itself"
        wanted = b.delta_exchange.wanted()
        assert wanted.covers(id)
        assert not wanted.covers("another")
        with b.all_events():
            assert not b.delta_exchange.wanted().all
        with b.all_events(deltas=True):
            assert b.delta_exchange.wanted().covers("another")
        nursery.cancel_scope.cancel()
