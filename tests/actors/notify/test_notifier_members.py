"""Several members on one journal: one of them tells the channels, and another goes on if it dies."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from stopgo.actors.agent.agent import Agent
from stopgo.actors.agent.open_agent import open_agent
from stopgo.actors.common.bounded_post import NotDelivered
from stopgo.actors.notify import delivery
from stopgo.runtime.journal.memory.memory_journal import MemoryJournal
from stopgo.runtime.journal.postgres.journal import open_postgres
from tests.actors.notify.fake_channels import FakeChannels, channel
from tests.actors.several_members import LEASE, YES, Members, never
from tests.actors.world import DESTRUCTIVE, World, call, use, wall
from tests.postgres_server import PostgresServer
from tests.waiting import until

WANTED = ["approval.requested", "approval.resolved", "agent.halted", "agent.unhalted"]


def tell(world: World, channels: FakeChannels) -> None:
    world.open_channel = channels.open
    world.settings["notify"] = {"channels": {"ops": channel(events=WANTED)}}


async def test_one_member_tells_what_all_have_done(tmp_path: Path, autojump_clock: MockClock) -> None:
    members, channels = Members(tmp_path, MemoryJournal(wall, lease=LEASE)), FakeChannels()
    for name in "ab":
        tell(members.world(name), channels)
    async with members.agents("a", "b") as (a, b):
        turns = [await agent.start_conversation("go") for agent in (a, b)]
        await trio.sleep(5)
        assert channels.kinds() == ["approval.requested"] * 2
        for approval in (await b.approvals()).approvals:
            for agent in (a, b):  # one of them delivers
                assert [each.approval for each in await agent.notifications_about(approval.id)] == [
                    approval.id
                ]
            await b.decide(approval.id, YES)
        await b.halt()
        await trio.sleep(5)
        assert sorted(channels.kinds()[2:]) == ["agent.halted", *["approval.resolved"] * 2]
        assert len({id for _, id, *_ in channels.tried}) == len(channels.tried) == 5
        assert turns[0].conversation.id != turns[1].conversation.id
        # A retry at the member that does not deliver reaches the one that does.
        channels.fails = lambda name: NotDelivered("it answered 410", again=False, status=410)
        await a.unhalt()
        await trio.sleep(5)
        [lost] = [each for each in await a.notifications() if each.state == "given_up"]
        channels.fails = lambda name: None
        for agent in (a, b):
            await agent.retry_notification(lost.id)
        await trio.sleep(5)
        assert [each.state for each in await b.notifications() if each.id == lost.id] == ["arrived"]


async def test_another_member_goes_on_after_a_death(tmp_path: Path, autojump_clock: MockClock) -> None:
    members, channels = Members(tmp_path, MemoryJournal(wall, lease=LEASE)), FakeChannels(takes=1e6)
    for name in "ab":
        tell(members.world(name), channels)
    async with members.agents("a", "b") as (a, b):
        await a.start_conversation("go")
        await b.start_conversation("go")
        await trio.sleep(5)
        assert len(channels.tried) == 1
        # Its lease ends, and it learns nothing.
        members.members["a"].suspended += 2 * LEASE
        journal: Any = members.members["a"].world.journal
        journal.renew = journal.notes = never
        channels.takes = 0.0
        await trio.sleep(3 * LEASE)
        found = [each.state for each in await b.notifications()]
        assert found == ["arrived"] * 2
        assert len({each.id for each in channels.told}) == 2


async def test_deliveries_to_a_channel_of_a_newer_file_are_left_to_its_members(
    tmp_path: Path, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delivery, "LONGEST_AGE", 300.0)
    members, channels = Members(tmp_path, MemoryJournal(wall, lease=LEASE)), FakeChannels()
    for name in ("a", "new", "old", "later"):
        tell(members.world(name), channels)
    for name in ("new", "later"):
        members.members[name].world.settings["notify"]["channels"]["pager"] = channel()
    channels.fails = lambda name: NotDelivered("it answered 503", again=True)

    async def states(agent: Agent) -> list[str]:
        return [each.state for each in await agent.notifications() if each.channel == "pager"]

    async with members.agents("new") as [agent]:
        await agent.start_conversation("go")
        await trio.sleep(5)
    async with members.agents("old") as [agent]:
        await trio.sleep(120)
        assert await states(agent) == ["pending"]
        assert [name for name, *_ in channels.tried].count("pager") < 5
    channels.fails = lambda name: None
    async with members.agents("later") as [agent]:
        await trio.sleep(120)
        assert await states(agent) == ["arrived"]
        channels.fails = lambda name: NotDelivered("it answered 503", again=True)
        await agent.start_conversation("go")
        await trio.sleep(1)
    async with members.agents("a") as [agent]:
        await trio.sleep(400)
        assert sorted(await states(agent)) == ["arrived", "given_up"]


async def test_reminders_go_on_at_another_member_with_the_next_number(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    members, channels = Members(tmp_path, MemoryJournal(wall, lease=LEASE)), FakeChannels()
    for name in "ab":
        world = members.world(name)
        tell(world, channels)
        reminded = channel(events=["approval.requested", "approval.reminded"], remind_every=60)
        world.settings["notify"] = {"channels": {"ops": reminded}}
    async with members.agents("a", "b") as (_, b):
        await b.start_conversation("go")
        await trio.sleep(130)
        members.members["a"].suspended += 2 * LEASE
        journal: Any = members.members["a"].world.journal
        journal.renew = journal.notes = never
        await trio.sleep(150)
        approval = str(channels.told[0].data["approval_id"])
        assert [each.reminder for each in await b.notifications_about(approval)] == [0, 1, 2, 3, 4, 5]
        told = [each.data.get("reminder", 0) for each in channels.told]
        assert told == [0, 1, 2, 3, 4]
        assert len({each.id for each in channels.told}) == 5


@pytest.fixture
def dsn(postgres_server: PostgresServer) -> Iterator[str]:
    with postgres_server.empty_schema() as dsn:
        yield dsn


@asynccontextmanager
async def running(folder: Path, dsn: str, member: str, channels: FakeChannels) -> AsyncIterator[Agent]:
    (folder / member).mkdir()
    async with open_postgres(dsn, lease=2.0, member=member) as journal:
        world = World(folder / member, journal)
        tell(world, channels)
        world.tool("wipe", DESTRUCTIVE)
        world.plan("agent", use(call("wipe")))
        async with open_agent(
            world.config(),
            journal=journal,
            open_server=world.open_server,
            open_model=world.open_model,
            open_channel=world.open_channel,
        ) as agent:
            yield agent


@pytest.mark.postgres
async def test_on_postgres_all_arrive_although_members_end(tmp_path: Path, dsn: str) -> None:
    """The clock is real, because the database has its own. Every other attempt fails."""
    channels = FakeChannels()
    channels.fails = lambda name: (
        NotDelivered("it answered 503", again=True) if len(channels.tried) % 2 else None
    )
    async with AsyncExitStack() as stack:
        rest = [
            await stack.enter_async_context(running(tmp_path, dsn, name, channels)) for name in ("b", "c")
        ]
        async with running(tmp_path, dsn, "a", channels) as first:
            asked = [await agent.start_conversation("go") for agent in (first, *rest)]
        for approval in (await rest[0].approvals()).approvals:
            await rest[1].decide(approval.id, YES)

        async def all_told() -> bool:
            found = [each for each in await rest[0].notifications() if each.state == "arrived"]
            return len([each for each in found if each.kind == "approval.resolved"]) == len(asked)

        await until(all_told)
        found = {each.id: each for each in await rest[1].notifications()}
        assert {each.state for each in found.values()} <= {"arrived", "overtaken"}
        assert len(found) == 2 * len(asked)
        assert {each.id for each in channels.told} <= found.keys()
