"""Groups of writes on PostgreSQL: what a write may not do to the others of its group."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import attrs
import psycopg
import pytest
import trio
import trio.testing

from stopgo.runtime.journal.errors import (
    Fenced,
    IntentExists,
    JournalError,
    JournalUnavailable,
    QuestionTaken,
    UnknownStream,
)
from stopgo.runtime.journal.ownership import Fence, Owned
from stopgo.runtime.journal.postgres import group as group_module
from stopgo.runtime.journal.postgres import pipeline_queue as queue_module
from stopgo.runtime.journal.postgres import pool as pool_module
from stopgo.runtime.journal.postgres.journal import PostgresJournal, open_postgres
from stopgo.runtime.journal.protocol import (
    Accepted,
    Commit,
    KeyReused,
    NewCommand,
    NewEvent,
    NewIntent,
    NotAccepted,
    Repeated,
    Saved,
    SettleIntent,
)
from stopgo.runtime.journal.question import CloseQuestion, NewQuestion
from stopgo.runtime.journal.summary import Summary
from tests.postgres_server import Database
from tests.postgres_wire import Fault, Wire, wire_to
from tests.runtime.journal.kept import claimed, intents_of, question_of, reply_of, row_of
from tests.waiting import until

pytestmark = pytest.mark.postgres

Outcome = Saved | JournalError | ValueError


@pytest.fixture
def wire(database: Database) -> Iterator[Wire]:
    with wire_to(database.dsn) as wire:
        yield wire


@asynccontextmanager
async def opened(dsn: str, member: str = "a") -> AsyncIterator[tuple[PostgresJournal, list[int]]]:
    """A journal, and the sizes of its commits."""
    sizes: list[int] = []
    async with open_postgres(dsn, member=member, on_commit=lambda size, _: sizes.append(size)) as journal:
        await journal.renew()
        yield journal, sizes


async def begun(journal: PostgresJournal, count: int) -> list[Fence]:
    """The fences of new streams with one event."""
    fences: list[Fence] = []
    for number in range(count):
        await journal.deliver(NewCommand(f"s{number}", "first", "message", {}, new=True))
        fences.append(await claimed(journal, f"s{number}"))
        await journal.save(Commit(fences[-1], 0, [NewEvent("created", {})]))
    return fences


async def together(*writes: Callable[[], Awaitable[Any]]) -> list[Any]:
    """The outcomes of writes that wait at the same time."""
    outcomes: dict[int, object] = {}

    async def write(number: int) -> None:
        try:
            outcomes[number] = await writes[number]()
        except (JournalError, ValueError) as error:
            outcomes[number] = error

    async with trio.open_nursery() as nursery:
        for number in range(len(writes)):
            nursery.start_soon(write, number)
    return [outcomes[number] for number in range(len(writes))]


async def saved_together(journal: PostgresJournal, *commits: Commit) -> list[Outcome]:
    return await together(*[partial(journal.save, each) for each in commits])


def kinds(outcomes: list[Outcome]) -> list[type[Outcome]]:
    return [type(each) for each in outcomes]


async def lengths(journal: PostgresJournal, fences: list[Fence]) -> list[int]:
    """The numbers of events, as their streams have counted them."""
    found = []
    for fence in fences:
        events = await journal.events_since(fence.stream, 0)
        assert len(events) == (await row_of(journal, fence.stream)).last_seq
        found.append(len(events))
    return found


ADDED = [NewEvent("a", {"n": 1})]


async def test_saves_that_wait_at_the_same_time_are_one_commit(database: Database) -> None:
    async with opened(database.dsn) as (a, sizes):
        fences = await begun(a, 5)
        sizes.clear()
        database.set_clock(1001.0)
        commits = [Commit(fence, 1, ADDED * number) for number, fence in enumerate(fences)]
        assert await saved_together(a, *commits) == [Saved(2, 1001.0)] * 5
        assert sizes == [5]
        assert await lengths(a, fences) == [1, 2, 3, 4, 5]


async def test_group_keeps_its_saves_apart(database: Database) -> None:
    """Each part of a save, in a group in which the other saves have others, or the same."""
    async with opened(database.dsn) as (a, sizes):
        fences = await begun(a, 4)
        for fence in fences:
            name = fence.stream
            await a.deliver(NewCommand(name, "k", "message", {}))
            old = NewIntent("old", 1, "once", {})
            await a.save(Commit(fence, 1, intents=[old], questions=[NewQuestion(f"q {name}", "tool", {})]))
        sizes.clear()
        summary = Summary("done", "t", open=True, body={"a": 1}, owner="o")
        new, settle = NewIntent("new", 2, "read", {"i": 1}), SettleIntent("old", 1, "unknown")
        close, ask = CloseQuestion("q s1", "void", {"p": 1}), NewQuestion("new", "tool", {"q": 1})
        outcomes = await saved_together(
            a,
            Commit(fences[0], 1, ADDED, intents=[new], settle=[settle]),
            Commit(fences[1], 1, questions=[close, ask]),
            Commit(fences[2], 1, ADDED, summary=summary, ack=["k"], replies={"k": {"r": 1}}),
            Commit(fences[3], 1, refuse={"k": {"no": 1}}),
        )
        assert kinds(outcomes) == [Saved] * 4
        assert sizes == [4]
        intents = [
            {(each.key, each.attempt, each.effect, each.state) for each in await intents_of(a, fence.stream)}
            for fence in fences
        ]
        assert intents[0] == {("old", 1, "once", "unknown"), ("new", 2, "read", "started")}
        assert intents[1:] == [{("old", 1, "once", "started")}] * 3
        asked = [await question_of(a, id) for id in ("q s0", "q s1", "q s2", "q s3", "new")]
        assert [each.state for each in asked] == ["pending", "void", "pending", "pending", "pending"]
        assert (asked[1].body, asked[4].body, asked[4].stream) == ({"p": 1}, {"q": 1}, "s1")
        waiting = [[each.key for each in await a.inbox(fence.stream)] for fence in fences]
        assert waiting == [["first", "k"], ["first", "k"], ["first"], ["first"]]
        assert [await reply_of(a, name, "k") for name in ("s2", "s3")] == [{"r": 1}, {"no": 1}]
        rows = [await row_of(a, fence.stream) for fence in fences]
        assert [each.summary == summary for each in rows] == [False, False, True, False]
        assert await lengths(a, fences) == [2, 1, 2, 1]


@pytest.mark.parametrize(
    ("fault", "error"),
    [
        ({"intents": [NewIntent("old", 1, "once", {})]}, IntentExists),
        ({"settle": [SettleIntent("unknown", 1, "finished")]}, JournalError),
        ({"questions": [NewQuestion("old", "tool", {})]}, JournalError),
        ({"questions": [CloseQuestion("decided", "void")]}, QuestionTaken),
    ],
    ids=["intent begun", "intent unknown", "question asked", "question decided"],
)
async def test_save_that_fails_fails_alone(
    database: Database, fault: dict[str, Any], error: type[JournalError]
) -> None:
    """It undoes its group, whose other saves are then made one by one."""
    async with opened(database.dsn) as (a, sizes):
        fences = await begun(a, 3)
        questions = [NewQuestion("old", "tool", {}), NewQuestion("decided", "tool", {})]
        await a.save(Commit(fences[1], 1, intents=[NewIntent("old", 1, "once", {})], questions=questions))
        await a.decide("decided", {}, "d")
        sizes.clear()
        commits = [Commit(fence, 1, ADDED) for fence in fences]
        commits[1] = Commit(fences[1], 1, ADDED, **fault)
        assert kinds(await saved_together(a, *commits)) == [Saved, error, Saved]
        assert sizes == [1, 1]
        assert await lengths(a, fences) == [2, 1, 2]


@pytest.mark.parametrize("lost", ["fence", "seq", "stream"])
async def test_save_without_its_right_disturbs_no_other(database: Database, lost: str) -> None:
    async with opened(database.dsn) as (a, sizes):
        fences = await begun(a, 3)
        commits = [Commit(fence, 1, ADDED, intents=[NewIntent("c", 1, "once", {})]) for fence in fences]
        if lost == "fence":
            await claimed(a, "s1")
        elif lost == "seq":
            await a.save(Commit(fences[1], 1, [NewEvent("other", {})]))
        else:
            await a.delete(fences[1])
        sizes.clear()
        outcomes = await saved_together(a, *commits)
        assert isinstance(outcomes[1], Fenced if lost != "stream" else JournalError)
        assert kinds([outcomes[0], outcomes[2]]) == [Saved, Saved]
        assert sizes == [2], "the others were one commit"
        assert await lengths(a, [fences[0], fences[2]]) == [2, 2]
        assert not await intents_of(a, "s1")


async def test_two_members_save_the_same_streams(database: Database) -> None:
    """Both send groups of the same streams, with fences of their own: of each stream, one member writes."""
    async with opened(database.dsn, "a") as (a, _), opened(database.dsn, "b") as (b, _):
        old = await begun(a, 8)
        await a.leave()
        new = [await claimed(b, fence.stream) for fence in old]
        outcomes: dict[str, list[Outcome]] = {}

        async def save(journal: PostgresJournal, fences: list[Fence]) -> None:
            outcomes[journal.member] = await saved_together(
                journal, *[Commit(fence, 1, ADDED) for fence in fences]
            )

        async with trio.open_nursery() as nursery:
            nursery.start_soon(save, a, old)
            nursery.start_soon(save, b, new)
        assert kinds(outcomes["a"]) == [Fenced] * 8
        assert kinds(outcomes["b"]) == [Saved] * 8
        assert await lengths(b, new) == [2] * 8


async def test_saves_of_one_stream_are_not_in_one_group(database: Database) -> None:
    async with opened(database.dsn) as (a, _):
        [fence] = await begun(a, 1)
        commits = [Commit(fence, 1, [NewEvent(f"e{number}", {})] * 2) for number in range(3)]
        assert Counter(kinds(await saved_together(a, *commits))) == {Saved: 1, Fenced: 2}
        assert await lengths(a, [fence]) == [3]


async def test_stream_that_is_locked_holds_up_no_other(database: Database) -> None:
    async with opened(database.dsn) as (a, sizes):
        fences = await begun(a, 3)
        sizes.clear()
        with psycopg.connect(database.dsn) as other:
            other.execute("SELECT FROM stream WHERE name = 's1' FOR NO KEY UPDATE")
            async with trio.open_nursery() as nursery:
                nursery.start_soon(saved_together, a, *[Commit(fence, 1, ADDED) for fence in fences])
                await until(lambda: len(sizes) > 0)
                assert sizes == [2], "the group has not waited"
                assert await lengths(a, fences) == [2, 1, 2]
                other.rollback()
        assert await lengths(a, fences) == [2, 2, 2]


# ------------------------------------------------------------------ other writes


def message(stream: str, key: str, **conditions: Any) -> NewCommand:
    return NewCommand(stream, key, "message", {"text": key}, **conditions)


async def test_writes_of_all_kinds_are_one_commit(database: Database) -> None:
    async with opened(database.dsn) as (a, sizes):
        fences = await begun(a, 3)
        sizes.clear()
        outcomes = await together(
            partial(a.deliver, message("new", "k", new=True, follow=True)),
            partial(a.deliver, message("s0", "k")),
            partial(a.save, Commit(fences[0], 1, ADDED)),
            partial(a.claim, "s1"),
            partial(a.release, fences[2], ["first"]),
        )
        assert sizes == [5]
        accepted, also_accepted, saved, fence, is_released = outcomes
        assert (accepted, also_accepted, type(saved), is_released) == (Accepted(), Accepted(), Saved, True)
        assert fence.epoch > fences[1].epoch
        assert [await a.owns(each) for each in (*fences, fence)] == [True, False, False, True]
        assert await a.owners(["new"]) == {"new": "a"}
        found = [[each.key for each in await a.inbox(stream)] for stream in ("new", "s0", "s1")]
        assert found == [["k"], ["first", "k"], ["first"]]
        assert (await a.inbox("s0"))[1].body == {"text": "k"}


UNLESS, NOT_BEHIND = frozenset({""}), frozenset({"message"})
REFUSED: list[tuple[str, Callable[[PostgresJournal, Fence], Awaitable[object]], object]] = [
    ("repeated", lambda a, _: a.deliver(NewCommand("s1", "first", "message", {})), Repeated(None)),
    ("key reused", lambda a, _: a.deliver(message("s1", "first")), KeyReused()),
    ("full", lambda a, _: a.deliver(message("s1", "k", limit=0)), NotAccepted("full")),
    ("status", lambda a, _: a.deliver(message("s1", "k", unless=UNLESS)), NotAccepted("status", "")),
    ("behind", lambda a, _: a.deliver(message("s1", "k", not_behind=NOT_BEHIND)), NotAccepted("behind")),
    ("unknown", lambda a, _: a.deliver(message("unknown", "k")), NotAccepted("unknown_stream")),
    ("nothing to claim", lambda a, _: a.claim("unknown"), UnknownStream),
    ("open commands", lambda a, fence: a.release(fence), False),
    ("old fence", lambda a, fence: a.release(Fence("s1", "a", fence.epoch - 1), ["first"]), True),
    ("no text", lambda a, _: a.deliver(message("s1", "\ud800")), UnicodeEncodeError),
]  # fmt: skip


@pytest.mark.parametrize(
    ("write", "expected"), [each[1:] for each in REFUSED], ids=[each[0] for each in REFUSED]
)
async def test_write_that_is_refused_disturbs_no_other(
    database: Database, write: Callable[[PostgresJournal, Fence], Awaitable[object]], expected: object
) -> None:
    async with opened(database.dsn) as (a, sizes):
        fences = await begun(a, 3)
        sizes.clear()
        saved, outcome, accepted = await together(
            partial(a.save, Commit(fences[0], 1, ADDED)),
            partial(write, a, fences[1]),
            partial(a.deliver, message("s2", "k")),
        )
        assert (type(saved), accepted) == (Saved, Accepted())
        assert outcome == expected or type(outcome) is expected
        assert sizes == [2]
        assert await a.owns(fences[1])
        assert [each.key for each in await a.inbox("s1")] == ["first"]


async def test_stream_of_another_member_is_not_claimed_in_a_group(database: Database) -> None:
    async with opened(database.dsn, "a") as (a, _), opened(database.dsn, "b") as (b, sizes):
        fences = await begun(a, 2)
        outcomes = await together(
            partial(b.claim, "s0"),
            partial(b.deliver, message("s1", "k", follow=True)),
            partial(b.deliver, message("new", "k", new=True)),
        )
        assert outcomes == [Owned("a"), Accepted(), Accepted()]
        assert sizes == [2]
        assert [await a.owns(fence) for fence in fences] == [True, True]


async def test_save_that_fails_takes_no_other_write_along(database: Database) -> None:
    async with opened(database.dsn) as (a, _):
        fences = await begun(a, 3)
        failed, accepted, fence, is_released = await together(
            partial(a.save, Commit(fences[0], 1, settle=[SettleIntent("unknown", 1, "finished")])),
            partial(a.deliver, message("new", "k", new=True)),
            partial(a.claim, "s1"),
            partial(a.release, fences[2], ["first"]),
        )
        assert (type(failed), accepted, is_released) == (JournalError, Accepted(), True)
        assert await a.owns(fence)
        assert [each.key for each in await a.inbox("new")] == ["k"]


@pytest.mark.parametrize("kind", ["deliver", "claim", "release"])
async def test_locked_stream_holds_up_no_other_write(database: Database, kind: str) -> None:
    async with opened(database.dsn) as (a, sizes):
        fences = await begun(a, 3)
        sizes.clear()

        def write(place: int) -> Callable[[], Awaitable[object]]:
            match kind:
                case "deliver":
                    return partial(a.deliver, message(f"s{place}", "k"))
                case "claim":
                    return partial(a.claim, f"s{place}")
                case _:
                    return partial(a.release, fences[place], ["first"])

        with psycopg.connect(database.dsn) as other:
            other.execute("SELECT FROM stream WHERE name = 's1' FOR NO KEY UPDATE")
            async with trio.open_nursery() as nursery:
                done: list[int] = []

                async def make(place: int) -> None:
                    await write(place)()
                    done.append(place)

                for place in range(3):
                    nursery.start_soon(make, place)
                await until(lambda: len(done) >= 2)
                assert (sorted(done), sizes) == ([0, 2], [2]), "the group has not waited"
                other.rollback()


async def test_limits_hold_in_the_groups_of_several_members(database: Database) -> None:
    async with (
        opened(database.dsn, "a") as (a, _),
        opened(database.dsn, "b") as (b, _),
        opened(database.dsn, "c") as (c, _),
    ):
        names = [f"s{number}" for number in range(24)]
        new = [
            partial(each.deliver, message(name, f"{each.member}{number}", new=True, limit=2))
            for number in range(2)
            for name in names
            for each in (a, b, c)
        ]
        assert Counter(await together(*new)) == {Accepted(): 48, NotAccepted("full"): 96}
        assert [len(await a.inbox(name)) for name in names] == [2] * 24


async def test_writes_whose_answers_are_lost_can_be_repeated(wire: Wire) -> None:
    async with opened(wire.dsn) as (a, sizes):
        fences = await begun(a, 2)
        writes: list[Callable[[], Awaitable[object]]] = [
            partial(a.deliver, message("new", "k", new=True)),
            partial(a.claim, "s0"),
            partial(a.release, fences[1], ["first"]),
        ]
        await a.release(Fence("s0", "a", 0))  # all statements are prepared then
        sizes.clear()
        with wire.losing_answers():
            assert [type(each) for each in await together(*writes)] == [JournalUnavailable] * 3
        assert sizes == []
        known, fence, is_released = await together(*writes)
        assert (known, is_released) == (Repeated(None), True)
        assert [await a.owns(each) for each in (fence, fences[1])] == [True, False]
        assert [each.key for each in await a.inbox("new")] == ["k"]


# ------------------------------------------------------------------ texts and sizes


async def test_text_that_cannot_be_stored_is_refused_before_it_is_in_a_group(database: Database) -> None:
    async with opened(database.dsn) as (a, sizes):
        fences = await begun(a, 3)
        sizes.clear()
        texts = [NewEvent("a", {"text": "\0 \x01 \ud800"})]
        commits = [
            Commit(fences[0], 1, texts, intents=[NewIntent("\0\x01\x01\x02", 1, "once", {})]),
            Commit(fences[1], 1, [NewEvent("\ud800", {})]),
            Commit(fences[2], 1, texts),
        ]
        assert kinds(await saved_together(a, *commits)) == [Saved, UnicodeEncodeError, Saved]
        assert sizes == [2]
        assert await lengths(a, fences) == [2, 1, 2]
        assert [each.body for each in await a.events_since("s0", 1)] == [texts[0].body]
        assert [each.key for each in await intents_of(a, "s0")] == ["\0\x01\x01\x02"]


@pytest.mark.parametrize(
    ("bound", "value", "expected"),
    [
        ("MOST", 2, [2, 2, 1]),
        ("MOST_BYTES", 1000, [3, 2]),
        ("MOST_BYTES", 10, [1] * 5),
        ("MOST_WAITING", 2, [1, 1, 1, 2]),
    ],
)
async def test_groups_have_bounds(
    database: Database, monkeypatch: pytest.MonkeyPatch, bound: str, value: int, expected: list[int]
) -> None:
    async with opened(database.dsn) as (a, sizes):
        fences = await begun(a, 5)
        sizes.clear()
        monkeypatch.setattr(queue_module if bound == "MOST_WAITING" else group_module, bound, value)
        event = NewEvent("a", {"text": "x" * 200})
        assert kinds(await saved_together(a, *[Commit(fence, 1, [event]) for fence in fences])) == [Saved] * 5
        assert sorted(sizes) == sorted(expected)
        assert await lengths(a, fences) == [2] * 5


# ------------------------------------------------------------------ connections


async def test_group_whose_answer_is_lost_can_be_repeated(wire: Wire) -> None:
    """It was committed, and each save of it finds that out."""
    async with opened(wire.dsn) as (a, sizes):
        fences = await begun(a, 3)
        commits = [Commit(fence, 1, ADDED, intents=[NewIntent("c", 1, "once", {})]) for fence in fences]
        with pytest.raises(Fenced):
            await a.save(attrs.evolve(commits[0], expected_seq=7))  # the statement is prepared then
        sizes.clear()
        with wire.losing_answers():
            assert kinds(await saved_together(a, *commits)) == [JournalUnavailable] * 3
        assert await lengths(a, fences) == [2, 2, 2]
        assert sizes == [], "none of them was acknowledged"
        assert kinds(await saved_together(a, *commits)) == [Saved] * 3
        assert await lengths(a, fences) == [2, 2, 2]
        assert [len(await intents_of(a, fence.stream)) for fence in fences] == [1, 1, 1]


async def test_group_that_did_not_arrive_can_be_repeated(wire: Wire) -> None:
    async with opened(wire.dsn) as (a, _):
        fences = await begun(a, 3)
        commits = [Commit(fence, 1, ADDED) for fence in fences]
        wire.fault = "requests lost"
        async with trio.open_nursery() as nursery:

            @nursery.start_soon
            async def cut() -> None:
                await until(lambda: not a._writer._waiting)
                await trio.testing.wait_all_tasks_blocked()
                wire.cut()

            assert kinds(await saved_together(a, *commits)) == [JournalUnavailable] * 3
        wire.fault = "none"
        assert await lengths(a, fences) == [1, 1, 1]
        assert kinds(await saved_together(a, *commits)) == [Saved] * 3
        assert await lengths(a, fences) == [2, 2, 2]


@pytest.mark.parametrize("fault", ["silence", "answers lost"])
async def test_server_that_does_not_answer_holds_up_neither_group_nor_queue(
    database: Database, wire: Wire, monkeypatch: pytest.MonkeyPatch, fault: Fault
) -> None:
    monkeypatch.setattr(group_module, "MOST", 1)
    async with opened(wire.dsn) as (a, _):
        fences = await begun(a, 3)
        commits = [Commit(fence, 1, ADDED) for fence in fences]
        with monkeypatch.context() as impatient:
            impatient.setattr(pool_module, "SILENCE", 0.2)
            impatient.setattr(pool_module, "POLL_EVERY", 0.05)
            wire.fault = fault
            assert kinds(await saved_together(a, *commits)) == [JournalUnavailable] * 3
        wire.cut()
        wire.fault = "none"
    async with opened(database.dsn) as (a, _):
        assert kinds(await saved_together(a, *commits)) == [Saved] * 3
        assert await lengths(a, fences) == [2, 2, 2]


async def test_lease_does_not_wait_behind_a_group(wire: Wire, database: Database) -> None:
    """A group waits for its commit; the lease is renewed meanwhile."""
    async with opened(database.dsn) as (a, _):
        fences = await begun(a, 2)
        with psycopg.connect(database.dsn) as other:
            other.execute("LOCK TABLE event IN EXCLUSIVE MODE")
            async with trio.open_nursery() as nursery:
                nursery.start_soon(saved_together, a, *[Commit(fence, 1, ADDED) for fence in fences])
                await until(lambda: a._writer._pipeline is not None and bool(a._writer._pipeline._sent))
                await a.renew()
                other.rollback()
        assert await lengths(a, fences) == [2, 2]


# ------------------------------------------------------------------ cancellation


async def test_caller_that_is_cancelled_takes_nothing_from_the_others(database: Database) -> None:
    """Before its group begins, its save is not made; after that, it gets its outcome. So do the others."""
    async with opened(database.dsn) as (a, _):
        fences = await begun(a, 3)
        ends: set[int] = set()
        for moments in range(12):
            seqs = await lengths(a, fences)
            saved: list[Outcome] = []
            scope = trio.CancelScope()

            async def give_up(seq: int, scope: trio.CancelScope, saved: list[Outcome]) -> None:
                with scope:
                    saved.append(await a.save(Commit(fences[1], seq, ADDED)))

            others = [Commit(fences[place], seqs[place], ADDED) for place in (0, 2)]
            async with trio.open_nursery() as nursery:
                nursery.start_soon(give_up, seqs[1], scope, saved)
                nursery.start_soon(saved_together, a, *others)
                for _ in range(moments):
                    await trio.lowlevel.checkpoint()
                scope.cancel()
            assert await lengths(a, fences) == [seqs[0] + 1, seqs[1] + len(saved), seqs[2] + 1]
            ends.add(len(saved))
        assert ends == {0, 1}


async def test_queue_fails_while_a_caller_gives_up(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The writer takes the save from the queue before its caller does."""
    outcomes: list[Outcome] = []

    async def save(commit: Commit) -> None:
        try:
            outcomes.append(await a.save(commit))
        except (JournalError, ValueError) as error:
            outcomes.append(error)

    async def lost(*_: object) -> None:
        await until(lambda: bool(a._writer._waiting))
        callers.cancel_scope.cancel()
        raise JournalUnavailable("lost")

    async with opened(database.dsn) as (a, _):
        commits = [Commit(fence, 1, ADDED) for fence in await begun(a, 2)]
        monkeypatch.setattr(group_module, "MOST", 1)
        monkeypatch.setattr(queue_module, "_answers", lost)
        async with trio.open_nursery() as callers:
            for each in commits:
                callers.start_soon(save, each)
        assert kinds(outcomes) == [JournalUnavailable] * 2


async def test_writer_that_has_ended_leaves_the_saves_to_the_pool(database: Database) -> None:
    async with opened(database.dsn) as (a, sizes):
        fences = await begun(a, 2)
        sizes.clear()
        a._writer._is_running = False
        assert kinds(await saved_together(a, *[Commit(fence, 1, ADDED) for fence in fences])) == [Saved] * 2
        assert sizes == [1, 1]


async def test_no_command_of_a_group_comes_before_the_one_that_creates_the_stream(database: Database) -> None:
    async with opened(database.dsn) as (a, _):
        outcomes = await together(
            partial(a.deliver, NewCommand("s", "cancel", "cancel", {})),
            partial(a.deliver, NewCommand("s", "create", "create", {}, new=True)),
        )
        assert outcomes == [Accepted(), Accepted()]
        assert [each.key for each in await a.inbox("s")] == ["create", "cancel"]
