"""Ids and cursors tell nothing of others, and those of earlier versions stay valid."""

from __future__ import annotations

import uuid
from pathlib import Path

import pytest
from trio.testing import MockClock

from stopgo.actors.access.principal import Principal, all_grants, granted
from stopgo.actors.agent.agent import _NAMESPACE, Agent
from stopgo.runtime.journal import cursor as cursors
from stopgo.runtime.journal.cursor import Listing
from stopgo.runtime.journal.memory.memory_journal import MemoryJournal
from tests.actors.several_members import LEASE, Members
from tests.actors.world import World, code_of, say, wall


def of(agent: Agent, id: str, *roles: str) -> Agent:
    return agent.acting_as(Principal(id=id, grants=granted(roles, all_grants({}))))


async def test_id_of_a_key_is_found_by_its_principal_and_its_store_only(
    world: World, tmp_path: Path, autojump_clock: MockClock
) -> None:
    world.plan("agent", *[say("done")] * 9)
    async with world.agent() as agent:
        made = [
            (await of(agent, id, "operator").start_conversation("go", key="k")).conversation.id
            for id in ("ann", "bob", "ann")
        ]
        own = (await agent.start_conversation("go", key="k")).conversation.id
    (tmp_path / "other").mkdir()
    elsewhere = World(tmp_path / "other")
    elsewhere.plan("agent", say("done"))
    async with elsewhere.agent() as agent:
        other = (await of(agent, "ann", "operator").start_conversation("go", key="k")).conversation.id
    assert made[0] == made[2]
    assert len({*made, own, other, str(uuid.uuid5(_NAMESPACE, "k"))}) == 5


async def test_repeated_key_of_an_earlier_version_finds_its_conversation(
    world: World, autojump_clock: MockClock
) -> None:
    """That version derived the id from the key alone."""
    world.plan("agent", *[say("done")] * 9)
    before = str(uuid.uuid5(_NAMESPACE, "k"))
    async with world.agent() as agent:
        ann, bob = of(agent, "ann", "operator"), of(agent, "bob", "operator")
        await ann.start_conversation("go", id=before, key="k")
    async with world.agent() as agent:
        ann, bob = of(agent, "ann", "operator"), of(agent, "bob", "operator")
        assert (await ann.start_conversation("go", key="k")).conversation.id == before
        assert (await bob.start_conversation("go", key="k")).conversation.id != before
        assert len((await ann.conversations()).conversations) == 1


@pytest.mark.parametrize("listing", ["streams", "questions"])
async def test_cursor_of_an_earlier_version_is_for_those_who_see_all(
    listing: Listing, world: World, autojump_clock: MockClock
) -> None:
    """It is a number that counts the items of all clients, and anybody can write one."""
    plain = cursors.write(listing, 7)
    async with world.agent() as agent:
        for each, accepted in (
            (agent, True),
            (of(agent, "vic", "viewer"), True),
            (of(agent, "ann", "operator", "approver"), False),
        ):
            read = each.conversations if listing == "streams" else each.approvals
            if accepted:
                await read(cursor=plain)
            else:
                assert await code_of(read(cursor=plain)) == "invalid_cursor"


async def test_members_of_one_store_share_its_secret(tmp_path: Path, autojump_clock: MockClock) -> None:
    members = Members(tmp_path, MemoryJournal(wall, lease=LEASE, member="a"))
    members.world("a")
    members.world("b")
    async with members.agents("a", "b") as (a, b):
        for _ in range(2):
            await a.start_conversation()
        cursor = (await a.conversations(limit=1)).next_cursor
        assert cursor is not None
        assert len((await b.conversations(limit=1, cursor=cursor)).conversations) == 1
        assert a.id_of("x") == b.id_of("x")
