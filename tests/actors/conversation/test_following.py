"""Following a conversation: stored events, then live ones, in order, without gaps."""

from __future__ import annotations

from contextlib import aclosing

import pytest
import trio
import trio.testing
from trio.testing import MockClock

from stopgo.actors.agent import follow
from stopgo.actors.agent.agent import Agent
from stopgo.actors.agent.lists import LogEnd
from stopgo.actors.common.errors import AgentError
from stopgo.actors.log.fold import stored
from stopgo.actors.log.writer.topics import EXPIRIES, ConversationTopic
from stopgo.runtime.journal.protocol import Event, NewEvent
from tests.actors.world import (
    DESTRUCTIVE,
    HARMLESS,
    World,
    after,
    answer,
    call,
    code_of,
    events,
    say,
    types,
    use,
)
from tests.runtime.journal.kept import reply_of


async def collect(agent: Agent, id: str, into: list[Event], start: int = 0) -> None:
    async with aclosing(agent.events(id, start)) as stream:
        async for event in stream:
            into.append(event)
            if event.type == "conversation.completed":
                return


async def test_replay_and_live_are_one_stream(world: World, autojump_clock: MockClock) -> None:
    world.tool("put", HARMLESS)
    world.plan("agent", use(call("put")), after(5, say("done")))
    seen: dict[str, list[Event]] = {"early": [], "middle": [], "late": [], "half": []}
    async with world.agent() as agent:
        id = (await agent.start_conversation()).conversation.id
        async with trio.open_nursery() as nursery:
            nursery.start_soon(collect, agent, id, seen["early"])
            nursery.start_soon(agent.send, id, "one")
            await trio.sleep(1)
            nursery.start_soon(collect, agent, id, seen["middle"])
            await trio.sleep(10)
            nursery.start_soon(collect, agent, id, seen["half"], 4)
            await agent.send(id, "two")
            await agent.complete(id)
            await collect(agent, id, seen["late"])
        stored = list(await events(world.journal, id))
    assert seen["early"] == seen["middle"] == seen["late"] == stored
    assert seen["half"] == stored[4:]


async def test_log_end_has_session_and_last_seq(world: World, autojump_clock: MockClock) -> None:
    world.plan("agent", say("done"))
    async with world.agent() as agent:
        turn = await agent.start_conversation("hi", session_id="mine")
        id = turn.conversation.id
        assert await agent.log_end(id) == LogEnd("mine", turn.conversation.last_seq)
        await agent.delete(id)
        assert await code_of(agent.log_end(id)) == "conversation_not_found"


@pytest.mark.parametrize("pace", [0.0, 0.01, 10.0])
async def test_a_slow_reader_misses_nothing(world: World, autojump_clock: MockClock, pace: float) -> None:
    """More events than a subscription holds go by between two of its steps."""
    world.tool("put", HARMLESS)
    world.plan("agent", *[use(*[call("put")] * 40)] * 5, say("done"))
    seen: list[int] = []
    async with world.agent() as agent:
        id = (await agent.start_conversation()).conversation.id

        async def read() -> None:
            async with aclosing(agent.events(id)) as stream:
                async for event in stream:
                    seen.append(event.seq)
                    if len(seen) == 2:
                        await trio.sleep(pace)
                    if event.type == "conversation.completed":
                        return

        async with trio.open_nursery() as nursery:
            nursery.start_soon(read)
            await agent.send(id, "go")
            await agent.complete(id)
        last = (await agent.get(id)).last_seq
    assert last > 400
    assert seen == list(range(1, last + 1))


async def test_reader_gets_last_events_that_the_bus_dropped(world: World, autojump_clock: MockClock) -> None:
    """Whatever else goes by on the topic pushes events out of the buffer; the reader must know."""
    async with world.agent() as agent:
        id = (await agent.start_conversation()).conversation.id
        seen: list[str] = []
        bus = agent._cast.services.logs.bus
        async with aclosing(agent.events(id)) as stream:
            async for event in stream:
                seen.append(event.type)
                if len(seen) == 1:
                    await agent.send(id, "hi")
                    for n in range(1000):
                        bus.publish(ConversationTopic(id), f"something else {n}")
                if event.type == "run.finished":
                    break
        assert seen == await types(world.journal, id)


async def test_a_deleted_conversation_ends_its_streams(world: World, autojump_clock: MockClock) -> None:
    seen: list[Event] = []
    async with world.agent() as agent:
        id = (await agent.start_conversation("hi")).conversation.id
        last = (await agent.get(id)).last_seq

        async def read() -> None:
            async with aclosing(agent.events(id)) as stream:
                async for event in stream:
                    seen.append(event)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(read)
            await trio.testing.wait_all_tasks_blocked()
            await agent.delete(id)
        with pytest.raises(AgentError) as caught:
            async with aclosing(agent.events(id)) as stream:
                await anext(stream)
        assert caught.value.code == "conversation_not_found"
    assert (seen[-1].type, seen[-1].seq) == ("conversation.deleted", last + 1)
    assert seen[-1].at >= seen[-2].at


@pytest.mark.repeat(3)
@pytest.mark.parametrize("ticks", range(14))
async def test_following_while_it_is_deleted_ends(
    world: World, autojump_clock: MockClock, ticks: int
) -> None:
    ended: list[str] = []
    async with world.agent() as agent:
        id = (await agent.start_conversation()).conversation.id

        async def read() -> None:
            try:
                async with aclosing(agent.events(id)) as stream:
                    async for event in stream:
                        last = event.type
                ended.append(last)
            except AgentError as error:
                ended.append(error.code)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(agent.delete, id)
            for _ in range(ticks):
                await trio.lowlevel.checkpoint()
            nursery.start_soon(read)
    assert ended in (["conversation.deleted"], ["conversation_not_found"])


async def test_readers_leave_no_subscriptions(world: World, autojump_clock: MockClock) -> None:
    async with world.agent() as agent:
        id = (await agent.start_conversation("hi")).conversation.id
        async with trio.open_nursery() as nursery:
            for _ in range(20):
                nursery.start_soon(collect, agent, id, [])
            await trio.testing.wait_all_tasks_blocked()
            nursery.cancel_scope.cancel()
        assert answer(await agent.send(id, "more")).state == "finished"
        await trio.sleep(10)
        assert not agent._cast.services.logs.bus._by_topic.keys() - {None, EXPIRIES}


async def test_following_does_not_activate_the_conversation(world: World, autojump_clock: MockClock) -> None:
    world.tool("wipe", DESTRUCTIVE)
    world.plan("agent", use(call("wipe")), say("done"))
    async with world.agent() as agent:
        id = (await agent.start_conversation("go")).conversation.id
        await trio.sleep(10)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(collect, agent, id, [])
            await trio.sleep(10)
            assert not agent._cast.conversations.active
            nursery.cancel_scope.cancel()


async def test_follower_gets_events_after_their_commit(world: World, autojump_clock: MockClock) -> None:
    """The output gate: events, answers and reads, each against what a crash at that moment would leave."""
    world.tool("wipe", DESTRUCTIVE)
    world.plan("agent", use(call("wipe")), say("done"))
    kept = world.journal
    seen: list[Event] = []
    async with world.agent() as agent:
        id = (await agent.start_conversation()).conversation.id

        async def read() -> None:
            async with aclosing(agent.events(id)) as stream:
                async for event in stream:
                    assert event in await kept.events_since(id, 0)
                    seen.append(event)
                    assert (await agent.get(id)).last_seq <= len(await kept.events_since(id, 0))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(read)
            turn = await agent.send(id, "go", key="m")
            assert (await reply_of(kept, id, "m")) is not None
            [question] = turn.conversation.head.pending
            assert (await kept.question(question)) is not None
            await agent.decide(question, {"approved": True}, key="d")
            assert (await reply_of(kept, id, "d")) is not None
            await trio.testing.wait_all_tasks_blocked()
            nursery.cancel_scope.cancel()
        stored = await events(kept, id)
    assert seen == list(stored)
    assert [event.seq for event in seen] == list(range(1, len(seen) + 1))


async def test_follower_ignores_other_publications(world: World, autojump_clock: MockClock) -> None:
    async with world.agent() as agent:
        id = (await agent.start_conversation()).conversation.id
        seen: list[Event] = []
        async with trio.open_nursery() as nursery:
            nursery.start_soon(collect, agent, id, seen)
            await trio.testing.wait_all_tasks_blocked()
            agent._cast.services.logs.bus.publish(ConversationTopic(id), object())
            await agent.complete(id)
    assert [event.type for event in seen] == ["conversation.created", "conversation.completed"]
    assert not isinstance(seen[-1], NewEvent)


async def test_cursor_beyond_the_end_misses_no_later_event(world: World, autojump_clock: MockClock) -> None:
    """An older copy of the journal took its place since."""
    seen: list[Event] = []
    async with world.agent() as agent:
        id = (await agent.start_conversation("one")).conversation.id
        known = (await agent.get(id)).last_seq
        async with trio.open_nursery() as nursery:
            nursery.start_soon(collect, agent, id, seen, known + 40)
            await trio.testing.wait_all_tasks_blocked()
            await agent.send(id, "two")
            await agent.complete(id)
        assert seen == list(await events(world.journal, id))[known:]


@pytest.mark.parametrize("page", [1, 2, 3])
async def test_log_longer_than_a_page_is_read_completely(
    world: World, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch, page: int
) -> None:
    for module in (follow, stored):
        monkeypatch.setattr(module, "PAGE", page)
    async with world.agent() as agent:
        id = (await agent.start_conversation("hi")).conversation.id
    kept = list(await events(world.journal, id))
    seen: list[Event] = []
    async with world.agent() as agent:
        assert (await agent.get(id)).last_seq == len(kept)
        with trio.move_on_after(1):
            await collect(agent, id, seen)
    assert seen == kept
