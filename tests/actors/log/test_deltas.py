"""Deltas of model replies: published to followers, never stored."""

from __future__ import annotations

from contextlib import aclosing

import pytest
import trio
from trio.testing import MockClock

from stopgo.actors.agent.agent import Agent
from stopgo.actors.log.words.deltas import AnyDelta, ModelDelta
from stopgo.actors.log.writer.topics import ConversationTopic
from stopgo.actors.models.messages.messages import ArgumentsDelta, ModelFailed, TextDelta
from stopgo.runtime.journal.protocol import Event
from tests.actors.world import (
    READ_ONLY,
    Streamed,
    World,
    after,
    answer,
    call,
    events,
    llm,
    parallel,
    say,
    use,
)


def pieces(text: str) -> tuple[TextDelta, ...]:
    return tuple(TextDelta(char) for char in text)


async def collect(agent: Agent, id: str, into: list[Event | AnyDelta], until: str = "run.finished") -> None:
    async with aclosing(agent.events(id, deltas=True)) as stream:
        async for item in stream:
            into.append(item)
            if isinstance(item, Event) and item.type == until:
                return


async def followed(world: World, message: str = "go") -> list[Event | AnyDelta]:
    seen: list[Event | AnyDelta] = []
    async with world.agent() as agent:
        id = (await agent.start_conversation()).conversation.id
        async with trio.open_nursery() as nursery:
            nursery.start_soon(collect, agent, id, seen)
            await agent.send(id, message)
        assert [item for item in seen if isinstance(item, Event)] == list(await events(world.journal, id))
    return seen


def received(seen: list[Event | AnyDelta]) -> list[tuple[str, int, str]]:
    """Runs of pieces, with the model and the attempt."""
    found: list[tuple[str, int, str]] = []
    for item in seen:
        if isinstance(item, ModelDelta) and isinstance(item.delta, TextDelta):
            source = (item.model, item.attempt)
            if found and found[-1][:2] == source:
                found[-1] = (*source, found[-1][2] + item.delta.text)
            else:
                found.append((*source, item.delta.text))
    return found


async def test_deltas_arrive_between_their_events_with_their_keys(
    world: World, autojump_clock: MockClock
) -> None:
    world.tool("list", READ_ONLY)
    wanted = (TextDelta("Let me"), ArgumentsDelta(0, "list", '{"na'), ArgumentsDelta(0, "list", 'me": "x"}'))
    world.plan("agent", Streamed(wanted, use(call("list", name="x"))), Streamed(pieces("ok"), say("ok")))
    seen = await followed(world)
    at = {
        item.body["key"]: n
        for n, item in enumerate(seen)
        if isinstance(item, Event) and item.type == "step.finished"
    }
    first = [n for n, item in enumerate(seen) if isinstance(item, ModelDelta) and item.key == "1/:1"]
    second = [n for n, item in enumerate(seen) if isinstance(item, ModelDelta) and item.key == "1/:2"]
    assert [seen[n].delta for n in first] == list(wanted)  # type: ignore[union-attr]
    assert max(first) < at["1/:1"] < min(second) < max(second) < at["1/:2"]
    one = seen[first[0]]
    assert isinstance(one, ModelDelta)
    assert (one.node, one.model, one.attempt) == ("agent", "test:model", 1)
    assert received(seen) == [("test:model", 1, "Let meok")]


async def test_retry_and_next_model_have_higher_attempt_numbers(
    world: World, autojump_clock: MockClock
) -> None:
    world.settings["llm"] = {"model": "test:a", "fallbacks": ["test:b"]}
    lost = ModelFailed("the connection was lost", retryable=True)
    world.models["test:a"] = [
        Streamed(pieces("on"), lost),
        Streamed(pieces("one"), lost),
        Streamed((), ModelFailed("gone")),
    ]
    world.models["test:b"] = [Streamed(pieces("tw"), lost), Streamed(pieces("two"), say("two"))]
    seen = await followed(world)
    assert received(seen) == [
        ("test:a", 1, "on"),
        ("test:a", 2, "one"),
        ("test:b", 3, "tw"),
        ("test:b", 4, "two"),
    ]


async def test_deltas_of_branches_differ_by_key_and_node(world: World, autojump_clock: MockClock) -> None:
    world.settings["agent"] = parallel("p", llm("a"), llm("b"))
    for name in "ab":
        world.plan(name, Streamed(pieces(name * 3), say(name)))
    seen = await followed(world)
    deltas = {(item.node, item.key): item.delta for item in seen if isinstance(item, ModelDelta)}
    assert set(deltas) == {("a", "1/.0:1"), ("b", "1/.1:1")}


async def test_follower_without_deltas_gets_events_only(world: World, autojump_clock: MockClock) -> None:
    world.plan("agent", Streamed(pieces("x" * 1000), say("done"), pause=0))
    seen: list[str] = []
    async with world.agent() as agent:
        id = (await agent.start_conversation()).conversation.id
        async with trio.open_nursery() as nursery:

            async def read() -> None:
                async with aclosing(agent.events(id)) as stream:
                    async for event in stream:
                        seen.append(event.type)
                        if event.type == "run.finished":
                            return

            nursery.start_soon(read)
            assert answer(await agent.send(id, "go")).response == "done"
        log = await events(world.journal, id)
    assert seen == [event.type for event in log]


@pytest.mark.parametrize("pace", [0.01, 0.5, 100.0])
async def test_slow_reader_loses_deltas_but_no_events(
    world: World, autojump_clock: MockClock, pace: float
) -> None:
    world.tool("list", READ_ONLY)
    world.plan(
        "agent",
        *[Streamed(pieces("x" * 400), use(*[call("list")] * 30), pause=0.001)] * 3,
        Streamed(pieces("y" * 400), say("done"), pause=0.001),
    )
    seen: list[Event | AnyDelta] = []
    async with world.agent() as agent:
        id = (await agent.start_conversation()).conversation.id

        async def read() -> None:
            async with aclosing(agent.events(id, deltas=True)) as stream:
                async for item in stream:
                    seen.append(item)
                    if len(seen) % 100 == 0:
                        await trio.sleep(pace)
                    if isinstance(item, Event) and item.type == "conversation.completed":
                        return

        async with trio.open_nursery() as nursery:
            nursery.start_soon(read)
            await agent.send(id, "go")
            await trio.sleep(2000)  # so much that is older than what was read is still to come
            await agent.complete(id)
        log = await events(world.journal, id)
    assert [item for item in seen if isinstance(item, Event)] == list(log)
    # What does come is in its place.
    seq, over = 0, set()
    for item in seen:
        if isinstance(item, Event):
            seq = item.seq
            over.add(item.body.get("key"))
        else:
            assert item.after == seq
            assert item.key not in over


async def test_missed_events_are_read_again_when_only_deltas_follow(
    world: World, autojump_clock: MockClock
) -> None:
    async with world.agent() as agent:
        id = (await agent.start_conversation()).conversation.id
        seen: list[str] = []
        async with aclosing(agent.events(id, deltas=True)) as stream:
            async for item in stream:
                if isinstance(item, ModelDelta):
                    break
                seen.append(item.type if isinstance(item, Event) else "")
                if len(seen) == 1:
                    last = (await agent.send(id, "hi")).conversation.last_seq
                    piece = ModelDelta(id, last, "1/:2", "n", "m", 1, TextDelta("x"))
                    for _ in range(1000):
                        agent._cast.services.logs.bus.publish(ConversationTopic(id), piece)
        assert seen == [event.type for event in await events(world.journal, id)]


async def test_late_follower_gets_deltas_from_then_on(world: World, autojump_clock: MockClock) -> None:
    world.plan("agent", Streamed(pieces("abcdef"), say("abcdef")), after(1, say("done")))
    seen: list[Event | AnyDelta] = []
    async with world.agent() as agent:
        turn = await agent.post_conversation("go")
        await trio.sleep(2.5)
        await collect(agent, turn.conversation.id, seen)
    assert received(seen) == [("test:model", 1, "def")]
    assert isinstance(seen[-1], Event)
    assert seen[-1].body["text"] == "abcdef"
