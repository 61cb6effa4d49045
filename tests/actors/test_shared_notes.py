"""What members know of each other by notes: halts, hints of tools, spending."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import attrs
import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from stopgo.actors.gate import halt as halt_module
from stopgo.actors.models.spending import Spending
from stopgo.actors.tools.known import KnownTools
from stopgo.runtime.journal.errors import JournalUnavailable
from stopgo.runtime.journal.followed_notes import POLL_EVERY
from stopgo.runtime.journal.memory.memory_journal import MemoryJournal
from stopgo.runtime.journal.protocol import Commit, Saved
from tests.actors.conversation.test_allowance import ANN, BOB, costing, limited
from tests.actors.gate.test_halt import only
from tests.actors.several_members import LEASE, YES, Members
from tests.actors.tools.test_known import tool
from tests.actors.world import DESTRUCTIVE, HARMLESS, READ_ONLY, answer, call, code_of, say, use, wall

SEEN = 1.0
"""Seconds within which a member sees what another has changed."""


@pytest.fixture
def members(tmp_path: Path) -> Members:
    return Members(tmp_path, MemoryJournal(wall, lease=LEASE, member="a"))


async def test_halt_is_acknowledged_when_no_member_sends_any_more(
    members: Members, autojump_clock: MockClock
) -> None:
    """The intent of a call is being committed at the other member: the halt waits, the call is not sent."""
    world = members.world("b")
    world.tool("act", HARMLESS)
    world.plan("agent", use(call("act")), say("done"))
    journal: Any = world.journal
    save, halted = journal.save, False
    committed_after: list[bool] = []

    async def slow(commit: Commit) -> Saved:
        if commit.intents:
            await trio.sleep(3)
            committed_after.append(halted)
        saved: Saved = await save(commit)
        return saved

    async with members.agents("a", "b") as (a, b), trio.open_nursery() as nursery:
        journal.save = slow
        nursery.start_soon(b.start_conversation, "go")
        await trio.sleep(1)
        await a.halt("fire")
        halted = True
        assert b.halt_state().reason == "fire"
        assert answer(await b.start_conversation("go")).state == "waiting"
        assert world.called("act") == 0
        assert await code_of(a.decide(await only(a), YES)) == "halted"
        await b.unhalt()
        await trio.sleep(SEEN)
        assert not a.halt_state().halted
    assert committed_after == [False]


async def test_halt_waits_for_a_member_until_its_lease_has_run_out(
    members: Members, autojump_clock: MockClock
) -> None:
    async with members.agents("a", "b") as (a, b):
        members.pause("b")
        members.kill("b")
        members.members["b"].world.journal.notes = _away  # type: ignore[method-assign]
        began = trio.current_time()
        await a.halt()
        assert LEASE / 2 < trio.current_time() - began <= LEASE + POLL_EVERY
        assert not b.halt_state().halted
        members.members["b"].renews.set()


async def _away(*_: object, **__: object) -> Any:
    await trio.sleep_forever()


async def test_halt_that_a_member_never_confirms_is_not_acknowledged(
    members: Members, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It stands all the same, and a repetition waits again."""
    async with members.agents("a", "b") as (a, _):
        journal: Any = members.members["b"].world.journal
        write = journal.write_notes

        async def refuse(kind: str, *args: Any, **options: Any) -> bool:
            if kind == halt_module.CONFIRMED:
                raise JournalUnavailable("away")
            return bool(await write(kind, *args, **options))

        journal.write_notes = refuse
        for _ in range(2):
            assert await code_of(a.halt("fire", key="k")) == "journal_unavailable"
        assert a.halt_state().halted
        journal.write_notes = write
        await a.halt("fire", key="k")


async def test_halts_of_all_members_are_counted(members: Members, autojump_clock: MockClock) -> None:
    async with members.agents("a", "b", "c") as agents:
        for _ in range(2):
            async with trio.open_nursery() as nursery:
                for each in agents:
                    nursery.start_soon(each.halt)
            async with trio.open_nursery() as nursery:
                for each in agents:
                    nursery.start_soon(each.unhalt)
        assert {each._cast.services.halts.latest.number for each in agents} == {2}
    async with members.agents("d") as (d,):
        await d.halt()
        confirmed = await members.store.notes(halt_module.CONFIRMED)
        # Those of members that have ended are deleted at the next halt with others.
        assert len(confirmed) <= 3


async def test_stricter_hints_and_acceptances_count_at_all_members(
    members: Members, autojump_clock: MockClock
) -> None:
    for name in ("a", "b"):
        world = members.world(name)
        world.tool("drop", READ_ONLY)
    async with members.agents("a", "b") as (a, b):
        worlds = [members.members[name].world for name in ("a", "b")]
        worlds[0].tool("drop", DESTRUCTIVE)
        worlds[0].relist("tools")
        await trio.sleep(SEEN)
        for each in (a, b):
            assert [tool.policy for tool in each.tools() if tool.tool.name == "drop"] == ["ask"]
        worlds[0].tool("drop", READ_ONLY)
        worlds[0].relist("tools")
        await trio.sleep(SEEN)
        [held] = [tool for tool in b.tools() if tool.tool.name == "drop"]
        await b.accept_tool("drop", held.tool.hash)
        await trio.sleep(SEEN)
        for each in (a, b):
            assert [tool.policy for tool in each.tools() if tool.tool.name == "drop"] == ["run"]


class Slow(MemoryJournal):
    """What is read may be old when it is used."""

    async def notes(self, *args: Any, **options: Any) -> Any:
        found = await super().notes(*args, **options)
        await trio.sleep(1)
        return found


async def test_members_that_list_other_hints_keep_the_stricter_ones(autojump_clock: MockClock) -> None:
    """Although each has read the notes before the other writes them."""
    journal = Slow()
    servers = [str(number) for number in range(10)]  # which member is first is random
    members = {KnownTools(journal): READ_ONLY, KnownTools(journal): DESTRUCTIVE}
    async with trio.open_nursery() as nursery:
        for known, hints in members.items():
            for server in servers:
                nursery.start_soon(known.take, server, [attrs.evolve(tool(hints), server=server)])
    for known in members:
        await known.load(servers)
        listed = [attrs.evolve(tool(READ_ONLY), server=server) for server in servers]
        assert {each.hints for each in known.counting(listed)} == {DESTRUCTIVE}


async def test_dollars_of_members_that_save_at_once_are_added(autojump_clock: MockClock) -> None:
    journal = Slow()
    members = [Spending(journal, wall, 100.0) for _ in range(3)]
    with trio.move_on_after(60):
        async with trio.open_nursery() as nursery:
            for each in members:
                each.add("ann", 1.0)
                nursery.start_soon(each.keep)
    notes = await journal.notes("spent")
    assert notes == {"ann": {"day": "2023-11-14", "cost_usd": 3.0}}
    for each in members:
        await each.apply(notes)
        assert each.today("ann") == 3.0


async def test_spending_at_all_members_counts(members: Members, autojump_clock: MockClock) -> None:
    for name in ("a", "b"):
        world = members.world(name)
        limited(world, cost_usd_per_day=5)
        costing(world, 3)
    async with members.agents("a", "b") as (a, b):
        await a.acting_as(ANN).start_conversation("go")
        await b.acting_as(BOB).start_conversation("go")
        await trio.sleep(2 * SEEN)
        await b.acting_as(ANN).start_conversation("go")
        await trio.sleep(2 * SEEN)
        for each in (a, b):
            assert await code_of(each.acting_as(ANN).start_conversation("go")) == "limit_reached"
        await a.acting_as(BOB).start_conversation("go")
        await wait_all_tasks_blocked()
    notes = await members.store.notes("spent")
    assert {name: note and note["cost_usd"] for name, note in notes.items()} == {"ann": 6, "bob": 6}
