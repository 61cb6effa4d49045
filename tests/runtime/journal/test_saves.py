"""The contract: one owner writes a stream, in order, all of it or nothing."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import trio
import trio.testing

from stopgo.runtime.journal.errors import (
    Fenced,
    IntentExists,
    JournalError,
    NoteTooLong,
    QuestionTaken,
    UnknownStream,
)
from stopgo.runtime.journal.memory.memory_stream import Intent
from stopgo.runtime.journal.ownership import Fence
from stopgo.runtime.journal.protocol import (
    LONGEST_NOTE,
    Commit,
    Event,
    Journal,
    NewCommand,
    NewEvent,
    NewIntent,
    Saved,
    SettleIntent,
)
from stopgo.runtime.journal.question import CloseQuestion, NewQuestion, Question
from stopgo.runtime.journal.summary import Summary
from tests.runtime.journal.kept import claimed, intents_of, question_of, reply_of, row_of


async def test_events_are_numbered_and_dated(journal: Journal, begin: Any, wall: Any) -> None:
    fence = await begin()
    wall.now = 1008.0
    saved = await journal.save(Commit(fence, 1, [NewEvent("a", {"x": 1}), NewEvent("b", {})]))
    assert saved == Saved(first_seq=2, at=1008.0)
    assert await journal.events_since("s", 1) == (
        Event("s", 2, "a", 1008.0, {"x": 1}),
        Event("s", 3, "b", 1008.0, {}),
    )
    row = await row_of(journal, "s")
    assert (row.last_seq, row.created, row.updated) == (3, 1000.0, 1008.0)


async def test_an_event_may_say_when_it_happened(journal: Journal, begin: Any, wall: Any) -> None:
    fence = await begin()
    wall.now = 8.0
    saved = await journal.save(Commit(fence, 1, [NewEvent("a", {}, at=0.0), NewEvent("b", {})]))
    assert saved.at == 8.0
    assert [event.at for event in await journal.events_since("s", 1)] == [0.0, 8.0]


async def test_a_stream_was_updated_when_its_latest_event_happened(
    journal: Journal, begin: Any, wall: Any
) -> None:
    fence = await begin()
    wall.now = 1009.0
    await journal.save(Commit(fence, 1, [NewEvent("a", {}, at=1005.0), NewEvent("b", {}, at=1004.0)]))
    await journal.save(Commit(fence, 3, [NewEvent("c", {}, at=1001.0)]))
    await journal.save(Commit(fence, 4, ack=["first"]))
    row = await row_of(journal, "s")
    assert (row.last_seq, row.updated) == (4, 1005.0)


async def test_a_save_may_hold_no_event(journal: Journal, begin: Any) -> None:
    fence = await begin()
    saved = await journal.save(Commit(fence, 1, summary=Summary("done", "t", open=True, body={"a": [1]})))
    assert saved.first_seq == 2
    row = await row_of(journal, "s")
    assert (row.last_seq, row.summary) == (1, Summary("done", "t", open=True, body={"a": [1]}))


async def test_a_save_without_summary_leaves_it(journal: Journal, begin: Any) -> None:
    fence = await begin(status="active", title="T")
    await journal.save(Commit(fence, 1, [NewEvent("a", {})]))
    row = await row_of(journal, "s")
    assert row.summary is not None
    assert (row.summary.status, row.summary.title) == ("active", "T")


async def test_only_the_newest_owner_writes(journal: Journal, begin: Any) -> None:
    old = await begin()
    new = await claimed(journal, "s")
    assert new != old, "the same owner claims anew"
    for write in (journal.save(Commit(old, 1, [NewEvent("a", {})])), journal.delete(old)):
        with pytest.raises(Fenced, match="claimed"):
            await write
    await journal.save(Commit(new, 1, [NewEvent("b", {})]))
    assert [each.type for each in await journal.events_since("s", 0)] == ["created", "b"]


async def test_newest_owner_is_the_only_writer(journal: Journal, begin: Any) -> None:
    fence, seq, lost = await begin(), 1, 0

    async def save(fence: Fence, seq: int) -> None:
        nonlocal lost
        try:
            await journal.save(Commit(fence, seq, [NewEvent("a", {})]))
        except Fenced:
            lost += 1

    for attempt in range(40):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(save, fence, seq)
            for _ in range(attempt % 8):
                await trio.lowlevel.checkpoint()
            fence = await claimed(journal, "s")
            seq = len(await journal.events_since("s", 0))
        assert len(await journal.events_since("s", 0)) == seq
    assert 0 < lost < 40


@pytest.mark.parametrize("expected", [0, 2])
async def test_a_writer_that_missed_something_is_fenced(journal: Journal, begin: Any, expected: int) -> None:
    fence = await begin()
    with pytest.raises(Fenced, match="at 1"):
        await journal.save(Commit(fence, expected, [NewEvent("a", {})], ack=["first"]))
    assert len(await journal.events_since("s", 0)) == 1


async def test_there_must_be_a_stream_to_write_to(journal: Journal, begin: Any) -> None:
    with pytest.raises(UnknownStream, match="'s'"):
        await claimed(journal, "s")
    fence = await begin()
    await journal.delete(fence)
    with pytest.raises(UnknownStream):
        await journal.save(Commit(fence, 1, [NewEvent("a", {})]))
    assert await journal.delete(fence) == (), "the answer to the first deletion may have been lost"


async def test_a_fence_does_not_outlive_its_stream(journal: Journal, begin: Any) -> None:
    old = await begin()
    await journal.delete(old)
    await journal.deliver(NewCommand("s", "again", "message", {}, new=True))
    with pytest.raises(Fenced):
        await journal.save(Commit(old, 0, [NewEvent("a", {})]))
    assert await claimed(journal, "s") != old
    with pytest.raises(Fenced):
        await journal.save(Commit(old, 0, [NewEvent("a", {})]))


async def test_a_hundred_writers_leave_no_gap(journal: Journal) -> None:
    names = [f"s{number}" for number in range(10)]
    for name in names:
        await journal.deliver(NewCommand(name, "k", "message", {}, new=True))
    fences = {name: await claimed(journal, name) for name in names}
    given: dict[str, list[int]] = {name: [] for name in names}

    async def save(name: str, number: int) -> None:
        while True:
            seq = len(await journal.events_since(name, 0))
            try:
                saved = await journal.save(Commit(fences[name], seq, [NewEvent(f"e{number}", {})] * 2))
            except Fenced:
                continue
            given[name].append(saved.first_seq)
            return

    async with trio.open_nursery() as nursery:
        for number in range(100):
            nursery.start_soon(save, names[number % 10], number)
    for name in names:
        assert sorted(given[name]) == list(range(1, 21, 2))
        events = await journal.events_since(name, 0)
        assert [each.seq for each in events] == list(range(1, 21))
        assert len({each.type for each in events}) == 10


async def test_all_or_nothing(journal: Journal, begin: Any) -> None:
    fence = await begin(status="active")
    await journal.deliver(NewCommand("s", "open", "message", {}))
    await journal.save(Commit(fence, 1, intents=[NewIntent("call", 1, "once", {})]))
    with pytest.raises(IntentExists):
        await journal.save(
            Commit(
                fence,
                1,
                [NewEvent("a", {})],
                questions=[NewQuestion("q", "tool", {})],
                intents=[NewIntent("other", 1, "once", {}), NewIntent("call", 1, "once", {})],
                ack=["open"],
                replies={"open": {}},
                summary=Summary("done", "", open=True, body={}),
            )
        )
    assert len(await journal.events_since("s", 0)) == 1
    assert await journal.question("q") is None
    assert [each.key for each in await intents_of(journal, "s")] == ["call"]
    assert [each.key for each in await journal.inbox("s")] == ["open"]
    assert await reply_of(journal, "s", "open") is None
    row = await row_of(journal, "s")
    assert row.summary is not None
    assert row.summary.status == "active"
    assert dict((await journal.list()).tally) == {"active": 1}
    await journal.save(Commit(fence, 1, [NewEvent("a", {})], questions=[NewQuestion("q", "tool", {})]))


async def test_a_refused_save_does_not_hurt_the_ones_beside_it(journal: Journal) -> None:
    names = [f"s{number}" for number in range(20)]
    for name in names:
        await journal.deliver(NewCommand(name, "k", "message", {}, new=True))
    fences = {name: await claimed(journal, name) for name in names}
    refused: list[str] = []

    async def save(name: str, seq: int) -> None:
        try:
            await journal.save(Commit(fences[name], seq, [NewEvent("a", {})]))
        except Fenced:
            refused.append(name)

    async with trio.open_nursery() as nursery:
        for number, name in enumerate(names):
            nursery.start_soon(save, name, number % 2)
    assert set(refused) == set(names[1::2])
    for number, name in enumerate(names):
        assert len(await journal.events_since(name, 0)) == (number + 1) % 2


# ------------------------------------------------------------------------ intents


async def test_an_attempt_begins_once(journal: Journal, begin: Any) -> None:
    fence = await begin()
    await journal.save(Commit(fence, 1, intents=[NewIntent("call", 1, "once", {"tool": "rm"})]))
    with pytest.raises(IntentExists, match="attempt 1 of 'call'"):
        await journal.save(Commit(fence, 1, intents=[NewIntent("call", 1, "read", {})]))
    with pytest.raises(IntentExists):
        await journal.save(Commit(fence, 1, intents=[NewIntent("new", 1, "read", {})] * 2))
    await journal.save(
        Commit(fence, 1, intents=[NewIntent("call", 2, "once", {}), NewIntent("d", 1, "read", {})])
    )
    assert await intents_of(journal, "s") == (
        Intent("call", 1, "once", "started", {"tool": "rm"}),
        Intent("call", 2, "once", "started", {}),
        Intent("d", 1, "read", "started", {}),
    )


async def test_intents_are_settled_each_by_its_attempt(journal: Journal, begin: Any) -> None:
    fence = await begin()
    await journal.save(
        Commit(fence, 1, intents=[NewIntent("c", attempt, "once", {}) for attempt in (1, 2, 3, 4)])
    )
    await journal.save(
        Commit(
            fence,
            1,
            settle=[
                SettleIntent("c", 1, "finished"),
                SettleIntent("c", 2, "unknown"),
                SettleIntent("c", 3, "cancelled"),
            ],
        )
    )
    states = [each.state for each in await intents_of(journal, "s")]
    assert states == ["finished", "unknown", "cancelled", "started"]
    with pytest.raises(IntentExists):
        await journal.save(Commit(fence, 1, intents=[NewIntent("c", 2, "once", {})]))


async def test_unknown_intent_cannot_be_settled(journal: Journal, begin: Any) -> None:
    fence = await begin()
    with pytest.raises(JournalError, match="has not begun"):
        await journal.save(Commit(fence, 1, [NewEvent("a", {})], settle=[SettleIntent("c", 1, "finished")]))
    assert len(await journal.events_since("s", 0)) == 1


# ---------------------------------------------------------------------- questions


async def test_a_question_is_put(journal: Journal, begin: Any, wall: Any) -> None:
    fence = await begin()
    wall.now = 9.0
    await journal.save(Commit(fence, 1, questions=[NewQuestion("q", "tool", {"a": 1}, expires=20.0)]))
    assert await journal.question("q") == Question(
        id="q",
        stream="s",
        kind="tool",
        state="pending",
        body={"a": 1},
        decision=None,
        created=9.0,
        expires=20.0,
        settled=None,
    )


@pytest.mark.parametrize("state", ["expired", "void"])
async def test_a_question_is_closed_and_patched(journal: Journal, begin: Any, wall: Any, state: Any) -> None:
    fence = await begin()
    await journal.save(Commit(fence, 1, questions=[NewQuestion("q", "tool", {"a": 1, "b": 1})]))
    wall.now = 12.0
    await journal.save(
        Commit(fence, 1, questions=[CloseQuestion("q", state, {"b": 2, "superseded_by": "r"})])
    )
    question = await question_of(journal, "q")
    assert (question.state, question.settled, question.decision) == (state, 12.0, None)
    assert question.body == {"a": 1, "b": 2, "superseded_by": "r"}


async def test_closing_comes_too_late_for_a_decided_question(journal: Journal, begin: Any) -> None:
    fence = await begin()
    await journal.save(Commit(fence, 1, questions=[NewQuestion("q", "tool", {})]))
    decided = await journal.decide("q", {"approved": True}, "d")
    with pytest.raises(QuestionTaken):
        await journal.save(
            Commit(fence, 1, [NewEvent("a", {})], questions=[CloseQuestion("q", "void", {"x": 1})])
        )
    assert await journal.question("q") == decided.question  # type: ignore[union-attr]
    assert len(await journal.events_since("s", 0)) == 1


async def test_a_question_is_asked_and_closed_once_and_by_its_own_stream(
    journal: Journal, begin: Any
) -> None:
    mine, other = await begin("s"), await begin("t")
    put, close = NewQuestion("q", "tool", {}), CloseQuestion("q", "void")
    await journal.save(Commit(mine, 1, questions=[put]))
    for fence in (mine, other):
        with pytest.raises(JournalError, match="'q' already"):
            await journal.save(Commit(fence, 1, questions=[put]))
    with pytest.raises(JournalError, match="not pending"):
        await journal.save(Commit(other, 1, questions=[close]))
    await journal.save(Commit(mine, 1, questions=[close]))
    with pytest.raises(JournalError, match="not pending"):
        await journal.save(Commit(mine, 1, questions=[close]))
    with pytest.raises(JournalError, match="already"):
        await journal.save(Commit(mine, 1, questions=[NewQuestion("r", "tool", {})] * 2))
    assert await journal.question("r") is None


async def test_one_save_may_replace_a_question(journal: Journal, begin: Any) -> None:
    fence = await begin()
    await journal.save(Commit(fence, 1, questions=[NewQuestion("q", "tool", {})]))
    await journal.save(Commit(fence, 1, questions=[CloseQuestion("q", "void"), NewQuestion("r", "tool", {})]))
    assert [each.id for each in (await journal.questions()).questions] == ["r"]


# ------------------------------------------------------------------- cancellation


async def test_a_cancelled_call_that_was_not_handed_over_does_nothing(journal: Journal, begin: Any) -> None:
    fence = await begin()
    with trio.CancelScope() as scope:
        scope.cancel()
        await journal.save(Commit(fence, 1, [NewEvent("a", {})]))
    assert scope.cancelled_caught
    assert len(await journal.events_since("s", 0)) == 1


async def test_a_call_that_was_handed_over_has_its_outcome(journal: Journal, begin: Any) -> None:
    fence = await begin()
    seq, cancelled = 1, 0
    for attempt in range(100):
        saved: list[Saved] = []
        scope = trio.CancelScope()

        async def save(scope: trio.CancelScope = scope, saved: list[Saved] = saved, seq: int = seq) -> None:
            with scope:
                saved.append(await journal.save(Commit(fence, seq, [NewEvent("a", {})])))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(save)
            for _ in range(attempt % 8):
                await trio.lowlevel.checkpoint()
            scope.cancel()
        written = len(await journal.events_since("s", seq))
        assert written == len(saved), "the caller knows what is on disk"
        seq += written
        cancelled += 1 - written
    assert seq > 1
    assert cancelled > 0


async def test_a_call_yields_before_it_acts(journal: Journal, begin: Any) -> None:
    fence = await begin()
    calls: list[Callable[[], Awaitable[object]]] = [
        lambda: journal.deliver(NewCommand("s", "x", "message", {})),
        lambda: journal.save(Commit(fence, 1)),
        lambda: journal.claim("s"),
        lambda: journal.decide("q", {}, "k"),
        lambda: journal.events_since("s", 0),
        lambda: journal.inbox("s"),
        lambda: journal.list(),
        lambda: journal.list(q="x"),
        lambda: journal.questions(),
        lambda: journal.question("q"),
        lambda: journal.row("s"),
        lambda: journal.due(),
        lambda: journal.open_work(),
        lambda: journal.write_notes("a", {"x": {}}),
        lambda: journal.notes("a"),
        lambda: journal.delete(fence),
    ]
    for call in calls:
        with trio.testing.assert_checkpoints():
            try:
                await call()
            except Fenced:
                continue


async def test_saved_values_do_not_follow_the_callers_objects(journal: Journal, begin: Any) -> None:
    fence = await begin()
    body: dict[str, Any] = {"list": [1]}
    events = [NewEvent("a", body)]
    await journal.deliver(NewCommand("s", "k", "message", body))
    await journal.save(
        Commit(
            fence,
            1,
            events,
            intents=[NewIntent("c", 1, "read", body)],
            questions=[NewQuestion("q", "tool", body)],
            replies={"k": body},
            summary=Summary("active", "", open=False, body=body),
        )
    )
    body["list"].append(2)
    events.append(NewEvent("b", {}))
    kept = {"list": [1]}
    assert [each.body for each in await journal.events_since("s", 1)] == [kept]
    assert [each.body for each in await journal.inbox("s")] == [kept]
    assert [each.body for each in await intents_of(journal, "s")] == [kept]
    question, row = await journal.question("q"), await journal.row("s")
    assert question is not None
    assert row is not None
    assert row.summary is not None
    assert question.body == row.summary.body == await reply_of(journal, "s", "k") == kept


@pytest.mark.parametrize(
    "text", ["", "ünïcödé", "\u0000", "\ud800 half", '"quoted" \\ %_', "\u2028", "🛑" * 1000]
)
async def test_any_text_comes_back_as_it_was(journal: Journal, begin: Any, text: str) -> None:
    fence = await begin()
    body: dict[str, Any] = {text: text, "n": [1, 1.5, True, None, {"": []}]}
    await journal.save(
        Commit(fence, 1, [NewEvent("a", body)], summary=Summary("active", text, open=False, body=body))
    )
    assert (await journal.events_since("s", 1))[0].body == body
    (row,) = (await journal.list(q=text)).rows
    assert row.summary is not None
    assert (row.summary.title, row.summary.body) == (text, body)


async def test_the_last_note_of_a_key_stays(journal: Journal) -> None:
    body: dict[str, Any] = {"n": 1}
    await journal.write_notes("a", {"x": body, "\ud800 half": {}, "": {"n": 0}})
    body["n"] = 2
    await journal.write_notes("a", {"y": body})
    await journal.write_notes("b", {"x": {"n": 3}})
    assert await journal.notes("a") == {"x": {"n": 1}, "\ud800 half": {}, "": {"n": 0}, "y": {"n": 2}}
    await journal.write_notes("a", {"x": body})
    assert (await journal.notes("a"))["x"] == {"n": 2}
    assert await journal.notes("nobody") == {}


@pytest.mark.parametrize("long", [{"x": {"n": "9" * LONGEST_NOTE}}, {"9" * LONGEST_NOTE: {}}])
async def test_notes_are_short(journal: Journal, long: Any) -> None:
    with pytest.raises(NoteTooLong):
        await journal.write_notes("a", {"short": {}, **long})
    assert await journal.notes("a") == {}


@pytest.mark.parametrize("wrong", [{"x": float("nan")}, {"x": object()}])
async def test_value_that_is_not_json_fails_only_its_caller(journal: Journal, begin: Any, wrong: Any) -> None:
    fence = await begin()
    with pytest.raises((TypeError, ValueError), match="JSON"):
        await journal.save(Commit(fence, 1, [NewEvent("a", wrong)]))
    await journal.save(Commit(fence, 1, [NewEvent("a", {})]))
