"""Two agents on one journal: requests arrive anywhere, and the work follows them or goes on where it is."""

from __future__ import annotations

from collections import Counter
from contextlib import aclosing
from itertools import count
from pathlib import Path
from typing import Any

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from stopgo.actors.agent.watch import Announced
from stopgo.actors.conversation.result import Turn
from stopgo.actors.workers.other_members import POLL
from stopgo.runtime.journal.errors import JournalUnavailable
from stopgo.runtime.journal.memory.memory_journal import MemoryJournal
from tests.actors.gate.test_halt import only
from tests.actors.several_members import LEASE, YES, Members
from tests.actors.world import DESTRUCTIVE, READ_ONLY, after, answer, call, code_of, say, types, use, wall


@pytest.fixture
def members(tmp_path: Path) -> Members:
    return Members(tmp_path, MemoryJournal(wall, lease=LEASE, member="a"))


async def test_waiting_conversation_follows_the_decision(members: Members, autojump_clock: MockClock) -> None:
    async with members.agents("a", "b") as (a, b):
        turn = await a.start_conversation("go")
        assert answer(turn).state == "waiting"
        assert answer(await b.decide(await only(b), YES)).response == "done"
        assert (members.calls("a"), members.calls("b")) == (0, 1)
        assert (await a.get(turn.conversation.id)).messages[-1].content == "done"


async def test_moving_run_gets_the_decision_where_it_is(members: Members, autojump_clock: MockClock) -> None:
    world = members.world("a")
    world.tool("slow", work=lambda _: _slowly())
    world.plan("agent", use(call("wipe"), call("slow")), say("done"))
    async with members.agents("a", "b") as (a, b):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(a.start_conversation, "go")
            await trio.sleep(1)
            turn = await b.decide(await only(b), YES)
        assert answer(turn).response == "done"
        assert (members.calls("a"), members.calls("b")) == (1, 0)


async def _slowly(seconds: float = 5) -> str:
    await trio.sleep(seconds)
    return "ok"


async def test_second_member_leaves_a_moving_run_alone(members: Members, autojump_clock: MockClock) -> None:
    world = members.world("a")
    world.tool("slow", DESTRUCTIVE, work=lambda _: _slowly())
    world.plan("agent", use(call("slow")), say("done"))
    world.settings["approval"] = {"rules": [{"tool": "slow", "then": "run"}]}
    async with members.agents("a") as (a,), trio.open_nursery() as nursery:
        turns: list[Turn] = []

        async def start() -> None:
            turns.append(await a.start_conversation("go"))

        nursery.start_soon(start)
        await trio.sleep(1)
        async with members.agents("b") as (b,):
            await trio.sleep(2 * POLL)
            assert b._cast.conversations.active == 0
            await trio.sleep(5)
        assert answer(turns[0]).response == "done"
        assert "tool.unknown" not in await types(members.store, turns[0].conversation.id)


async def test_requests_are_refused_while_the_store_is_away(
    members: Members, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also the request that waits. Afterwards the agent goes on, and each request has been made once."""
    world = members.world("a")
    world.tool("slow", work=lambda _: _slowly())
    world.plan("agent", use(call("slow")), say("done"))
    async with members.agents("a") as (a,), trio.open_nursery() as nursery:
        id = (await a.start_conversation()).conversation.id
        waiting: list[str] = []

        @nursery.start_soon
        async def wait() -> None:
            waiting.append(await code_of(a.send(id, "one", key="first")))

        await trio.sleep(1)

        async def away(*_: Any, **__: Any) -> Any:
            await trio.sleep(0.1)
            raise JournalUnavailable("no connection")

        with monkeypatch.context() as patch:
            methods = "deliver due events_since inbox living marks open_work renew row save stored_reply"
            for method in methods.split():
                patch.setattr(members.store, method, away, raising=False)
            assert await code_of(a.send(id, "two", key="k")) == "journal_unavailable"
            await trio.sleep(3 * LEASE)
            assert waiting == ["journal_unavailable"]
        with trio.fail_after(3 + 2 * 5):  # the tool of each takes 5 s
            for key, text in [("first", "one"), ("k", "two")]:
                assert answer(await a.send(id, text, key=key)).response == "done"
        assert (await types(members.store, id)).count("run.finished") == 2


@pytest.mark.parametrize("hinted", [True, False], ids=["with hints", "without hints"])
async def test_commands_replies_and_deletions_are_noticed(
    members: Members, autojump_clock: MockClock, hinted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not hinted:
        monkeypatch.setattr(MemoryJournal, "_changed", lambda *_: None)
    world = members.world("a")
    world.plan("agent", after(5, say("one")), turn=1)
    world.plan("agent", after(5, say("two")), turn=2)
    async with members.agents("a", "b") as (a, b), trio.open_nursery() as nursery:
        id = (await a.start_conversation()).conversation.id
        seen: list[str] = []

        async def follow() -> None:
            async for event in b.events(id):
                seen.append(event.type)

        nursery.start_soon(follow)
        nursery.start_soon(a.send, id, "first")
        await trio.sleep(1)
        began = trio.current_time()
        turn = await b.send(id, "second")  # waits in the inbox until the first run has ended
        assert answer(turn).response == "two"
        assert trio.current_time() - began <= 9 + (0 if hinted else 2 * POLL)
        assert members.members["b"].world.requests == [], "the conversation stays where it is"
        await b.delete(id)
        assert await code_of(a.get(id)) == "conversation_not_found"
        await trio.sleep(POLL + 0.1)
        assert seen[-1] == "conversation.deleted"
        assert seen.count("run.finished") == 2
        assert len(seen) == len(set(enumerate(seen)))


async def test_reader_notices_that_the_conversation_was_deleted_and_created_again(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    """Both were done before it has looked: only the time of the creation differs."""
    reads = count()
    members = Members(tmp_path, MemoryJournal(lambda: wall() + next(reads) / 1e6, lease=LEASE, member="a"))
    seen: list[str] = []
    async with members.agents("a", "b") as (a, b):
        id = (await a.start_conversation(key="k")).conversation.id

        async def read() -> None:
            async with aclosing(b.events(id)) as stream:
                async for event in stream:
                    seen.append(event.type)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(read)
            await wait_all_tasks_blocked()
            journal: Any = members.members["b"].world.journal
            events_since, looks = journal.events_since, trio.Event()

            async def later(*about: Any) -> Any:
                await looks.wait()
                return await events_since(*about)

            journal.events_since = later
            await a.delete(id)
            assert (await a.start_conversation("go", key="k")).conversation.id == id
            looks.set()
            await trio.sleep(3 * POLL)
            nursery.cancel_scope.cancel()
    assert seen == ["conversation.created", "conversation.deleted"]


async def test_poll_reads_only_what_has_changed(
    members: Members, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each poll is one query, and conversations to which nothing happens cost no other."""
    monkeypatch.setattr(MemoryJournal, "_changed", lambda *_: None)
    called: Counter[str] = Counter()

    def counted(name: str, method: Any) -> Any:
        async def use(*args: Any, **kwargs: Any) -> Any:
            called[name] += 1
            return await method(*args, **kwargs)

        return use

    for name in ("events_since", "inbox", "marks", "row", "stored_reply"):
        monkeypatch.setattr(MemoryJournal, name, counted(name, getattr(MemoryJournal, name)))
    members.world("a").plan("agent", after(40, say("done")))
    async with members.agents("a", "b") as (a, b), trio.open_nursery() as nursery:
        seen: list[str] = []

        async def follow(id: str) -> None:
            async for event in b.events(id):
                seen.append(event.type)

        ids = [(await a.start_conversation()).conversation.id for _ in range(5)]
        for id in ids:
            nursery.start_soon(follow, id)
        nursery.start_soon(a.send, ids[0], "go")
        await trio.sleep(5 * POLL + 0.5)
        called.clear()
        with b.all_events():
            await trio.sleep(20 * POLL)
        assert called == {"marks": 2 * 20}, "both members wait for something"
        await trio.sleep(20 * POLL)
        assert "run.finished" in seen
        nursery.cancel_scope.cancel()


async def test_reply_that_could_not_be_read_is_read_at_a_later_poll(
    members: Members, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(MemoryJournal, "_changed", lambda *_: None)
    stored_reply, refused = MemoryJournal.stored_reply, 3

    async def away(*args: Any) -> Any:
        nonlocal refused
        reply = await stored_reply(*args)
        if reply is not None and refused:
            refused -= 1
            raise JournalUnavailable("no connection")
        return reply

    monkeypatch.setattr(MemoryJournal, "stored_reply", away)
    world = members.world("a")
    world.plan("agent", after(5, say("one")), turn=1)
    world.plan("agent", say("two"), turn=2)
    async with members.agents("a", "b") as (a, b), trio.open_nursery() as nursery:
        id = (await a.start_conversation()).conversation.id
        nursery.start_soon(a.send, id, "first")
        await trio.sleep(1)
        with trio.fail_after(5 + 6 * POLL):
            assert answer(await b.send(id, "second")).response == "two"
        assert refused == 0


async def test_refusal_by_another_member_is_raised_here(members: Members, autojump_clock: MockClock) -> None:
    members.world("a").plan("agent", after(5, say("done")))
    async with members.agents("a", "b") as (a, b), trio.open_nursery() as nursery:
        id = (await a.start_conversation()).conversation.id
        nursery.start_soon(a.send, id, "go")
        await trio.sleep(1)
        assert await code_of(b.complete(id)) == "run_in_progress"


async def test_watchers_of_all_conversations_get_the_events_of_other_members(
    members: Members, autojump_clock: MockClock
) -> None:
    async with members.agents("a", "b") as (a, b):
        with b.all_events() as watched:
            id = (await a.start_conversation("go")).conversation.id
            await a.decide(await only(a), YES)
            await wait_all_tasks_blocked()
            found: list[int] = []
            with trio.move_on_after(1):
                async for each in watched:
                    assert isinstance(each, Announced)
                    found.append(each.event.seq)
    assert found == [*range(1, len(await types(members.store, id)) + 1)]


async def test_member_that_dies_is_taken_over_when_its_lease_has_run_out(
    members: Members, autojump_clock: MockClock
) -> None:
    members.world("a").plan("agent", after(1000, say("never")))
    members.world("b").plan("agent", say("done"))
    members.kill("a")
    async with members.agents("b") as (b,):
        with trio.move_on_after(5):
            async with members.agent("a") as a:
                id = (await a.post_conversation("go")).conversation.id
                await trio.sleep_forever()
        assert trio.current_time() == 5
        async with trio.open_nursery() as nursery:
            with trio.fail_after(2 * LEASE):
                async for event in b.events(id):
                    if event.type == "run.finished":
                        break
            nursery.cancel_scope.cancel()
        assert LEASE < trio.current_time() < LEASE + 5 + POLL


async def test_member_that_stops_leaves_its_conversations_at_once(
    members: Members, autojump_clock: MockClock
) -> None:
    members.world("a").plan("agent", after(1000, say("never")))
    async with members.agents("b") as (b,):
        async with members.agents("a") as (a,):
            id = (await a.post_conversation("go")).conversation.id
            await trio.sleep(1)
            await a.drain(1)
        began = trio.current_time()
        async for event in b.events(id):
            if event.type == "run.waiting":
                break
        assert trio.current_time() - began <= POLL


# ------------------------------------------------------------------------- tokens


async def test_run_moves_to_the_member_that_has_its_token(
    members: Members, autojump_clock: MockClock
) -> None:
    """The message comes to `b` while `a` works on the conversation, so `a` starts its run."""
    for name in ("a", "b"):
        world = members.world(name)
        world.settings["mcp_servers"] = [
            {"name": "web", "url": "http://web.test/mcp", "forward_bearer": True}
        ]
        world.tools.clear()
        world.tool("post", server="web")
        world.plan("agent", after(5, say("first")), turn=1)
        world.plan("agent", use(call("post")), say("second"), turn=2)
    async with members.agents("a", "b") as (a, b), trio.open_nursery() as nursery:
        id = (await a.start_conversation()).conversation.id
        nursery.start_soon(a.send, id, "one")
        await trio.sleep(1)
        turn = await b.send(id, "two", token="tok-b", key="k")
        assert answer(turn).response == "second"
        assert (members.members["a"].world.bearers, members.members["b"].world.bearers) == ([], ["tok-b"])
        assert answer(await a.send(id, "two", token="tok-b", key="k")) == answer(turn), "one answer"
        assert (await types(members.store, id)).count("run.auth_required") == 1


async def test_run_rests_when_the_member_with_its_token_is_gone(
    members: Members, autojump_clock: MockClock
) -> None:
    world = members.world("a")
    world.settings["mcp_servers"] = [{"name": "web", "url": "http://web.test/mcp", "forward_bearer": True}]
    world.tools.clear()
    world.tool("post", server="web")
    world.plan("agent", after(5, say("first")), turn=1)
    world.plan("agent", use(call("post")), say("second"), turn=2)
    async with members.agents("a") as (a,), trio.open_nursery() as nursery:
        id = (await a.start_conversation()).conversation.id
        nursery.start_soon(a.send, id, "one")
        with trio.move_on_after(2):
            async with members.agents("b") as (b,):
                await trio.sleep(1)
                members.kill("b")
                await b.send(id, "two", token="tok-b", key="k")
        await trio.sleep(2 * LEASE)
        turn = await a.send(id, "two", token="tok-b", key="k")
        assert answer(turn).response == "second"


# --------------------------------------------------------------------------- pauses


@pytest.mark.parametrize("is_renewed", [False, True], ids=["without a lease", "with a new lease"])
async def test_paused_process_sends_nothing_after_a_takeover(
    members: Members, autojump_clock: MockClock, caplog: pytest.LogCaptureFixture, is_renewed: bool
) -> None:
    """`b` has committed the intent, and is paused before the call leaves. A person says `retry` at `a`.
    Then `b` may renew its lease before the call leaves."""
    world = members.world("b")
    world.out_of_reach = 60.0
    async with members.agents("b", "a") as (b, a), trio.open_nursery() as nursery:
        id = (await b.start_conversation("go")).conversation.id

        async def decide() -> None:
            await b.decide(approval, YES)

        approval = await only(b)
        nursery.start_soon(decide)
        await trio.sleep(1)
        assert "tool.started" in await types(members.store, id)
        members.pause("b")
        await trio.sleep(LEASE + POLL + 1)
        question = await only(a)
        assert question.kind == "outcome_unknown"
        turn = await a.decide(question, {"action": "retry"})
        assert answer(turn).response == "done"
        if is_renewed:
            members.members["b"].renews.set()
        await trio.sleep(60)
        assert (members.calls("a"), members.calls("b")) == (1, 0)
        assert ("b" in await members.store.living()) == is_renewed
        assert not [record for record in caplog.records if record.levelname == "ERROR"]
        nursery.cancel_scope.cancel()


async def test_call_that_could_not_leave_is_sent_again(members: Members, autojump_clock: MockClock) -> None:
    """The process loses its lease, and renews it before another member takes over and the call leaves. The
    call may be repeated, so no model and no person hears of this."""
    world = members.world("b")
    world.tool("act", READ_ONLY)
    world.out_of_reach = 5.0
    world.plan("agent", use(call("act")), after(1, say("done")))
    async with members.agents("b") as (b,):
        turn = await b.post_conversation("go")
        await trio.sleep(1)
        members.members["b"].suspended += 2 * LEASE
        await trio.sleep(60)
        assert world.called("act") == 1
        messages = (await b.get(turn.conversation.id)).messages
        assert messages[-1].content == "done"
        assert [each.call.is_error for each in messages if each.call is not None] == [False]


async def test_paused_process_asks_no_model_after_a_takeover(
    members: Members, autojump_clock: MockClock
) -> None:
    for name in ("b", "a"):
        world = members.world(name)
        world.tool("slow", READ_ONLY, work=lambda _: _slowly(30))
        world.plan("agent", use(call("slow")), say("done"))
    async with members.agents("b", "a") as (b, _), trio.open_nursery() as nursery:
        id = (await b.post_conversation("go")).conversation.id
        await trio.sleep(1)
        members.pause("b")
        await trio.sleep(LEASE + POLL + 1)
        members.members["b"].renews.set()
        await trio.sleep(60)
        assert (await types(members.store, id))[-1] == "run.finished"
        assert [len(members.members[name].world.requests) for name in ("b", "a")] == [1, 1]
        nursery.cancel_scope.cancel()


async def test_paused_process_writes_nothing(members: Members, autojump_clock: MockClock) -> None:
    """Even if no other member has taken its conversation over yet."""
    members.world("b").plan("agent", after(5, say("done")))
    with trio.move_on_after(60):
        async with members.agents("b") as (b,):
            id = (await b.post_conversation("go")).conversation.id
            await trio.sleep(1)
            before = await types(members.store, id)
            members.pause("b")
            await trio.sleep(20)
            assert await types(members.store, id) == before
            await trio.sleep_forever()
