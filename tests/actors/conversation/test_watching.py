"""Watching all conversations: live, filtered, with a gap where a slow watcher has missed events."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from trio.testing import MockClock

from stopgo.actors.agent import agent_reads
from stopgo.actors.agent.watch import Announced, Filter, Gap, Watched
from stopgo.actors.log.words.deltas import AnyDelta, ModelDelta, ToolProgress
from stopgo.actors.log.writer.topics import Published
from stopgo.actors.models.messages.messages import TextDelta
from stopgo.actors.tools.tool import Progress
from stopgo.runtime.journal.protocol import Event
from tests.actors.world import DESTRUCTIVE, World, call, events, say, use

EVENT = Event("c1", 5, "approval.requested", 0.0, {})
DELTA = ModelDelta("c1", 5, "1/:1", "agent", "fast", 1, TextDelta("He"))
PROGRESS = ToolProgress("c1", 5, "1/:1.0", 1, "agent", "index", "files", Progress(1.0))


async def rest(watched: AsyncIterator[Watched]) -> list[Watched]:
    return [each async for each in watched]


async def test_every_event_of_every_conversation_comes_with_the_status_after_it(
    world: World, autojump_clock: MockClock
) -> None:
    world.tool("wipe", DESTRUCTIVE)
    world.plan("agent", use(call("wipe")), say("done"))
    async with world.agent() as agent:
        before = (await agent.start_conversation()).conversation.id
        with agent.all_events() as watched:
            asked = await agent.start_conversation("go")
            await agent.send(before, "hi")
            await agent.delete(before)
            stored = await events(world.journal, asked.conversation.id)
            [question] = asked.conversation.head.pending
            await agent.decide(question, {"approved": True})
    seen = [each for each in await rest(watched) if isinstance(each, Announced)]
    ours = [each for each in seen if each.event.stream == asked.conversation.id]
    assert [each.event for each in ours][: len(stored)] == list(stored)
    statuses = {each.event.type: each.status for each in ours}
    assert statuses["approval.requested"] == statuses["run.waiting"] == "waiting_approval"
    assert statuses["run.started"] == "waiting_approval"  # it is committed together with the question
    assert statuses["approval.resolved"] == statuses["run.finished"] == "active"
    theirs = [each.event for each in seen if each.event.stream == before]
    assert theirs[0].seq == 2  # its first event is older than the watch
    assert [each.seq for each in theirs] == list(range(2, 2 + len(theirs)))
    assert theirs[-1].type == "conversation.deleted"


async def test_slow_watcher_gets_one_gap_for_missed_events(
    world: World, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Buffered events are dropped, too: they are older than the data that it reads after the gap."""
    monkeypatch.setattr(agent_reads, "BUFFER", 30)
    world.plan("agent", *[say("done")] * 11)
    async with world.agent() as agent:
        id = (await agent.start_conversation()).conversation.id
        other = (await agent.start_conversation()).conversation.id
        with agent.all_events() as watched, agent.all_events(conversations=[other]) as filtered:
            for _ in range(10):
                await agent.send(id, "hi")
            assert await anext(watched) == Gap()
            await agent.send(other, "hi")
    after = [each for each in await rest(watched) if isinstance(each, Announced)]
    assert {each.event.stream for each in after} == {other}
    assert [each.event.type for each in after] == [
        "message.added",
        "run.started",
        "step.finished",
        "run.finished",
    ]
    # Events that a filter leaves out take no place in the buffer.
    assert await rest(filtered) == after


@pytest.mark.parametrize(
    ("wanted", "item", "passes"),
    [
        ({}, EVENT, True),
        ({}, DELTA, False),
        ({"deltas": True}, DELTA, True),
        ({"deltas": True}, PROGRESS, True),
        ({"statuses": ["waiting_approval"]}, EVENT, True),
        ({"statuses": ["completed", "active"]}, EVENT, False),
        ({"conversations": ["c2", "c1"]}, EVENT, True),
        ({"conversations": ["c2"]}, EVENT, False),
        ({"conversations": ["c2"], "deltas": True}, PROGRESS, False),
        ({"types": ["approval.requested"]}, EVENT, True),
        ({"types": ["approval.*"]}, EVENT, True),
        ({"types": ["approval"]}, EVENT, False),
        ({"types": ["run.*", "approval.void"]}, EVENT, False),
        ({"types": ["run.*"], "deltas": True}, DELTA, False),
        ({"types": ["model.delta"], "deltas": True}, DELTA, True),
        ({"types": ["tool.*"], "deltas": True}, PROGRESS, True),
        ({"types": ["approval.*"], "conversations": ["c2"]}, EVENT, False),
    ],
)
def test_filter_selects_events(wanted: dict[str, Any], item: Event | AnyDelta, passes: bool) -> None:
    assert Filter(**wanted).wants(Published(item, "waiting_approval")) is passes
