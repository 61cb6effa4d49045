"""The contract of the outbox."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from stopgo.runtime.journal.errors import Fenced, JournalError
from stopgo.runtime.journal.protocol import Commit, Journal, NewCommand, NewEvent
from stopgo.runtime.journal.question import NewQuestion
from stopgo.runtime.journal.summary import Summary
from tests.runtime.journal.conftest import Members, Wall
from tests.runtime.journal.kept import claimed

SUMMARY = Summary("idle", "a", False, {})


async def told(journal: Journal) -> Sequence[object]:
    return [row.body for row in await journal.outbox(100)]


async def stream(journal: Journal, name: str = "s") -> None:
    await journal.deliver(NewCommand(name, "k", "say", {}, new=True))


async def test_a_save_writes_its_rows_in_order(journal: Journal, wall: Wall) -> None:
    await stream(journal)
    fence = await claimed(journal, "s")
    wall.now = 1_234.0
    await journal.save(Commit(fence, 0, [NewEvent("e", {})], outbox=[{"n": 1}, {"n": 2}], summary=SUMMARY))
    await journal.save(Commit(fence, 1, outbox=[{"n": "ä"}]))
    rows = await journal.outbox(100)
    assert [row.body for row in rows] == [{"n": 1}, {"n": 2}, {"n": "ä"}]
    assert {row.at for row in rows} == {1_234.0}
    assert await journal.outbox(2) == rows[:2]
    await journal.drop_outbox([rows[0].number, rows[2].number, 99_999])
    assert await told(journal) == [{"n": 2}]


async def test_a_number_is_not_used_again(journal: Journal) -> None:
    await journal.write_notes("k", {}, outbox=[{"n": 1}])
    [first] = await journal.outbox(9)
    await journal.drop_outbox([first.number])
    await journal.write_notes("k", {}, outbox=[{"n": 2}])
    [second] = await journal.outbox(9)
    assert second.number != first.number


async def test_a_save_that_is_refused_writes_no_row(journal: Journal) -> None:
    await stream(journal)
    old = await claimed(journal, "s")
    fence = await claimed(journal, "s")
    await journal.save(Commit(fence, 0, [NewEvent("e", {})], questions=[NewQuestion("q", "tool", {}, None)]))
    with pytest.raises(Fenced):
        await journal.save(Commit(old, 1, outbox=[{"n": 1}]))
    with pytest.raises(Fenced):
        await journal.save(Commit(fence, 0, [NewEvent("other", {})], outbox=[{"n": 2}]))
    again = [NewQuestion("q", "tool", {}, None)]
    with pytest.raises(JournalError, match="already exists"):
        await journal.save(Commit(fence, 1, questions=again, outbox=[{"n": 3}]))
    assert await told(journal) == []


async def test_a_repeated_save_writes_its_rows_once(journal: Journal) -> None:
    await stream(journal)
    commit = Commit(await claimed(journal, "s"), 0, [NewEvent("e", {})], outbox=[{"n": 1}], summary=SUMMARY)
    await journal.save(commit)
    await journal.save(commit)
    assert await told(journal) == [{"n": 1}]


async def test_a_deletion_keeps_the_rows_of_its_stream_and_adds_its_own(journal: Journal) -> None:
    await stream(journal)
    fence = await claimed(journal, "s")
    await journal.save(Commit(fence, 0, [NewEvent("e", {})], outbox=[{"n": 1}], summary=SUMMARY))
    await journal.delete(fence, [{"n": 2}])
    await journal.delete(fence, [{"n": 3}])  # there is no such stream
    assert await told(journal) == [{"n": 1}, {"n": 2}]


async def test_a_note_and_its_row_are_written_together(journal: Journal) -> None:
    assert await journal.write_notes("k", {"x": {}}, at=0, outbox=[{"n": 1}])
    assert not await journal.write_notes("k", {"x": {}}, at=0, outbox=[{"n": 2}])
    assert await told(journal) == [{"n": 1}]


async def test_all_members_see_the_rows(members: Members) -> None:
    await members.a.write_notes("k", {}, outbox=[{"n": 1}])
    [row] = await members.b.outbox(9)
    await members.b.drop_outbox([row.number])
    assert await told(members.a) == []
