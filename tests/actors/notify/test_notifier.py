"""Channels are told what happens, at least once, and nothing that is not true."""

from __future__ import annotations

from itertools import count, pairwise
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from stopgo.actors.agent.agent import Agent
from stopgo.actors.common.bounded_post import NotDelivered
from stopgo.actors.log.writer.observer import Observer
from stopgo.actors.notify import delivery_store
from stopgo.actors.notify.delivery import LONGEST_AGE
from stopgo.runtime.journal.errors import JournalError, StreamDamaged
from stopgo.runtime.journal.memory.memory_journal import MemoryJournal
from tests.actors.notify.fake_channels import FakeChannels, channel
from tests.actors.world import DESTRUCTIVE, HARMLESS, World, call, code_of, never, say, use, wall

DOWN = NotDelivered("it answered 503", again=True, status=503)


@pytest.fixture
def channels(world: World) -> FakeChannels:
    """With one channel, `ops`, and an agent that asks before `wipe`."""
    channels = FakeChannels()
    world.open_channel = channels.open
    world.settings["notify"] = {"channels": {"ops": channel()}}
    world.tool("wipe", DESTRUCTIVE)
    world.plan("agent", use(call("wipe", name="secret-argument")))
    return channels


def configure(world: World, **channels: Any) -> None:
    world.settings["notify"] = {"channels": channels}


async def ask(agent: Agent) -> str:
    """The id of a new approval."""
    turn = await agent.start_conversation("go")
    [approval] = (await agent.approvals()).approvals
    assert turn.conversation.id == approval.stream
    return approval.id


async def test_an_approval_is_told_from_its_request_to_its_decision(
    autojump_clock: MockClock, world: World, channels: FakeChannels
) -> None:
    async with world.agent() as agent:
        id = await ask(agent)
        await trio.sleep(1)
        [told] = channels.told
        assert told.kind == "approval.requested"
        assert told.data["approval_id"] == id
        assert told.data["tool"] == "wipe"
        assert "secret-argument" not in str(told.data)
        await agent.decide(id, {"approved": True, "decided_by": "ann"})
        await trio.sleep(1)
    assert channels.kinds() == ["approval.requested", "approval.resolved"]
    assert channels.told[1].data["decided_by"] == "ann"
    assert len({each.id for each in channels.told}) == 2


async def test_without_channels_nothing_is_written(autojump_clock: MockClock, world: World) -> None:
    world.tool("wipe", DESTRUCTIVE)
    world.plan("agent", use(call("wipe")))
    async with world.agent() as agent:
        await ask(agent)
        await agent.halt()
    assert await world.journal.outbox(9) == ()
    assert await world.journal.notes("notification") == {}


async def test_a_row_is_written_in_no_commit_of_its_own(
    autojump_clock: MockClock, world: World, channels: FakeChannels
) -> None:
    assert isinstance(world.journal, MemoryJournal)
    saves: list[int] = []
    save = world.journal.save

    async def counted(commit: Any) -> Any:
        saves.append(len(commit.outbox))
        return await save(commit)

    world.journal.save = counted  # type: ignore[method-assign]
    async with world.agent() as agent:
        await ask(agent)
    with_channel = list(saves)
    saves.clear()
    del world.settings["notify"]
    world.journal = MemoryJournal()
    world.journal.save, save = counted, world.journal.save  # type: ignore[method-assign]
    async with world.agent() as agent:
        await ask(agent)
    assert len(with_channel) == len(saves)
    assert (sum(with_channel), sum(saves)) == (1, 0)


@pytest.mark.parametrize(
    ("filters", "is_told"),
    [
        ({"tool": "wip*"}, True),
        ({"tool": "other"}, False),
        ({"server": "tools", "node": "agent"}, True),
        ({"server": "tools", "node": "other"}, False),
        ({"rule": "*destructive*"}, True),
        ({"rule": "approval.rules*"}, False),
        ({"events": ["approval.expired"]}, False),
    ],
)
async def test_a_channel_is_told_what_its_filters_match(
    autojump_clock: MockClock, world: World, channels: FakeChannels, filters: dict[str, Any], is_told: bool
) -> None:
    configure(world, ops=channel(**filters))
    async with world.agent() as agent:
        await ask(agent)
        await trio.sleep(1)
    assert bool(channels.told) == is_told


async def test_a_failing_channel_is_tried_again_with_the_same_id(
    autojump_clock: MockClock, world: World, channels: FakeChannels
) -> None:
    failures = iter([DOWN] * 5)
    channels.fails = lambda name: next(failures, None)
    async with world.agent() as agent:
        await ask(agent)
        await trio.sleep(120)
    assert channels.kinds() == ["approval.requested"]
    assert len(channels.tried) == 6
    assert len({id for _, id, *_ in channels.tried}) == 1
    times = [at for *_, at in channels.tried]
    pauses = [later - earlier for earlier, later in pairwise(times)]
    assert all(0.5 * 2**n <= pause <= 1.1 * 2**n for n, pause in enumerate(pauses))


async def test_a_channel_that_is_down_keeps_no_other_waiting(
    autojump_clock: MockClock, world: World, channels: FakeChannels
) -> None:
    configure(world, bad=channel(), ops=channel())
    channels.fails = lambda name: DOWN if name == "bad" else None
    async with world.agent() as agent:
        for _ in range(5):
            await agent.start_conversation("go")
        await trio.sleep(2)
        assert channels.kinds() == ["approval.requested"] * 5
        assert channels.kinds("bad") == []


async def test_a_channel_that_does_not_answer_keeps_no_other_waiting(
    autojump_clock: MockClock, world: World, channels: FakeChannels
) -> None:
    class Stuck(FakeChannels):
        pass

    stuck = Stuck(takes=1e6)
    configure(world, slow=channel(), ops=channel())
    world.open_channel = lambda config: (stuck if config.name == "slow" else channels).open(config)
    async with world.agent() as agent:
        await ask(agent)
        await trio.sleep(2)
    assert channels.kinds() == ["approval.requested"]
    assert stuck.kinds("slow") == []


async def test_of_a_decided_approval_only_the_decision_is_told(
    autojump_clock: MockClock, world: World, channels: FakeChannels
) -> None:
    channels.fails = lambda name: DOWN
    async with world.agent() as agent:
        id = await ask(agent)
        await trio.sleep(10)
        await agent.decide(id, {"approved": False})
        channels.fails = lambda name: None
        await trio.sleep(60)
        states = {each.kind: each.state for each in await agent.notifications()}
    assert channels.kinds() == ["approval.resolved"]
    assert states == {"approval.requested": "overtaken", "approval.resolved": "arrived"}


async def test_half_of_the_attempts_fail_and_all_arrive(
    autojump_clock: MockClock, world: World, channels: FakeChannels
) -> None:
    numbers = count()
    channels.fails = lambda name: DOWN if next(numbers) % 2 == 0 else None
    async with world.agent() as agent:
        for _ in range(20):
            await agent.start_conversation("go")
        await trio.sleep(300)
    assert len({each.id for each in channels.told}) == len(channels.told) == 20


async def test_after_a_restart_what_has_not_arrived_is_sent(
    autojump_clock: MockClock, world: World, channels: FakeChannels
) -> None:
    channels.fails = lambda name: DOWN
    async with world.agent() as agent:
        await ask(agent)
        await trio.sleep(1)
    channels.fails = lambda name: None
    async with world.agent():
        await trio.sleep(60)
    assert channels.kinds() == ["approval.requested"]
    async with world.agent():
        await trio.sleep(60)
    assert len(channels.told) == 1


async def test_an_attempt_without_an_answer_is_made_again(
    autojump_clock: MockClock, world: World, channels: FakeChannels
) -> None:
    channels.takes = 1e6
    async with world.agent() as agent:
        await ask(agent)
        await trio.sleep(1)
        [found] = await agent.notifications()
        assert (found.state, found.attempts) == ("pending", 1)
    channels.takes = 0.0
    async with world.agent():
        await trio.sleep(60)
    assert channels.kinds() == ["approval.requested"]
    assert len({id for _, id, *_ in channels.tried}) == 1


async def test_after_a_day_it_is_given_up_and_another_channel_is_told(
    autojump_clock: MockClock, world: World, channels: FakeChannels
) -> None:
    configure(world, bad=channel(), ops=channel(events=["notification.given_up"]))
    channels.fails = lambda name: DOWN if name == "bad" else None
    async with world.agent() as agent:
        for _ in range(3):
            await agent.start_conversation("go")
        await trio.sleep(3_000)
        assert not channels.told
    for _ in range(30):  # no test waits longer than an hour at a time
        async with world.agent() as agent:
            await trio.sleep(3_000)
    async with world.agent() as agent:
        found = await agent.notifications()
        lost = [each for each in found if each.state == "given_up"]
        assert {(each.channel, each.why) for each in lost} == {("bad", "it answered 503")}
        assert len(lost) == 3
        assert channels.kinds() == ["notification.given_up"]
        assert channels.told[0].data["channel"] == "bad"
        channels.fails = lambda name: None
        again = await agent.retry_notification(lost[0].id)
        assert (again.state, again.id) == ("pending", lost[0].id)
        await trio.sleep(120)
    assert [each.id for each in channels.told if each.channel == "bad"] == [lost[0].id]
    assert LONGEST_AGE < 31 * 3_000


async def test_an_unknown_notification_or_channel_is_an_error(
    autojump_clock: MockClock, world: World, channels: FakeChannels
) -> None:
    async with world.agent() as agent:
        assert await code_of(agent.retry_notification("msg_x")) == "notification_not_found"
        assert await code_of(agent.test_channel("opps")) == "channel_not_found"
        id = await agent.test_channel("ops")
        channels.fails = lambda name: DOWN
        assert await code_of(agent.test_channel("ops")) == "not_delivered"
    assert [(each.kind, each.id) for each in channels.told] == [("notification.test", id)]


async def test_what_a_deleted_conversation_left_says_only_that_it_is_gone(
    autojump_clock: MockClock, world: World, channels: FakeChannels
) -> None:
    channels.fails = lambda name: DOWN
    async with world.agent() as agent:
        id = await ask(agent)
        conversation = (await agent.approval(id)).stream
        await trio.sleep(1)
        await agent.delete(conversation)
        channels.fails = lambda name: None
        await trio.sleep(60)
        assert "wipe" not in str(await world.journal.notes("notification"))
    gone = {each.kind: each.data for each in channels.told}
    assert "wipe" not in str(gone)
    assert gone["conversation.deleted"]["conversation_id"] == conversation
    assert all(data.get("gone") for kind, data in gone.items() if kind != "conversation.deleted")


async def test_a_halt_and_its_end_are_told(
    autojump_clock: MockClock, world: World, channels: FakeChannels
) -> None:
    async with world.agent() as agent:
        await agent.halt("wrong database")
        await agent.halt()
        await trio.sleep(1)
        await agent.unhalt()
        await trio.sleep(1)
        assert channels.kinds() == ["agent.halted", "agent.unhalted"]
        channels.fails = lambda name: DOWN
        await agent.halt()
        await trio.sleep(1)
        await agent.unhalt()
        channels.fails = lambda name: None
        await trio.sleep(60)
    assert channels.kinds() == ["agent.halted", "agent.unhalted", "agent.unhalted"]


async def test_an_expiry_is_told_before_and_after(
    autojump_clock: MockClock, world: World, channels: FakeChannels
) -> None:
    world.settings["approval"] = {"expires_after": 1000}
    async with world.agent() as agent:
        await ask(agent)
        await trio.sleep(690)
        assert channels.kinds() == ["approval.requested"]
        await trio.sleep(20)
        assert channels.kinds() == ["approval.requested", "approval.expiring"]
        await trio.sleep(400)
    assert channels.kinds() == ["approval.requested", "approval.expiring", "approval.expired"]


async def test_an_approval_is_told_after_it_has_waited(
    autojump_clock: MockClock, world: World, channels: FakeChannels
) -> None:
    configure(world, ops=channel(after=600))
    async with world.agent() as agent:
        first = await ask(agent)
        await trio.sleep(500)
        await agent.decide(first, {"approved": True})
        at_once = await ask(agent)
        await agent.decide(at_once, {"approved": True})
        await trio.sleep(700)
        assert channels.told == []
        second = await ask(agent)
        await trio.sleep(700)
        assert channels.kinds() == ["approval.requested"]
        await agent.decide(second, {"approved": True})
        await trio.sleep(10)
    assert channels.kinds() == ["approval.requested", "approval.resolved"]


async def test_a_receiver_that_is_gone_gets_nothing_more(
    autojump_clock: MockClock, world: World, channels: FakeChannels
) -> None:
    channels.fails = lambda name: NotDelivered("it answered 410", again=False, status=410)
    async with world.agent() as agent:
        await ask(agent)
        await trio.sleep(600)
        assert len(channels.tried) == 1
        assert [each.state for each in await agent.notifications()] == ["given_up"]


async def test_a_receiver_that_asks_to_wait_is_left_alone(
    autojump_clock: MockClock, world: World, channels: FakeChannels
) -> None:
    answers = iter([NotDelivered("it answered 429", again=True, status=429, retry_after=900.0)])
    channels.fails = lambda name: next(answers, None)
    async with world.agent() as agent:
        await ask(agent)
        await trio.sleep(890)
        assert len(channels.tried) == 1
        await trio.sleep(20)
    assert channels.kinds() == ["approval.requested"]


async def test_a_channel_that_was_removed_is_given_up(
    autojump_clock: MockClock, world: World, channels: FakeChannels
) -> None:
    channels.fails = lambda name: DOWN
    async with world.agent() as agent:
        await ask(agent)
        await trio.sleep(1)
    configure(world, other=channel())
    async with world.agent() as agent:
        await trio.sleep(1)
        assert [(each.channel, each.state) for each in await agent.notifications()] == [("ops", "given_up")]


async def test_a_row_that_cannot_be_read_is_dropped(
    autojump_clock: MockClock, world: World, channels: FakeChannels
) -> None:
    await world.journal.write_notes("k", {}, outbox=[{"kind": "of another program"}])
    async with world.agent() as agent:
        await ask(agent)
        await trio.sleep(1)
    assert await world.journal.outbox(9) == ()
    assert channels.kinds() == ["approval.requested"]


async def test_a_damaged_conversation_is_told_and_ends_nothing(
    autojump_clock: MockClock, world: World, channels: FakeChannels
) -> None:
    async def damaged(stream: str) -> None:
        raise StreamDamaged(stream, "the stream cannot be read")

    configure(world, ops=channel(events=["approval.requested"]))
    async with world.agent() as agent:
        channels.fails = lambda name: DOWN
        await ask(agent)
        await trio.sleep(1)
        world.journal.row = damaged  # type: ignore[method-assign]
        channels.fails = lambda name: None
        await trio.sleep(300)
        assert channels.kinds() == ["approval.requested"]


async def test_an_unknown_outcome_is_told_with_its_tool(
    autojump_clock: MockClock, world: World, channels: FakeChannels
) -> None:
    configure(world, ops=channel(events=["tool.unknown"]))
    world.settings["shutdown_grace"] = 1
    world.tool("put", HARMLESS, never)
    world.plan("agent", use(call("put", name="secret-argument")), say("done"))
    async with world.agent() as agent:
        await agent.post_conversation("go")
        await trio.sleep(5)
    async with world.agent():
        await trio.sleep(5)
    [told] = channels.told
    assert (told.data["tool"], told.data["server"], told.data["node"]) == ("put", "tools", "agent")
    assert told.data["text"] == "The outcome of a call is unknown (put)"
    assert "secret-argument" not in str(told.data)


async def test_what_is_given_up_because_too_much_waits_is_counted_and_told(
    autojump_clock: MockClock, world: World, channels: FakeChannels, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delivery_store, "MOST_PENDING", 2)
    configure(world, bad=channel(), ops=channel(events=["notification.given_up"]))
    channels.fails = lambda name: DOWN if name == "bad" else None
    counted: list[tuple[str, str]] = []

    class Counting(Observer):
        def notified(self, channel: str, outcome: str) -> None:
            counted.append((channel, outcome))

    world.observers = [Counting()]
    async with world.agent() as agent:
        for _ in range(5):
            await agent.start_conversation("go")
        await trio.sleep(70)
        states = [each.state for each in await agent.notifications() if each.channel == "bad"]
    assert sorted(states) == [*["given_up"] * 3, *["pending"] * 2]
    assert counted.count(("bad", "given_up")) == 3
    assert channels.kinds() == ["notification.given_up"]


async def test_a_damaged_approval_is_told_as_damaged_and_logged_once(
    autojump_clock: MockClock, world: World, channels: FakeChannels, caplog: pytest.LogCaptureFixture
) -> None:
    async def damaged(id: str) -> None:
        raise StreamDamaged("c", "the question cannot be read")

    channels.fails = lambda name: DOWN
    async with world.agent() as agent:
        id = await ask(agent)
        world.journal.question = damaged  # type: ignore[method-assign]
        await trio.sleep(30)
        channels.fails = lambda name: None
        await trio.sleep(120)
    [told] = channels.told
    assert (told.data["approval_id"], told.data["damaged"], "gone" in told.data) == (id, True, False)
    assert caplog.text.count(f"lacks its approval {id}") == 1


async def test_a_failing_notifier_ends_nothing_and_goes_on(
    autojump_clock: MockClock, world: World, channels: FakeChannels, caplog: pytest.LogCaptureFixture
) -> None:
    read, failures = world.journal.outbox, iter([JournalError("the journal cannot be read")] * 9)

    async def failing(limit: int) -> Any:
        if (failure := next(failures, None)) is not None:
            raise failure
        return await read(limit)

    world.journal.outbox = failing  # type: ignore[method-assign]
    async with world.agent() as agent:
        await ask(agent)
        await trio.sleep(900)
        assert channels.kinds() == ["approval.requested"]
    assert "the notifier has failed" in caplog.text


async def test_a_decision_while_the_request_is_rendered_leaves_no_request_without_an_end(
    autojump_clock: MockClock, world: World, channels: FakeChannels
) -> None:
    configure(world, ops=channel(after=600))
    read = world.journal.question
    waiting: list[str] = []

    async def slowly(id: str) -> Any:
        found = await read(id)
        if waiting:
            await agent.decide(waiting.pop(), {"approved": True})
            await trio.sleep(2)
        return found

    world.journal.question = slowly  # type: ignore[method-assign]
    async with world.agent() as agent:
        id = await ask(agent)
        await trio.sleep(590)
        waiting.append(id)
        await trio.sleep(300)
    assert waiting == []
    assert channels.kinds() == []


async def test_what_has_ended_is_deleted_as_fast_as_it_comes(
    autojump_clock: MockClock, world: World, channels: FakeChannels, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delivery_store, "MOST_ENDED", 3)
    monkeypatch.setattr(delivery_store, "MOST_DELETED", 2)
    async with world.agent() as agent:
        for _ in range(20):
            await agent.halt()
            await agent.unhalt()
        await trio.sleep(100)
        assert len(await agent.notifications()) == 3


async def test_a_retry_is_stored_while_others_are_delivered(
    autojump_clock: MockClock, world: World, channels: FakeChannels
) -> None:
    channels.fails = lambda name: NotDelivered("it answered 410", again=False, status=410)
    async with world.agent() as agent:
        await ask(agent)
        await trio.sleep(60)
        channels.fails = lambda name: None
        [lost] = await agent.notifications()
        read = world.journal.notes

        async def busy(kind: str, *, after: int = 0) -> Any:
            found = await read(kind, after=after)
            await world.journal.write_notes(kind, {})
            return found

        world.journal.notes = busy  # type: ignore[method-assign]
        with trio.fail_after(60):
            assert (await agent.retry_notification(lost.id)).state == "pending"
        world.journal.notes = read  # type: ignore[method-assign]
        await trio.sleep(60)
    assert channels.kinds() == ["approval.requested"]


async def test_a_clock_that_is_set_back_delays_nothing(
    autojump_clock: MockClock, world: World, channels: FakeChannels, monkeypatch: pytest.MonkeyPatch
) -> None:
    channels.fails = lambda name: DOWN
    back = 0.0
    monkeypatch.setattr("tests.actors.world.wall", lambda: wall() - back)
    async with world.agent() as agent:
        await ask(agent)
        await trio.sleep(30)
        back = 86_400.0
        channels.fails = lambda name: None
        await trio.sleep(120)
    assert channels.kinds() == ["approval.requested"]


async def test_hidden_characters_are_shown(
    autojump_clock: MockClock, world: World, channels: FakeChannels
) -> None:
    async with world.agent() as agent:
        await agent.decide(await ask(agent), {"approved": True, "decided_by": "ann\u202egpj"})
        await trio.sleep(1)
    assert channels.told[-1].data["decided_by"] == "ann\\u202egpj"
