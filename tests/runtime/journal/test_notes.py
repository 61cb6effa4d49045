"""Notes as several members use them."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
import trio

from stopgo.runtime.journal.followed_notes import POLL_EVERY, FollowedNotes
from stopgo.runtime.journal.memory.memory_journal import MemoryJournal
from stopgo.runtime.journal.protocol import Journal, Json, NewCommand
from tests.runtime.journal.conftest import Members


async def revision(journal: Journal, kind: str) -> int:
    return (await journal.note_revisions()).get(kind, 0)


async def test_changed_notes_are_found_by_the_revision(members: Members) -> None:
    a, b = members.a, members.b
    assert await revision(b, "k") == 0
    await a.write_notes("k", {"x": {"n": 1}, "y": {"n": 1}})
    first = await revision(b, "k")
    await a.write_notes("other", {"x": {"n": 2}})
    assert await revision(b, "k") == first > 0
    await b.write_notes("k", {"y": {"n": 2}, "z": {"n": 2}})
    assert await revision(a, "k") > first
    assert await a.notes("k", after=first) == {"y": {"n": 2}, "z": {"n": 2}}
    assert await b.notes("k", after=await revision(b, "k")) == {}
    assert await a.notes("k") == {"x": {"n": 1}, "y": {"n": 2}, "z": {"n": 2}}


async def test_a_write_at_an_old_revision_writes_nothing(members: Members) -> None:
    a, b = members.a, members.b
    assert not await a.write_notes("k", {"x": {"n": 0}}, at=1)
    assert await a.write_notes("k", {"x": {"n": 1}}, at=0)
    assert not await b.write_notes("k", {"x": {"n": 2}, "y": {}}, at=0)
    at = await revision(b, "k")
    assert await b.write_notes("k", {"x": {"n": 3}}, at=at)
    assert not await a.write_notes("k", {"x": {"n": 4}}, at=at)
    assert await a.write_notes("other", {"x": {}}, at=0)
    assert await a.notes("k") == {"x": {"n": 3}}
    assert await revision(a, "k") == at + 1


async def test_of_many_writes_at_one_revision_one_counts(members: Members) -> None:
    """So several members can count together."""

    async def add(journal: Journal) -> None:
        while True:
            at = await revision(journal, "k")
            before = (await journal.notes("k")).get("x") or {"n": 0}
            if await journal.write_notes("k", {"x": {"n": before["n"] + 1}}, at=at):
                return

    async with trio.open_nursery() as nursery:
        for each in (members.a, members.b) * 5:
            nursery.start_soon(add, each)
    assert await members.a.notes("k") == {"x": {"n": 10}}


async def test_a_note_is_taken_once(members: Members) -> None:
    taken: list[Json | None] = []

    async def take(journal: Journal) -> None:
        taken.append(await journal.take_note("k", "x"))

    await members.a.write_notes("k", {"x": {"n": 1}, "y": {}})
    async with trio.open_nursery() as nursery:
        for each in (members.a, members.b) * 5:
            nursery.start_soon(take, each)
    assert [each for each in taken if each is not None] == [{"n": 1}]
    assert await members.b.notes("k") == {"y": {}}
    before = await revision(members.b, "k")
    await members.a.write_notes("k", {"x": {"n": 2}})
    assert await members.b.notes("k", after=before) == {"x": {"n": 2}}


async def test_followers_see_what_other_members_write(autojump_clock: trio.testing.MockClock) -> None:
    journal = MemoryJournal()
    other = journal.another("b")
    seen: list[Mapping[str, Json | None]] = []

    async def apply(notes: Mapping[str, Json | None]) -> None:
        seen.append(notes)

    await other.write_notes("k", {"x": {"n": 1}})
    followed = FollowedNotes(journal)
    await followed.follow("k", apply)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(followed.run)
        await trio.sleep(2 * POLL_EVERY)
        await other.write_notes("other", {"x": {}})
        await other.write_notes("k", {"y": {"n": 2}})
        await trio.sleep(1)
        nursery.cancel_scope.cancel()
    assert seen == [{"x": {"n": 1}}, {"y": {"n": 2}}]


@pytest.mark.parametrize("owned", [0, 2])
async def test_members_are_listed_with_their_work(members: Members, owned: int) -> None:
    await members.b.deliver(NewCommand("unowned", "k", "message", {}, new=True))
    for name in "xyz"[:owned]:
        await members.a.deliver(NewCommand(name, "k", "message", {}, new=True))
        await members.a.claim(name)
    a, b = (await members.a.fleet()).members
    assert (a.name, a.streams, a.open) == ("a", owned, owned)
    assert (b.name, b.streams, b.open) == ("b", 0, 0)
    assert (await members.a.fleet()).unowned == 1
    assert 0 < a.seconds <= 10
    members.wall.now += 20
    await members.b.renew()
    left = [each.name for each in (await members.b.fleet()).members]
    assert left == (["a", "b"] if owned else ["b"])  # a dead member is listed while its work is open
