"""Pending writes: their commits, and what a crash or an error leaves of them."""

from __future__ import annotations

from typing import Any

import pytest
import trio
import trio.testing
from trio.testing import MockClock

from stopgo.actors.log.fold.past import NOT_SENT
from stopgo.actors.log.writer.write_behind import Flusher
from stopgo.actors.models.messages.messages import ModelReply, ModelRequest
from stopgo.actors.tools.tool import ToolOutcomeUnknown
from stopgo.runtime.event_bus import ACTORS, Crashed
from stopgo.runtime.journal.errors import Fenced, JournalError
from stopgo.runtime.journal.memory.memory_journal import MemoryJournal
from stopgo.runtime.journal.protocol import Commit, Saved
from tests.actors.world import (
    HARMLESS,
    READ_ONLY,
    World,
    after,
    answer,
    call,
    events,
    llm,
    once,
    parallel,
    say,
    sequential,
    use,
    wall,
)


class Commits(MemoryJournal):
    """A journal that records its commits."""

    def __init__(self) -> None:
        super().__init__(wall)
        self.saved: list[list[str]] = []

    async def save(self, commit: Commit) -> Saved:
        self.saved.append([event.type for event in commit.events])
        return await super().save(commit)


@pytest.fixture
def commits(world: World) -> Commits:
    world.journal = Commits()
    return world.journal


async def test_turn_makes_the_expected_commits(
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


async def test_consecutive_calls_share_commits(
    world: World, commits: Commits, autojump_clock: MockClock
) -> None:
    world.settings["tools"] = {"max_parallel": 1}
    world.tool("look", READ_ONLY)
    world.plan("agent", use(*(call("look", name=str(n)) for n in range(5))), say("done"))
    async with world.agent() as agent:
        await agent.start_conversation("go")
    assert commits.saved[1:5] == 4 * [["tool.finished", "tool.started"]]


@pytest.mark.parametrize(
    ("work", "outcome"),
    [(None, "tool.finished"), (ToolOutcomeUnknown("the connection broke"), "tool.unknown")],
)
async def test_once_result_is_on_disk_before_the_model_gets_it(
    work: Exception | None, outcome: str, world: World, commits: Commits, autojump_clock: MockClock
) -> None:
    """The message of the run is in the inbox; the outcome of a `once` call is among the events."""
    kept: list[tuple[bool, list[list[str]]]] = []

    async def look_around() -> None:
        (id,) = await commits.open_work()
        kept.append((any(await commits.inbox(id)), list(commits.saved)))

    async def first(_: ModelRequest) -> ModelReply:
        await look_around()
        return use(call("look", name="a"))

    async def second(_: ModelRequest) -> ModelReply:
        await look_around()
        return say("done")

    world.tool("look", HARMLESS, work)
    world.plan("agent", first, second)
    async with world.agent() as agent:
        await agent.start_conversation("go")
    assert kept[0] == (True, [])
    assert not kept[1][0]
    assert kept[1][1][-1] == [outcome]


async def test_failure_is_on_disk_before_a_model_hears_of_it(
    world: World, commits: Commits, autojump_clock: MockClock
) -> None:
    """Another process might not fail in the same way."""
    kept: list[str] = []

    async def hear(_: ModelRequest) -> ModelReply:
        kept.extend(commits.saved[-1])
        return say("done")

    world.settings["agent"] = sequential("root", llm("fails", on_error="continue"), llm("hears"))
    world.plan("fails", ValueError("no"))
    world.plan("hears", hear)
    async with world.agent() as agent:
        await agent.start_conversation("go")
    assert kept == ["step.finished"]


async def test_result_is_flushed_while_the_model_is_asked(
    world: World, commits: Commits, autojump_clock: MockClock
) -> None:
    thinks = trio.Event()
    world.tool("look", READ_ONLY)
    world.plan("agent", use(call("look", name="a")), once(thinks, say("done")))
    async with world.agent() as agent:
        id = (await agent.post_conversation("go")).conversation.id
        await trio.sleep(1)
        assert commits.saved[-1] == ["tool.finished", "batch.finished"]
        assert (await agent.get(id)).messages[-1].content == "look ok"
        thinks.set()
        await trio.testing.wait_all_tasks_blocked()


async def test_call_is_sent_after_all_pending_writes_are_committed(
    world: World, commits: Commits, autojump_clock: MockClock
) -> None:
    """The result that a model has thought over is in the commit of the intent which that came to."""
    kept: list[list[str]] = []

    async def change(_: Any) -> str:
        kept.extend(commits.saved)
        return "changed"

    world.tool("look", READ_ONLY)
    world.tool("change", HARMLESS, change)
    world.plan("agent", use(call("look", name="a")), use(call("change", name="a")), say("done"))
    async with world.agent() as agent:
        await agent.start_conversation("go")
    assert kept[-1] == ["tool.finished", "batch.finished", "step.finished", "tool.started"]


@pytest.mark.repeat(10)
async def test_message_with_pending_writes_is_not_executed_again(
    world: World, commits: Commits, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its row in the inbox is open until the commit, and a wake makes the conversation read the inbox."""
    monkeypatch.setattr(Flusher, "soon", lambda *_: None)
    thinks = trio.Event()
    answers: list[str] = []
    world.plan("agent", once(thinks, say("first")), say("second"))
    async with world.agent() as agent:

        async def begin() -> None:
            answers.append(answer(await agent.start_conversation("go", key="first")).response)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(begin)
            await trio.testing.wait_all_tasks_blocked()
            (id,) = await commits.open_work()
            assert [command.key for command in await commits.inbox(id)] == ["first"]
            await agent.post(id, "again")  # it queues behind the live run
            await trio.testing.wait_all_tasks_blocked()
            thinks.set()
        assert answers == ["first"]
        await trio.testing.wait_all_tasks_blocked()
    texts = [each.body["text"] for each in await events(commits, id) if each.type == "message.added"]
    assert texts == ["go", "again"]


async def test_readers_get_the_committed_state(
    world: World, commits: Commits, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    flushes: list[Any] = []
    monkeypatch.setattr(Flusher, "soon", lambda self, who, flush: flushes.append(flush))
    thinks = trio.Event()
    world.plan("agent", once(thinks, say("done")))
    async with world.agent() as agent:
        id = (await agent.start_conversation()).conversation.id
        await agent.post(id, "go")
        await trio.testing.wait_all_tasks_blocked()
        assert (await agent.get(id)).last_seq == 1
        flushes[0]()
        await trio.testing.wait_all_tasks_blocked()
        assert (await agent.get(id)).last_seq == 3
        thinks.set()
        await trio.testing.wait_all_tasks_blocked()


async def test_last_pending_write_is_flushed(
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
        id = (await agent.post_conversation("go")).conversation.id
        await trio.sleep(1)
        assert commits.saved[-1] == ["tool.finished"]
        assert (await agent.get(id)).messages[-2].content == "look ok"
        comes.set()
        await trio.testing.wait_all_tasks_blocked()


async def test_shutdown_flushes_pending_writes(
    world: World, commits: Commits, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run is stopped between two steps, before the flusher's next pass."""
    monkeypatch.setattr(Flusher, "soon", lambda *_: None)
    thinks = trio.Event()
    world.tool("look", READ_ONLY)
    world.plan("agent", once(thinks, use(call("look", name="a"))), say("done"))
    async with trio.open_nursery() as nursery:
        async with world.agent() as agent:
            id = (await agent.post_conversation("go")).conversation.id
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


@pytest.mark.repeat(10)
async def test_failing_flush_does_not_stop_other_flushes(world: World, autojump_clock: MockClock) -> None:
    """A conversation that unwinds can start no task, so it must not ask for a flush."""

    saving = trio.Event()

    class Choosy(MemoryJournal):
        async def save(self, commit: Commit) -> Saved:
            if any(event.body.get("text") == "poison" for event in commit.events):
                saving.set()
                for _ in range(20):  # meanwhile the other branch waits for its turn to save
                    await trio.lowlevel.checkpoint()
                raise TypeError("this is not JSON")
            return await super().save(commit)

    thinks = trio.Event()
    world.journal = Choosy(wall)
    world.settings["agent"] = parallel("root", llm("bad"), llm("busy"))
    world.tool("change", HARMLESS)
    world.plan("bad", *4 * [say("poison")])
    world.plan("busy", *4 * [once(saving, use(call("change", name="a")))])
    async with world.agent() as agent:
        with agent._cast.services.logs.bus.subscribe(ACTORS, buffer=1000) as heard:
            assert answer(await agent.start_conversation("go")).code == "internal_error"
            world.plan("bad", once(thinks, say("good")))
            world.plan("busy", say("done"))
            id = (await agent.post_conversation("go")).conversation.id
            await trio.sleep(1)
            kept = [event.type for event in await events(world.journal, id)]
            assert kept[-2:] == ["step.finished", "step.finished"]  # while the other model still thinks
            thinks.set()
            await trio.sleep(1)
        crashed = {item.actor async for item in heard if isinstance(item, Crashed)}
    assert {name.partition(":")[0] for name in crashed} == {"conversation"}


class FailsOnce(MemoryJournal):
    """Refuses a save that says "too much", which crashes the conversation."""

    failed = False

    async def save(self, commit: Commit) -> Saved:
        await trio.lowlevel.checkpoint()
        if not self.failed and any(event.body.get("text") == "too much" for event in commit.events):
            self.failed = True
            raise JournalError("no")
        return await super().save(commit)


@pytest.mark.repeat(5)
async def test_result_after_a_crash_of_its_conversation_is_saved(
    world: World, autojump_clock: MockClock
) -> None:
    """A `once` call still gets its result; otherwise a human would be asked for its outcome."""

    async def slow(_: Any) -> str:
        await trio.sleep(2)
        return "changed"

    world.journal = FailsOnce(wall)
    world.settings["agent"] = parallel("root", llm("one"), llm("two"))
    world.tool("change", HARMLESS, slow)
    world.plan("one", use(call("change", name="a")), say("done"))
    world.plan("two", after(1, say("too much")), say("done"))
    async with world.agent() as agent:
        turn = await agent.start_conversation("go")
    assert answer(turn).state == "finished"
    assert world.journal.failed
    kept = [event.type for event in await events(world.journal, turn.conversation.id)]
    assert (kept.count("tool.finished"), kept.count("tool.unknown"), world.called("change")) == (1, 0, 1)


@pytest.mark.repeat(5)
async def test_unsent_call_of_a_crashed_conversation_is_recorded(
    world: World, autojump_clock: MockClock
) -> None:
    world.journal = FailsOnce(wall)
    world.settings["agent"] = parallel("root", llm("one"), llm("two"))
    world.tool("change", HARMLESS)
    world.out_of_reach = 4
    world.plan("one", use(call("change", name="a")), say("done"))
    world.plan("two", after(1, say("too much")), say("done"))
    async with world.agent() as agent:
        turn = await agent.start_conversation("go")
    assert world.journal.failed
    assert [m.call.result for m in turn.conversation.messages if m.call] == [NOT_SENT]
    kept = [event.type for event in await events(world.journal, turn.conversation.id)]
    assert (kept.count("tool.finished"), kept.count("tool.unknown"), world.called("change")) == (1, 0, 0)


class SlowEnds(MemoryJournal):
    """The ends of calls take long to commit, and can be cancelled before."""

    async def save(self, commit: Commit) -> Saved:
        if commit.settle:
            await trio.sleep(10)
        return await super().save(commit)


async def test_call_whose_commit_is_cancelled_has_one_end(world: World, autojump_clock: MockClock) -> None:
    world.journal = SlowEnds(wall)
    world.settings["agent"] = llm("one", timeout=1)
    world.tool("look", HARMLESS)
    world.plan("one", use(call("look")), say("done"))
    async with world.agent() as agent:
        turn = await agent.start_conversation("go")
    found = await events(world.journal, turn.conversation.id)
    ends = [each.type for each in found if each.type.startswith("tool.")]
    assert ends == ["tool.started", "tool.finished"]


class Lost(MemoryJournal):
    """The journal of a member that loses its conversations while one of their reads takes long."""

    is_lost = False
    attempts = 0

    async def save(self, commit: Commit) -> Saved:
        if self.is_lost:
            self.attempts += 1
            raise Fenced("another node owns it")
        return await super().save(commit)

    async def inbox(self, *args: Any, **options: Any) -> Any:
        if self.is_lost:
            with trio.CancelScope(shield=True):
                await trio.sleep(10)
        return await super().inbox(*args, **options)


async def test_flush_that_fails_is_not_repeated_while_the_conversation_ends(
    world: World, autojump_clock: MockClock
) -> None:
    world.journal = journal = Lost(wall)

    async def slowly(_: object) -> str:
        await trio.sleep(2)
        return "ok"

    world.tool("look", READ_ONLY, slowly)
    world.plan("agent", use(call("look")), after(100, say("done")))
    async with world.agent() as agent:
        id = (await agent.post_conversation("go")).conversation.id
        await trio.sleep(1)
        journal.is_lost = True
        await agent.post(id, "more")
        await trio.sleep(9)
        assert 1 <= journal.attempts <= 2
        journal.is_lost = False
