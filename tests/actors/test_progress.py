"""Progress of calls: published live to followers of a conversation, and never stored."""

from __future__ import annotations

from contextlib import aclosing
from typing import Any

import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from stopgo.actors.log.words.deltas import AnyDelta, ToolProgress
from stopgo.actors.tools.tool import CallTool, Progress, ToolResult
from stopgo.runtime.journal.protocol import Event
from tests.actors.world import READ_ONLY, World, call, events, say, use

FLOOD = 20_000


class Telling(World):
    """A world whose tools tell of their progress."""

    steps = 3
    go: trio.Event

    async def _call(self, message: CallTool) -> ToolResult:
        assert message.on_progress is not None
        await self.go.wait()
        for n in range(self.steps):
            message.on_progress(Progress(n, self.steps, f"step {n}"))
        return await super()._call(message)


def telling(world: World, steps: int = 3) -> Telling:
    telling = Telling(world.folder)
    telling.go, telling.steps = trio.Event(), steps
    telling.tool("count", READ_ONLY, "counted")
    telling.plan("agent", use(call("count", name="a"), call("count", name="b")), say("done"))
    return telling


async def test_progress_is_published_and_not_stored(world: World, autojump_clock: MockClock) -> None:
    world = telling(world)
    seen: list[Event | AnyDelta] = []
    async with world.agent() as agent, trio.open_nursery() as nursery:
        turn = await agent.post_conversation("go")
        id = turn.conversation.id

        async def follow(deltas: bool, into: list[Event | AnyDelta]) -> None:
            async with aclosing(agent.events(id, deltas=deltas)) as log:
                async for item in log:
                    into.append(item)
                    if isinstance(item, Event) and item.type == "run.finished":
                        return

        events_only: list[Event | AnyDelta] = []
        nursery.start_soon(follow, True, seen)
        nursery.start_soon(follow, False, events_only)
        await wait_all_tasks_blocked()
        world.go.set()
    log = await events(world.journal, id)
    assert [item for item in seen if isinstance(item, Event)] == events_only == list(log)
    reports = [item for item in seen if isinstance(item, ToolProgress)]
    assert len(reports) == 6
    for n in (0, 1):
        own = [each for each in reports if each.key == f"1/:1.{n}"]
        assert [each.progress for each in own] == [Progress(m, 3, f"step {m}") for m in range(3)]
        place = (own[0].conversation, own[0].key, own[0].attempt, own[0].node, own[0].tool, own[0].server)
        assert place == (id, f"1/:1.{n}", 1, "agent", "count", "tools")
    assert not any("step 0" in repr(event) for event in log)


async def test_a_flood_of_progress_costs_followers_no_event(world: World, autojump_clock: MockClock) -> None:
    world = telling(world, FLOOD)
    seen: list[int] = []

    async def follow(agent: Any, id: str) -> None:
        async with aclosing(agent.events(id)) as log:
            async for event in log:
                seen.append(event.seq)
                if event.type == "run.finished":
                    return

    async with world.agent() as agent, trio.open_nursery() as nursery:
        turn = await agent.post_conversation("go")
        nursery.start_soon(follow, agent, turn.conversation.id)
        await wait_all_tasks_blocked()
        world.go.set()
    log = await events(world.journal, turn.conversation.id)
    assert log[-1].type == "run.finished"
    assert seen == list(range(1, len(log) + 1))
