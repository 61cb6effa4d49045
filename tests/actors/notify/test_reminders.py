"""An approval that still waits is told again, and to others: as long as it waits, and never twice."""

from __future__ import annotations

from typing import Any

import pytest
import trio
from trio.testing import MockClock

from stopgo.actors.agent.agent import Agent
from stopgo.actors.common.bounded_post import NotDelivered
from stopgo.actors.notify import delivery
from tests.actors.notify.fake_channels import FakeChannels, channel
from tests.actors.world import DESTRUCTIVE, World, call, use

DOWN = NotDelivered("it answered 503", again=True, status=503)
LAST = ["approval.escalated", "approval.reminded", "approval.resolved"]


@pytest.fixture
def channels(world: World) -> FakeChannels:
    channels = FakeChannels()
    world.open_channel = channels.open
    world.tool("wipe", DESTRUCTIVE)
    world.plan("agent", use(call("wipe")))
    return channels


def configure(world: World, **channels: Any) -> None:
    world.settings["notify"] = {"channels": {name: channel(**more) for name, more in channels.items()}}


async def ask(agent: Agent) -> str:
    """The id of a new approval."""
    await agent.start_conversation("go")
    [approval] = (await agent.approvals()).approvals
    return approval.id


def reminders(channels: FakeChannels, name: str = "ops") -> list[int]:
    told = (each for each in channels.told if each.channel == name)
    return [each.data["reminder"] for each in told if each.kind == "approval.reminded"]


async def test_an_approval_is_told_again_until_it_is_decided(
    autojump_clock: MockClock, world: World, channels: FakeChannels
) -> None:
    configure(world, ops={"remind_every": 600}, quiet={})
    async with world.agent() as agent:
        id = await ask(agent)
        await trio.sleep(590)
        assert channels.kinds() == ["approval.requested"]
        await trio.sleep(620)
        await agent.decide(id, {"approved": True})
        await trio.sleep(2_000)
    assert channels.kinds() == ["approval.requested", *["approval.reminded"] * 2, "approval.resolved"]
    assert reminders(channels) == [1, 2]
    assert channels.kinds("quiet") == ["approval.requested", "approval.resolved"]
    assert {each.data["approval_id"] for each in channels.told} == {id}
    assert len({each.id for each in channels.told}) == len(channels.told)


async def test_a_restart_neither_loses_nor_repeats_a_reminder(
    autojump_clock: MockClock, world: World, channels: FakeChannels
) -> None:
    configure(world, ops={"remind_every": 600})
    async with world.agent() as agent:
        id = await ask(agent)
        await trio.sleep(1)
    for seconds in (100, 490, 20, 1, 1_300, 0.5, 700):
        async with world.agent():
            await trio.sleep(seconds)
    await trio.sleep(2_000)  # one is told late, and not three
    channels.takes = 1e6
    async with world.agent():
        await trio.sleep(10)
    channels.takes = 0.0
    async with world.agent() as agent:
        await trio.sleep(60)
        assert reminders(channels) == [1, 2, 3, 4, 5]
        ids = [each for _, each, kind, _ in channels.tried if kind == "approval.reminded"]
        assert len(ids) == 6  # the last had no answer
        assert len(set(ids)) == 5
        await agent.decide(id, {"approved": True})
        await trio.sleep(1)


async def test_reminders_end(
    autojump_clock: MockClock, world: World, channels: FakeChannels, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delivery, "MOST_REMINDERS", 3)
    configure(world, ops={"remind_every": 60})
    async with world.agent() as agent:
        await ask(agent)
        await trio.sleep(3_000)
    assert reminders(channels) == [1, 2, 3]


async def test_no_reminder_comes_after_the_expiry(
    autojump_clock: MockClock, world: World, channels: FakeChannels
) -> None:
    world.settings["approval"] = {"expires_after": 1000}
    configure(world, ops={"remind_every": 400, "events": ["approval.requested", "approval.reminded"]})
    async with world.agent() as agent:
        await ask(agent)
        await trio.sleep(3_000)
        assert reminders(channels) == [1, 2]
        assert {each.state for each in await agent.notifications()} == {"arrived"}


async def test_of_a_deleted_conversation_nothing_is_told_again(
    autojump_clock: MockClock, world: World, channels: FakeChannels
) -> None:
    first = {"events": ["approval.requested", "approval.reminded"], "remind_every": 600}
    last = {"events": ["approval.escalated"]}
    configure(world, ops={**first, "escalate_after": 700, "escalate_to": ["lead"]}, lead=last)
    async with world.agent() as agent:
        id = await ask(agent)
        await trio.sleep(1)
        await agent.delete((await agent.approval(id)).stream)
        await trio.sleep(3_000)
    assert [each.kind for each in channels.told] == ["approval.requested"]


async def test_a_channel_that_is_down_gets_one_notification_at_a_time(
    autojump_clock: MockClock, world: World, channels: FakeChannels
) -> None:
    configure(world, ops={"remind_every": 60})
    channels.fails = lambda name: DOWN
    async with world.agent() as agent:
        await ask(agent)
        await trio.sleep(2_000)
        assert len(await agent.notifications()) == 1
        channels.fails = lambda name: None
        await trio.sleep(300)
        channels.told.clear()
        await trio.sleep(120)
    assert channels.kinds() == ["approval.reminded"] * 2


async def test_an_approval_that_waits_too_long_is_told_to_others(
    autojump_clock: MockClock, world: World, channels: FakeChannels
) -> None:
    ops = {"escalate_after": 900, "escalate_to": ["lead"]}
    configure(world, ops=ops, other={**ops, "escalate_after": 1200}, lead={"events": LAST})
    async with world.agent() as agent:
        early = await ask(agent)
        await trio.sleep(880)
        await agent.decide(early, {"approved": True})
        await trio.sleep(500)
        assert channels.kinds("lead") == []
        late = await ask(agent)
        await trio.sleep(880)
        assert channels.kinds("lead") == []
        await trio.sleep(500)
        assert channels.kinds("lead") == ["approval.escalated"]
        await agent.decide(late, {"approved": True})
        await trio.sleep(10)
    assert channels.kinds("lead") == ["approval.escalated", "approval.resolved"]
    assert channels.kinds() == ["approval.requested", "approval.resolved"] * 2


@pytest.mark.parametrize("others", [{"escalate_after": 900, "escalate_to": ["lead"]}, {}])
async def test_a_channel_with_a_pause_hears_the_end_of_what_was_escalated_to_it(
    autojump_clock: MockClock, world: World, channels: FakeChannels, others: dict[str, Any]
) -> None:
    configure(world, ops=others, lead={"after": 3000})
    async with world.agent() as agent:
        id = await ask(agent)
        await trio.sleep(1_000)
        await agent.decide(id, {"approved": True})
        await trio.sleep(10)
    assert channels.kinds("lead") == (["approval.escalated", "approval.resolved"] if others else [])


async def test_the_second_channel_is_reminded_after_the_escalation(
    autojump_clock: MockClock, world: World, channels: FakeChannels
) -> None:
    ops = {"escalate_after": 900, "escalate_to": ["lead"]}
    configure(world, ops=ops, lead={"events": LAST, "remind_every": 300})
    async with world.agent() as agent:
        await ask(agent)
        await trio.sleep(1_600)
    assert channels.kinds("lead") == ["approval.escalated", *["approval.reminded"] * 2]


@pytest.mark.parametrize(
    ("ops", "lead"),
    [({"tool": "other"}, {}), ({}, {"tool": "other"}), ({}, {"events": ["approval.escalated"]})],
)
async def test_both_filters_decide_what_is_escalated(
    autojump_clock: MockClock,
    world: World,
    channels: FakeChannels,
    ops: dict[str, Any],
    lead: dict[str, Any],
) -> None:
    configure(world, ops={"escalate_after": 900, "escalate_to": ["lead"], **ops}, lead=lead)
    async with world.agent() as agent:
        await ask(agent)
        await trio.sleep(1_000)
    is_told = "approval.escalated" in channels.kinds("lead")
    assert is_told == ("tool" not in {**ops, **lead})
