"""What a run is ahead of its journal: one commit for what follows from each other, and nothing twice."""

from __future__ import annotations

from typing import Any

import pytest
import trio
import trio.testing
from trio.testing import MockClock

from stopgo.actors.flusher import Flusher
from stopgo.actors.models.messages import ModelReply, ModelRequest
from stopgo.runtime.journal.memory import MemoryJournal
from tests.actors.world import READ_ONLY, World, call, events, once, say, use, wall


class Commits(MemoryJournal):
    """Remembers what was saved together."""

    def __init__(self) -> None:
        super().__init__(wall)
        self.saved: list[list[str]] = []

    async def save(self, *args: Any, **options: Any) -> Any:
        self.saved.append([event.type for event in args[2]])
        return await super().save(*args, **options)


@pytest.fixture
def commits(world: World) -> Commits:
    world.journal = Commits()
    return world.journal


async def test_the_commits_of_a_turn(world: World, commits: Commits, autojump_clock: MockClock) -> None:
    world.tool("look", READ_ONLY)
    world.plan("agent", use(call("look", name="a")), say("done"))
    async with world.agent() as agent:
        await agent.start_conversation("go")
    assert commits.saved == [
        ["conversation.created", "message.added", "run.started"],
        ["step.finished", "tool.started"],
        ["tool.finished", "batch.finished"],
        ["step.finished", "run.finished"],
    ]


async def test_calls_after_each_other_share_commits(
    world: World, commits: Commits, autojump_clock: MockClock
) -> None:
    world.settings["tools"] = {"max_parallel": 1}
    world.tool("look", READ_ONLY)
    world.plan("agent", use(*(call("look", name=str(n)) for n in range(5))), say("done"))
    async with world.agent() as agent:
        await agent.start_conversation("go")
    assert commits.saved[2:6] == 4 * [["tool.finished", "tool.started"]]


async def test_a_model_is_told_what_is_on_disk(
    world: World, commits: Commits, autojump_clock: MockClock
) -> None:
    on_disk: list[str] = []

    async def think(_: ModelRequest) -> ModelReply:
        on_disk.extend(commits.saved[-1])
        await trio.lowlevel.checkpoint()
        return say("done")

    world.tool("look", READ_ONLY)
    world.plan("agent", use(call("look", name="a")), think)
    async with world.agent() as agent:
        await agent.start_conversation("go")
    assert on_disk == ["tool.finished", "batch.finished"]


async def test_what_nothing_follows_is_on_disk_at_once(
    world: World, commits: Commits, autojump_clock: MockClock
) -> None:
    comes = trio.Event()

    async def slow(_: Any) -> str:
        await comes.wait()
        return "at last"

    world.tool("look", READ_ONLY)
    world.tool("stare", READ_ONLY, slow, server="slow")
    world.plan("agent", use(call("look", name="a"), call("stare", name="b")), say("done"))
    async with world.agent() as agent:
        id = (await agent.start_conversation("go", wait=False)).conversation.id
        await trio.testing.wait_all_tasks_blocked()
        assert commits.saved[-1] == ["tool.finished"]
        assert (await agent.get(id)).messages[-2].content == "look ok"
        comes.set()
        await trio.testing.wait_all_tasks_blocked()


async def test_a_shutdown_leaves_nothing_behind(
    world: World, commits: Commits, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The flusher has not come round yet when a run is stopped between two steps."""
    monkeypatch.setattr(Flusher, "soon", lambda *_: None)
    thinks = trio.Event()
    world.tool("look", READ_ONLY)
    world.plan("agent", once(thinks, use(call("look", name="a"))), say("done"))
    async with trio.open_nursery() as nursery:
        async with world.agent() as agent:
            id = (await agent.start_conversation("go", wait=False)).conversation.id
            await trio.testing.wait_all_tasks_blocked()

            async def reply_while_it_drains() -> None:
                await agent.draining.wait()
                thinks.set()

            nursery.start_soon(reply_while_it_drains)
    assert [event.type for event in await events(commits, id)][-2:] == ["run.started", "step.finished"]
    world.plan("agent", say("not asked again"), say("done"))
    async with world.agent() as agent:
        await trio.testing.wait_all_tasks_blocked()
        assert (await agent.get(id)).messages[-1].content == "done"
