"""Agents on one journal that lose a message, the journal or each other: no request waits for ever, nothing is
done in vain again and again, and no member disturbs what another goes on with."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from stopgo.actors.agent.agent import Agent
from stopgo.actors.agent.watch import Announced, Gap, Watched
from stopgo.actors.conversation.commands import Commands
from stopgo.actors.conversation.conversation import IDLE
from stopgo.actors.conversation.run import _crash
from stopgo.actors.log.writer.logs import Logs
from stopgo.actors.tools.delegation import Delegate, Delegated, RemoteAgentMessage, RemoteTask
from stopgo.actors.tools.tool import ToolResult, ToolUnavailable
from stopgo.actors.workers.other_members import POLL
from stopgo.config.sections.a2a import RemoteAgentConfig
from stopgo.runtime.context import Behaviour, Context
from stopgo.runtime.errors import ActorCrashed
from stopgo.runtime.journal.errors import Fenced, JournalUnavailable, StreamDamaged
from stopgo.runtime.journal.memory.memory_journal import MemoryJournal
from stopgo.runtime.journal.ownership import HINTS_LOST, Hint
from stopgo.runtime.journal.protocol import Commit, Saved
from tests.actors.conversation.test_approvers_tokens import BOSS
from tests.actors.gate.test_halt import only
from tests.actors.several_members import LEASE, YES, Members
from tests.actors.world import (
    DESTRUCTIVE,
    READ_ONLY,
    after,
    answer,
    call,
    code_of,
    events,
    llm,
    parallel,
    say,
    types,
    use,
    wall,
)

WEB = {"name": "web", "url": "http://web.test/mcp", "forward_bearer": True}


@pytest.fixture
def members(tmp_path: Path) -> Members:
    return Members(tmp_path, MemoryJournal(wall, lease=LEASE, member="a"))


def _with_tokens(members: Members, *names: str) -> None:
    """The second turn calls a server that needs a token."""
    for name in names:
        world = members.world(name)
        world.settings["mcp_servers"] = [WEB]
        world.tools.clear()
        world.tool("post", server="web")
        world.plan("agent", after(5, say("first")), turn=1)
        world.plan("agent", use(call("post")), say("second"), turn=2)


@contextmanager
def _away(journal: Any, *methods: str) -> Iterator[None]:
    is_away = True

    def failing(method: Callable[..., Awaitable[object]]) -> Callable[..., Awaitable[object]]:
        async def use(*args: Any, **kwargs: Any) -> object:
            await trio.lowlevel.checkpoint()
            if is_away:
                raise JournalUnavailable("no connection")
            return await method(*args, **kwargs)

        return use

    for method in methods:
        setattr(journal, method, failing(getattr(journal, method)))
    yield
    is_away = False


# ------------------------------------------------------------------------- tokens


async def test_poll_finds_a_run_that_needs_the_token_of_this_member(
    members: Members, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(MemoryJournal, "_changed", lambda *_: None)
    _with_tokens(members, "a", "b")
    async with members.agents("a", "b") as (a, b), trio.open_nursery() as nursery:
        id = (await a.start_conversation()).conversation.id
        nursery.start_soon(a.send, id, "one")
        await trio.sleep(1)
        await b.post(id, "two", token="tok-b")
        await trio.sleep(5 + 3 * POLL)
        assert (await types(members.store, id))[-1] == "run.finished"


async def test_stream_that_could_not_be_released_is_released_later(
    members: Members, autojump_clock: MockClock
) -> None:
    _with_tokens(members, "a", "b")
    async with members.agents("a", "b") as (a, b), trio.open_nursery() as nursery:
        id = (await a.start_conversation()).conversation.id
        nursery.start_soon(a.send, id, "one")
        await trio.sleep(1)

        async def release_fails() -> None:
            with _away(members.store, "release"):
                await trio.sleep(20)

        nursery.start_soon(release_fails)
        with trio.fail_after(20 + 5 * POLL):
            assert answer(await b.send(id, "two", token="tok-b")).response == "second"


async def test_command_without_a_token_waits_for_no_member(
    members: Members, autojump_clock: MockClock
) -> None:
    for name in ("a", "b", "c"):
        world = members.world(name)
        world.settings["mcp_servers"] = [WEB, {"name": "tools", "command": "none"}]
        world.tool("post", server="web")
        world.tool("slow", READ_ONLY, work=lambda _: _slowly(5))
        world.plan("agent", use(call("wipe"), call("slow")), use(call("post")), say("done"))
    async with members.agents("a"):
        with trio.move_on_after(1):
            async with members.agents("c") as (c,):
                await c.post_conversation("go", token="tok-c")
                await trio.sleep_forever()
        await trio.sleep(POLL + 1)  # `a` has taken it over, and its slow call runs
        async with members.agents("b") as (b,):
            with trio.fail_after(10 + 3 * POLL):
                assert answer(await b.decide(await only(b), YES)).state == "auth_required"


async def _slowly(seconds: float) -> str:
    await trio.sleep(seconds)
    return "ok"


@pytest.mark.parametrize("is_woken", [False, True], ids=["unanswered", "woken by a queued message"])
async def test_token_that_does_not_help_is_tried_once(
    members: Members, autojump_clock: MockClock, is_woken: bool
) -> None:
    """The call needs the token of its approver, whose member is gone; that of the sender does not serve it.
    If the approver has no answer yet, the token can be sent again."""
    for name in ("a", "b"):
        world = members.world(name)
        world.settings["mcp_servers"] = [WEB, {"name": "tools", "command": "none"}]
        world.tools.clear()
        world.tool("post", DESTRUCTIVE, server="web")
        world.tool("slow", work=lambda _: _slowly(5))
        world.plan("agent", use(call("post"), call("slow")), say("done"))
    async with members.agents("a") as (a,), trio.open_nursery() as nursery:
        turn = await a.post_conversation("go", token="tok-a")
        with trio.move_on_after(2):
            async with members.agents("b") as (b,):
                members.kill("b")
                await trio.sleep(1)
                approval = await only(b)
                await b.acting_as(BOSS).post_decision(approval, YES, token="tok-b", key="k")
                await trio.sleep_forever()
        id = turn.conversation.id
        if is_woken:
            await a.post(id, "queued")
        nursery.start_soon(_follow, a, id)
        await trio.sleep(60)
        assert (await types(members.store, id)).count("run.resumed") <= 2
        if not is_woken:
            turn = await a.acting_as(BOSS).decide(approval, YES, token="tok-b", key="k")
            assert answer(turn).response == "done"
        nursery.cancel_scope.cancel()


async def _follow(agent: Agent, id: str) -> None:
    async for _ in agent.events(id):
        pass


# ------------------------------------------------------------------------ answers


async def test_sender_hears_that_its_conversation_was_deleted_although_it_exists_again(
    members: Members, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(MemoryJournal, "_changed", lambda *_: None)
    members.world("a").plan("agent", after(5, say("done")))
    async with members.agents("a", "b") as (a, b), trio.open_nursery() as nursery:
        id = (await a.start_conversation(key="c")).conversation.id
        await a.post(id, "one")
        await trio.sleep(1)
        codes: list[str] = []

        async def send() -> None:
            codes.append(await code_of(b.send(id, "two")))

        nursery.start_soon(send)
        await trio.sleep(0.5)
        await a.delete(id)
        assert (await a.start_conversation(key="c")).conversation.id == id
        await trio.sleep(2 * POLL)
        assert codes == ["conversation_not_found"]


async def seqs(watched: AsyncIterator[Watched]) -> list[int]:
    """Of the events that have come."""
    found = []
    with trio.move_on_after(1):
        async for each in watched:
            assert isinstance(each, Announced)
            found.append(each.event.seq)
    return found


@pytest.mark.parametrize("pause", [IDLE, 2 * IDLE])
@pytest.mark.parametrize("hinted", [True, False])
async def test_watchers_of_all_conversations_get_each_event_once_and_deletions(
    members: Members, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch, pause: float, hinted: bool
) -> None:
    """Also of a conversation that moves to their member, even as it is unloaded at the other, and back. Hints
    can be lost, once an event has been seen."""
    for name in ("a", "b"):
        members.world(name).plan("agent", say("done"))
    async with members.agents("a", "b") as (a, b):
        with b.all_events() as watched:
            id = (await a.start_conversation("go")).conversation.id
            await trio.sleep(pause)
            if not hinted:
                monkeypatch.setattr(MemoryJournal, "_changed", lambda *_: None)
            await b.send(id, "two")
            await trio.sleep(pause + POLL)
            await a.send(id, "three")
            count = len(await types(members.store, id))
            await trio.sleep(POLL + 0.1)
            await a.delete(id)
            await trio.sleep(2 * POLL)
            found = await seqs(watched)
    assert found == [*range(1, count + 2)]


async def test_watchers_of_all_conversations_get_what_happened_while_the_journal_was_away(
    members: Members, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From one member."""
    members.world("a").plan("agent", say("done"))

    async def away(*_: Any) -> None:
        raise JournalUnavailable("away")

    async with members.agents("a", "b") as (a, b):
        with b.all_events() as watched:
            id = (await a.start_conversation()).conversation.id
            await trio.sleep(POLL)
            with monkeypatch.context() as patch:
                patch.setattr(members.members["b"].world.journal, "events_since", away)
                await a.send(id, "go")
                await trio.sleep(2 * POLL)
            await trio.sleep(2 * POLL)
            found = await seqs(watched)
    assert found == [*range(1, len(await types(members.store, id)) + 1)]


async def test_watchers_of_all_conversations_hear_of_a_hint_that_could_not_be_followed(
    members: Members, autojump_clock: MockClock
) -> None:
    """The conversation is not known here, so that no poll looks at it again."""
    members.world("a").plan("agent", say("done"))
    async with members.agents("a", "b") as (a, b):
        id = (await a.start_conversation("go")).conversation.id
        await trio.sleep(POLL)
        with b.all_events() as watched:
            with _away(members.members["b"].world.journal, "row"):
                members.store._hints.publish("hints", Hint(id, "a", 1))
                await trio.sleep(POLL / 2)
            assert await anext(watched) == Gap()


async def test_watchers_of_all_conversations_hear_once_that_a_damaged_one_was_deleted(
    members: Members, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def damaged(*_: Any, **__: Any) -> None:
        raise StreamDamaged("c", "damaged")

    async with members.agents("a", "b") as (a, b):
        with b.all_events(types=["conversation.deleted"]) as watched:
            id = (await a.start_conversation()).conversation.id
            await trio.sleep(2 * IDLE)
            monkeypatch.setattr(Logs, "open", damaged)
            await b.delete(id)
            await trio.sleep(2 * POLL)
            assert isinstance(await anext(watched), Announced)
            with pytest.raises(trio.TooSlowError), trio.fail_after(POLL):
                await anext(watched)


async def test_watchers_of_all_conversations_hear_of_lost_hints(
    members: Members, autojump_clock: MockClock
) -> None:
    async with members.agents("a", "b") as (a, b):
        id = (await a.start_conversation()).conversation.id
        with b.all_events(types=["run.finished"]) as watched:
            members.store._hints.publish("hints", HINTS_LOST)
            assert await anext(watched) == Gap()
            for _ in range(300):  # too many for the subscription; the conversation itself can be followed
                members.store._hints.publish("hints", Hint(id, "a"))
            assert await anext(watched) == Gap()


async def test_watchers_of_all_conversations_get_what_a_member_committed_before_it_stopped(
    members: Members, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its hints are lost, and before a poll finds the events, another member adds its own."""
    members.world("a").plan("agent", after(0.3, say("one")))
    members.world("b").plan("agent", say("two"))
    async with members.agents("b") as (b,):
        with b.all_events() as watched:
            async with members.agents("a") as (a,):
                id = (await a.post_conversation("go")).conversation.id
                await trio.sleep(0.1)
                monkeypatch.setattr(MemoryJournal, "_changed", lambda *_: None)
                await trio.sleep(0.3)
            await b.send(id, "again")
            await trio.sleep(2 * POLL)
            found = await seqs(watched)
    assert found == [*range(1, len(await types(members.store, id)) + 1)]


# --------------------------------------------------------------------- lost members


async def test_open_work_that_stays_delays_no_other(members: Members, autojump_clock: MockClock) -> None:
    """Messages that wait behind approvals are no reason to read their conversations again and again."""
    members.world("a").plan("agent", after(1, use(call("wipe"))), say("done"))
    members.world("b").plan("agent", after(1000, say("never")))
    async with members.agents("a") as (a,):
        for _ in range(40):
            id = (await a.post_conversation("go")).conversation.id
            await a.post(id, "queued")
        await trio.sleep(10)
        with trio.move_on_after(3):
            async with members.agents("b") as (b,):
                lost = (await b.post_conversation("work")).conversation.id
                await trio.sleep_forever()
        await trio.sleep(6 * POLL)
        assert (await types(members.store, lost))[-1] == "run.waiting"
        saves, save = 0, members.store.save

        async def counted(commit: Commit) -> Saved:
            nonlocal saves
            saves += 1
            return await save(commit)

        members.store.save = counted  # type: ignore[method-assign]
        await trio.sleep(600)
        assert saves <= 40 * 20


async def test_conversation_that_crashes_is_tried_after_growing_pauses(
    members: Members, autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    members.world("a").plan("agent", say("done"))
    async with members.agents("a") as (a,):
        id = (await a.start_conversation()).conversation.id
        with pytest.MonkeyPatch.context() as patch:
            for method in ("poll", "give_up"):
                patch.setattr(Commands, method, _fail)
            await a.post(id, "go")
            await trio.sleep(600)
        assert 10 < sum(record.levelname == "ERROR" for record in caplog.records) < 100


async def _fail(*_: Any) -> None:
    await trio.lowlevel.checkpoint()
    raise RuntimeError("broken")


async def test_member_that_drains_takes_nothing_over(members: Members, autojump_clock: MockClock) -> None:
    world = members.world("b")
    world.tool("slow", work=lambda _: _slowly(90))
    world.plan("agent", use(call("slow")), say("done"))
    world.settings["shutdown_grace"] = 100
    members.world("c").plan("agent", after(1000, say("never")))
    members.world("a").plan("agent", say("done"))
    async with members.agents("b") as (b,), trio.open_nursery() as nursery:
        with trio.move_on_after(2):
            async with members.agents("c") as (c,):
                await b.post_conversation("go")
                id = (await c.post_conversation("go")).conversation.id
                await c.post(id, "queued")
                await trio.sleep(1)
                nursery.start_soon(b.drain, 100)
                await trio.sleep_forever()
        await trio.sleep(LEASE)
        async with members.agents("a"):
            await trio.sleep(2 * POLL)
            assert (await types(members.store, id)).count("run.finished") == 2
        nursery.cancel_scope.cancel()


# ----------------------------------------------------------------- a lost journal


async def test_short_absence_of_the_journal_disturbs_no_call(
    members: Members, autojump_clock: MockClock
) -> None:
    world = members.world("a")
    world.tool("slow", DESTRUCTIVE, work=lambda _: _slowly(20))
    world.settings["approval"] = {"rules": [{"tool": "slow", "then": "run"}]}
    world.plan("agent", use(call("slow")), say("done"))
    async with members.agents("a") as (a,), trio.open_nursery() as nursery:
        id = (await a.post_conversation("go")).conversation.id
        await trio.sleep(1)
        with _away(members.store, "inbox", "save", "owns", "row"):
            nursery.start_soon(code_of, a.complete(id))
            await trio.sleep(6)
        await trio.sleep(20)
        found = await types(members.store, id)
        assert (found[-1], "tool.unknown" in found) == ("run.finished", False)


async def test_member_that_has_lost_a_conversation_cancels_no_task(
    members: Members, autojump_clock: MockClock
) -> None:
    """The other member follows the task of the called agent."""
    told: list[str] = []

    async def handle(message: RemoteAgentMessage) -> Delegated | None:
        told.append(type(message).__name__)
        if not isinstance(message, Delegate):
            return None
        assert message.on_sent is not None
        assert message.on_accepted is not None
        message.on_sent()
        message.on_accepted(RemoteTask("task", "context"))
        await trio.sleep(100)
        return Delegated(ToolResult("done"))

    _with_peer(members, handle, "a", "b")
    async with members.agents("b", "a") as (b, _):
        id = (await b.post_conversation("go")).conversation.id
        await trio.sleep(1)
        with _away(members.members["b"].world.journal, "renew", "save", "inbox", "open_work"):
            await trio.sleep(2 * LEASE)
        await trio.sleep(200)
        assert (await types(members.store, id))[-1] == "run.finished"
    assert told == ["Delegate", "Delegate"]


def _with_peer(
    members: Members, handle: Callable[[RemoteAgentMessage], Awaitable[Delegated | None]], *names: str
) -> None:
    async def behaviour(ctx: Context[RemoteAgentMessage]) -> None:
        await ctx.serve(handle, concurrency=4)

    def peer(config: RemoteAgentConfig, *, report: object) -> Behaviour[RemoteAgentMessage]:
        return behaviour

    for name in names:
        world = members.world(name)
        world.settings["a2a"] = [{"name": "peer", "url": "http://127.0.0.1:3"}]
        world.settings["approval"] = {"rules": [{"tool": "a2a_peer", "then": "run"}]}
        world.plan("agent", use(call("a2a_peer", message="go")), say("done"))
        world.open_remote_agent = peer


async def test_message_that_was_withheld_during_a_gap_in_the_lease_is_sent(
    members: Members, autojump_clock: MockClock
) -> None:
    """No other member has taken the conversation over."""
    allowed: list[bool] = []

    async def handle(message: RemoteAgentMessage) -> Delegated:
        assert isinstance(message, Delegate)
        if not allowed:
            members.members["a"].suspended += 2 * LEASE
            await a._cast.services.logs.lease.renew()
        allowed.append(message.may_leave())
        if not allowed[-1]:
            raise ToolUnavailable("it was withheld")
        return Delegated(ToolResult("done"))

    _with_peer(members, handle, "a")
    async with members.agents("a") as (a,):
        turn = await a.start_conversation("go")
        assert (allowed, answer(turn).response) == ([False, True], "done")
        found = await events(members.store, turn.conversation.id)
        assert [each.body["result"]["is_error"] for each in found if "result" in each.body] == [False]


async def test_agent_stops_cleanly_without_the_journal(members: Members, autojump_clock: MockClock) -> None:
    with _away(members.store, "leave"):
        async with members.agents("a") as (a,):
            await a.start_conversation()


@pytest.mark.parametrize(("seconds", "calls"), [(0, 1), (6, 0)], ids=["goes on", "is stopped meanwhile"])
async def test_call_whose_intent_was_committed_during_a_gap_in_the_lease(
    members: Members, autojump_clock: MockClock, seconds: float, calls: int
) -> None:
    """No other member has taken the conversation over, so the call is sent, unless its branch was stopped."""
    world = members.world("a")
    world.settings["agent"] = parallel("root", llm("one", timeout=5, on_error="continue"), llm("two"))
    world.settings["approval"] = {"rules": [{"tool": "wipe", "then": "run"}]}
    world.plan("one", use(call("wipe")), say("one"))
    world.plan("two", say("done"))
    async with members.agents("a") as (a,):
        save = members.store.save

        async def with_gap(commit: Commit) -> Saved:
            saved = await save(commit)
            if commit.intents:
                with trio.CancelScope(shield=True):
                    members.members["a"].suspended += 2 * LEASE
                    await a._cast.services.logs.lease.renew()
                    await trio.sleep(seconds)
            return saved

        members.store.save = with_gap  # type: ignore[method-assign]
        turn = await a.start_conversation("go")
        assert answer(turn).state == "finished"
        assert members.calls("a") == calls
        assert "tool.unknown" not in await types(members.store, turn.conversation.id)


@pytest.mark.parametrize(
    "cause",
    [
        Fenced("lost"),
        ExceptionGroup("", [Fenced("lost"), Fenced("lost")]),
        ExceptionGroup("", [ValueError(), ExceptionGroup("", [Fenced("lost"), KeyError()])]),
    ],
    ids=["one branch", "two branches", "with other errors"],
)
def test_crash_of_members_that_lost_their_conversation_fails_no_run(cause: Exception) -> None:
    """The activation ends instead, and the run goes on elsewhere, or later."""
    inner, outer = ActorCrashed("the node"), ActorCrashed("the node above")
    inner.__cause__, outer.__cause__ = cause, inner
    with pytest.raises(Fenced):
        _crash(outer)


@pytest.mark.parametrize("number", range(1, 13))
async def test_store_that_goes_away_during_a_start(
    members: Members, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """At each of the operations that a start makes."""
    made: list[str] = []
    journal: Any = members.world("a").journal
    for name in ("renew", "notes", "note_revisions", "write_notes", "open_work", "need_newer"):
        original = getattr(journal, name)

        async def use(*args: Any, name: str = name, original: Any = original, **more: Any) -> Any:
            made.append(name)
            if len(made) == number:
                raise JournalUnavailable("the database system is starting up")
            return await original(*args, **more)

        monkeypatch.setattr(journal, name, use, raising=False)
    async with members.agents("a") as (a,):
        assert len(made) > number
        assert answer(await a.start_conversation("go")).state == "waiting"
