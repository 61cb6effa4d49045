"""Requests that no member can answer now are told so at once, and no others are; their commands are carried
out once. The source of the bounds is the table of faults in docs/guides/scale-out.md."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st
from trio.testing import MockClock

from stopgo.actors.agent.agent import Agent
from stopgo.actors.common.errors import AgentError
from stopgo.actors.workers.other_members import POLL, POLL_MEMBERS, UNREACHED
from stopgo.actors.workers.silent_members import MISSED, SilentMembers
from stopgo.runtime.journal.errors import JournalUnavailable
from stopgo.runtime.journal.memory.memory_journal import MemoryJournal
from tests.actors.several_members import LEASE, Members
from tests.actors.world import READ_ONLY, after, answer, call, code_of, say, types, use, wall

NOTICED = 0.1 + (2 * MISSED + 1) * POLL_MEMBERS
"""Seconds until a member is known to be silent. At worst, every other look comes just before a renewal."""
HEALED = 3.0


@pytest.fixture
def members(tmp_path: Path) -> Members:
    return Members(tmp_path, MemoryJournal(wall, lease=LEASE, member="a"))


# ------------------------------------------------------------------ which members are silent


@pytest.mark.parametrize(
    ("looks", "silent"),
    [
        ([{"a": at, "b": 1} for at in (1, 2, 3)], False),
        ([{"a": at, "b": 1} for at in (1, 2, 3, 4)], True),
        ([*({"a": at, "b": 1} for at in (1, 2, 3)), {"a": 4, "b": 2}], False),
        ([{"a": at, "b": 1} for at in (1, 2, 3, 4, 4)], True),
        (4 * [{"a": 1, "b": 1}], False),
        ([*({"a": at, "b": 1} for at in (1, 2, 3, 4)), {"a": 5}], False),
        ([{"a": 1}, {"a": 2}, {"a": 3}, {"a": 4, "b": 1}], False),
        (5 * [{"b": 1}], False),
    ],
    ids=[
        "two renewals late",
        "three renewals late",
        "renewed at last",
        "still silent while this member renews nothing",
        "no member renews: the store is slow",
        "its lease has run out",
        "it has just begun",
        "this member has no lease",
    ],
)
def test_member_is_silent_when_it_has_missed_renewals(looks: list[dict[str, float]], silent: bool) -> None:
    members = SilentMembers("a")
    found = [members.poll(each) for each in looks][-1]
    assert found == ({"b"} if silent else set())


@given(st.lists(st.tuples(st.booleans(), st.booleans()), max_size=30))
def test_silence_is_counted_since_the_last_renewal(renewals: list[tuple[bool, bool]]) -> None:
    members, own, other, missed = SilentMembers("a"), 0.0, 0.0, 0
    members.poll({"a": own, "b": other})
    for renews, answers in renewals:
        own += renews
        other += answers
        missed = 0 if answers else missed + renews
        assert members.poll({"a": own, "b": other}) == ({"b"} if missed >= MISSED else set())


# ------------------------------------------------------------------------------- requests


def _working_slowly(members: Members, seconds: float, *names: str) -> None:
    for name in names:
        world = members.world(name)
        world.tool("slow", READ_ONLY, work=lambda _: _slowly(seconds))
        world.plan("agent", use(call("slow")), say("done"), turn=1)
        world.plan("agent", after(1, say("second")), turn=2)


async def _slowly(seconds: float) -> str:
    await trio.sleep(seconds)
    return "ok"


@pytest.mark.parametrize(
    ("request_of", "result"),
    [
        (lambda agent, id: agent.send(id, "two", key="k"), "finished"),
        (lambda agent, id: agent.cancel(id, key="k"), "cancelled"),
        (lambda agent, id: agent.complete(id, key="k"), "run_in_progress"),
    ],
    ids=["message", "cancel", "complete"],
)
async def test_request_to_a_suspended_member_is_answered_at_once_and_carried_out_once(
    members: Members,
    autojump_clock: MockClock,
    request_of: Callable[[Agent, str], Awaitable[Any]],
    result: str,
) -> None:
    _working_slowly(members, 5, "a", "b")
    async with members.agents("a", "b") as (a, b), trio.open_nursery() as nursery:
        turn = await b.post_conversation("go")
        id = turn.conversation.id
        await trio.sleep(1)
        members.pause("b")
        with trio.fail_after(NOTICED), pytest.raises(AgentError) as caught:
            await request_of(a, id)
        assert (caught.value.code, caught.value.details) == ("node_unavailable", {"accepted": True})
        with trio.fail_after(0.1 + 2 * POLL_MEMBERS):  # now it is known
            assert await code_of(request_of(a, id)) == "node_unavailable"
        await trio.sleep(LEASE + POLL)
        try:
            found: str = answer(await request_of(a, id)).state
        except AgentError as error:
            found = error.code
        assert found == result
        assert (await types(members.store, id)).count("run.started") == (2 if result == "finished" else 1)
        nursery.cancel_scope.cancel()


async def test_request_to_a_member_that_works_waits(members: Members, autojump_clock: MockClock) -> None:
    _working_slowly(members, 10 * LEASE, "a", "b", "c")
    async with members.agents("a", "b", "c") as (a, b, _):
        id = (await b.post_conversation("go")).conversation.id
        await trio.sleep(1)
        members.pause("c")  # another than the one that works
        assert answer(await a.send(id, "two")).response == "second"


async def test_request_waits_while_all_members_find_the_store_slow(
    members: Members, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    _working_slowly(members, 10, "a", "b")
    renew = MemoryJournal.renew

    async def slowly(journal: MemoryJournal) -> object:
        await trio.sleep(LEASE / 4)
        return await renew(journal)

    async with members.agents("a", "b") as (a, b):
        id = (await b.post_conversation("go")).conversation.id
        monkeypatch.setattr(MemoryJournal, "renew", slowly)
        assert answer(await a.send(id, "two")).response == "second"


@pytest.mark.parametrize("error", [True, False], ids=["refused", "without an answer"])
async def test_all_members_are_cut_off_and_healed(
    members: Members, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch, error: bool
) -> None:
    """As by a journal on a server, an operation that is not answered fails after 2 s."""
    _working_slowly(members, 1000, "a", "b")
    away = False

    def cut(method: Any) -> Any:
        async def use(*args: Any, **kwargs: Any) -> Any:
            await trio.lowlevel.checkpoint()
            if away:
                await trio.sleep(0 if error else 2)
                raise JournalUnavailable("no connection")
            return await method(*args, **kwargs)

        return use

    names = (
        "stored_reply claim deliver owns inbox living marks open_work owners release renew row save"
        " events_since"
    )
    for name in names.split():
        monkeypatch.setattr(MemoryJournal, name, cut(getattr(MemoryJournal, name)))
    async with members.agents("a", "b") as (a, b), trio.open_nursery() as nursery:
        id = (await b.post_conversation("go")).conversation.id
        refused: list[tuple[str, float]] = []

        async def send(agent: Agent) -> None:
            began = trio.current_time()
            refused.append((await code_of(agent.send(id, "two", key="k")), trio.current_time() - began))

        await trio.sleep(1)
        nursery.start_soon(send, a)
        await trio.sleep(1)
        away = True
        await trio.sleep(2 * LEASE)
        await send(b)
        await trio.sleep(LEASE)
        assert [code for code, _ in refused] == 2 * ["journal_unavailable"]
        assert max(seconds for _, seconds in refused) <= UNREACHED + POLL_MEMBERS + 2
        away = False
        with trio.fail_after(HEALED):
            assert answer(await a.cancel(id)).state == "cancelled"
        nursery.cancel_scope.cancel()
