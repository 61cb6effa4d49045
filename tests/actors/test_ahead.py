"""What a run is ahead of its journal: one commit for what follows from each other, and nothing twice."""

from __future__ import annotations

from typing import Any

import pytest
import trio
import trio.testing
from trio.testing import MockClock

from stopgo.actors.flusher import Flusher
from stopgo.actors.models.messages import ModelReply, ModelRequest
from stopgo.actors.result import Turn
from stopgo.runtime.journal.memory import MemoryJournal
from stopgo.runtime.journal.protocol import Event
from tests.actors.world import HARMLESS, READ_ONLY, World, answer, call, events, once, say, use, wall


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


async def test_a_turn_with_a_call_that_reads_is_two_commits(
    world: World, commits: Commits, autojump_clock: MockClock
) -> None:
    world.tool("look", READ_ONLY)
    world.plan("agent", use(call("look", name="a")), say("done"))
    async with world.agent() as agent:
        await agent.start_conversation("go")
    assert commits.saved == [
        ["conversation.created", "message.added", "run.started", "step.finished", "tool.started"],
        ["tool.finished", "batch.finished", "step.finished", "run.finished"],
    ]


async def test_calls_after_each_other_share_commits(
    world: World, commits: Commits, autojump_clock: MockClock
) -> None:
    world.settings["tools"] = {"max_parallel": 1}
    world.tool("look", READ_ONLY)
    world.plan("agent", use(*(call("look", name=str(n)) for n in range(5))), say("done"))
    async with world.agent() as agent:
        await agent.start_conversation("go")
    assert commits.saved[1:5] == 4 * [["tool.finished", "tool.started"]]


async def test_the_result_of_a_call_that_must_not_be_repeated_is_waited_for(
    world: World, commits: Commits, autojump_clock: MockClock
) -> None:
    kept: list[str] = []

    async def think(_: ModelRequest) -> ModelReply:
        await trio.lowlevel.checkpoint()
        kept.extend(commits.saved[-1])
        return say("done")

    world.tool("change", HARMLESS)
    world.plan("agent", use(call("change", name="a")), think)
    async with world.agent() as agent:
        await agent.start_conversation("go")
    assert kept == ["tool.finished"]


async def test_while_a_model_thinks_everything_before_is_on_disk(
    world: World, commits: Commits, autojump_clock: MockClock
) -> None:
    thinks = trio.Event()
    world.tool("look", READ_ONLY)
    world.plan("agent", use(call("look", name="a")), once(thinks, say("done")))
    async with world.agent() as agent:
        id = (await agent.start_conversation("go", wait=False)).conversation.id
        await trio.testing.wait_all_tasks_blocked()
        assert commits.saved[-1] == ["tool.finished", "batch.finished"]
        assert (await agent.get(id)).messages[-1].content == "look ok"
        thinks.set()
        await trio.testing.wait_all_tasks_blocked()


@pytest.mark.repeat(10)
async def test_a_message_that_was_taken_in_is_not_taken_in_again(
    world: World, commits: Commits, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its inbox row is open until the commit; whoever wakes the conversation meanwhile has it look there."""
    thinks = trio.Event()
    flushes: list[Any] = []
    monkeypatch.setattr(Flusher, "soon", lambda self, who, flush: flushes.append(flush))
    world.plan("agent", once(thinks, say("first")), say("second"))
    async with world.agent() as agent:
        async with trio.open_nursery() as nursery:
            first: list[Turn] = []

            async def begin() -> None:
                first.append(await agent.start_conversation("go", key="first"))

            nursery.start_soon(begin)
            await trio.testing.wait_all_tasks_blocked()
            (id,) = await commits.open_work()
            assert [command.key for command in await commits.inbox(id)] == ["first"]
            await agent.send(id, "again", wait=False)  # it queues behind the live run
            await trio.testing.wait_all_tasks_blocked()
            thinks.set()
        assert answer(first[0]).response == "first"
        await trio.testing.wait_all_tasks_blocked()
    history: tuple[Event, ...] = await events(commits, id)
    texts = [event.body["text"] for event in history if event.type == "message.added"]
    assert texts == ["go", "again"]
    assert flushes


async def test_readers_are_shown_what_is_on_disk(
    world: World, commits: Commits, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    thinks = trio.Event()
    flushes: list[Any] = []
    monkeypatch.setattr(Flusher, "soon", lambda self, who, flush: flushes.append(flush))
    world.plan("agent", once(thinks, say("done")))
    async with world.agent() as agent:
        id = (await agent.start_conversation()).conversation.id
        await agent.send(id, "go", wait=False)
        await trio.testing.wait_all_tasks_blocked()
        assert (await agent.get(id)).last_seq == 1
        flushes[0]()
        await trio.testing.wait_all_tasks_blocked()
        assert (await agent.get(id)).last_seq == 3
        thinks.set()
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
        assert answer_of(await agent.get(id)) == "done"


def answer_of(conversation: Any) -> str:
    return str(conversation.messages[-1].content)
