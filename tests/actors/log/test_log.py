"""The log: publication after commit, steps that are done once, and exact counts of active branches."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any, NoReturn, cast

import attrs
import pytest
import trio
import trio.testing
from trio.testing import MockClock

from stopgo.actors.approvals.asked import Asked
from stopgo.actors.approvals.yes_or_no import Approved
from stopgo.actors.common.errors import Fault
from stopgo.actors.conversation.run import announce
from stopgo.actors.log.fold.stored import read
from stopgo.actors.log.words import events as e
from stopgo.actors.log.words.deltas import ModelDelta
from stopgo.actors.log.words.outcomes import Ended, NodeEnd, Replied, StepFailed
from stopgo.actors.log.writer.branches import ActiveRuns, BranchLimiter
from stopgo.actors.log.writer.log import ConversationLog
from stopgo.actors.log.writer.logs import Logs
from stopgo.actors.log.writer.observer import Observer
from stopgo.actors.log.writer.step import ReplayMismatch, step
from stopgo.actors.log.writer.topics import ConversationTopic, ReplyTopic
from stopgo.actors.log.writer.void import replace, save_and_void
from stopgo.actors.log.writer.write_behind import MAX_UNPUBLISHED, Flusher
from stopgo.actors.models.messages.messages import TextDelta
from stopgo.actors.tools.needs import Wanted
from stopgo.runtime.event_bus import EventBus
from stopgo.runtime.journal.errors import Fenced, JournalError, QuestionTaken
from stopgo.runtime.journal.lease import Lease
from stopgo.runtime.journal.memory.memory_journal import MemoryJournal
from stopgo.runtime.journal.protocol import Commit, Event, NewCommand, Saved
from stopgo.runtime.journal.question import CloseQuestion
from tests.questions import asked
from tests.runtime.journal.kept import reply_of

ID = "c"


class Gated(MemoryJournal):
    """A journal whose commits wait for an event, or fail."""

    def __init__(self) -> None:
        super().__init__(lambda: 0.0)
        self.let = trio.Event()
        self.let.set()
        self.fail: Exception | None = None
        self.saves = 0

    async def save(self, commit: Commit) -> Saved:
        self.saves += 1
        await self.let.wait()
        if self.fail is not None:
            raise self.fail
        return await super().save(commit)


@attrs.define(eq=False)
class Bench:
    journal: Gated = attrs.field(factory=Gated)
    bus: EventBus = attrs.field(factory=EventBus)
    active_runs: ActiveRuns = attrs.field(factory=ActiveRuns)
    flusher: Flusher = attrs.field(factory=Flusher)
    now: float = 0.0
    stalls: int = 0
    started: list[Callable[[], Awaitable[object]]] = attrs.field(factory=list)

    async def open(self) -> ConversationLog:
        lease = Lease(self.journal)
        await lease.renew()
        logs = Logs(
            self.journal, lease, self.bus, lambda: self.now, Observer(), self.active_runs, self.flusher
        )
        log = await logs.open(ID, start_soon=self.started.append, progress=lambda: None)
        assert log is not None
        return log

    async def begin(self) -> ConversationLog:
        """A log with a live run and one active branch."""
        body = {"message": None, "session_id": None, "token": False}
        await self.journal.deliver(NewCommand(ID, "k", "create", body, new=True))
        log = await self.open()
        await log.save(
            e.ConversationCreated("s", "p"),
            e.MessageAdded("hi", "k"),
            e.RunStarted("r", 1, "k", "t", e.REPLAY_VERSION, False, {}),
            ack=["k"],
        )
        log.begin(self.stall)
        return log

    def stall(self) -> None:
        self.stalls += 1


@pytest.fixture
def bench() -> Bench:
    return Bench()


def mark(name: str) -> e.LogEvent:
    return e.StateSet(name, "v", "n")


async def stored(bench: Bench) -> list[str]:
    return [event.body["key"] for event in await bench.journal.events_since(ID, 3)]


def question(id: str) -> Asked[Any]:
    return asked("checkpoint", id=id, question=f"q-{id}")


async def put(log: ConversationLog, id: str) -> None:
    asks = question(id)
    await log.save(e.ApprovalRequested(asks), questions=[asks.to_row()])


async def answer(log: ConversationLog, id: str) -> None:
    await log.save(e.ApprovalResolved(id, Approved(), f"k-{id}", False))


# ----------------------------------------------------------------------------- saving


async def test_save_publishes_after_its_commit(bench: Bench) -> None:
    log = await bench.begin()
    bench.journal.let = trio.Event()
    with (
        bench.bus.subscribe(ConversationTopic(ID)) as live,
        bench.bus.subscribe(ReplyTopic(ID, "k")) as replies,
    ):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(lambda: log.save(mark("a"), replies={"k": {"result": None}}))
            await trio.testing.wait_all_tasks_blocked()
            assert log.state.last_seq == 3
            for subscription in (live, replies):
                with trio.move_on_after(0):
                    pytest.fail(f"heard of {await anext(subscription)}")
            bench.journal.let.set()
        event = await anext(live)
        assert isinstance(event, Event)
        assert event == (await bench.journal.events_since(ID, 3))[0]
        assert await anext(replies) == await reply_of(bench.journal, ID, "k") == {"result": None}
    assert log.state.last_seq == 4


async def test_no_snapshot_during_a_save(bench: Bench) -> None:
    log = await bench.begin()
    before = log.snapshot()
    bench.journal.let = trio.Event()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(log.save, mark("a"))
        await trio.testing.wait_all_tasks_blocked()
        assert log.snapshot() is None
        bench.journal.let.set()
    after = log.snapshot()
    assert before is not None
    assert after is not None
    assert (before.last_seq, after.last_seq) == (3, 4)


@pytest.mark.repeat(10)
async def test_concurrent_saves_are_serialized(bench: Bench) -> None:
    log = await bench.begin()
    with bench.bus.subscribe(ConversationTopic(ID)) as live:
        async with trio.open_nursery() as nursery:
            for n in range(20):
                nursery.start_soon(log.save, mark(f"{n}a"), mark(f"{n}b"))
        heard = [await anext(live) for _ in range(40)]
    kept = await bench.journal.events_since(ID, 3)
    assert heard == list(kept)
    assert [event.seq for event in kept] == list(range(4, 44))
    names = [event.body["key"] for event in kept]
    assert all(names[i][:-1] == names[i + 1][:-1] for i in range(0, 40, 2))  # each save in one piece


async def test_failed_save_changes_nothing(bench: Bench) -> None:
    log = await bench.begin()
    await log.save_soon(mark("soon"))
    bench.journal.fail = JournalError("no")
    with bench.bus.subscribe(ConversationTopic(ID)) as live:
        with pytest.raises(JournalError):
            await log.save(mark("a"))
        bench.journal.fail = None
        assert log.state.last_seq == 4
        await log.save(mark("b"))
        first = await anext(live)
    assert isinstance(first, Event)
    assert first.body["key"] == "soon"  # it waits for the next save
    assert await stored(bench) == ["soon", "b"]


async def test_save_condition_is_checked_when_the_save_starts(bench: Bench) -> None:
    log = await bench.begin()
    bench.journal.let = trio.Event()
    results: list[bool] = []
    async with trio.open_nursery() as nursery:
        nursery.start_soon(log.save, mark("a"))
        await trio.testing.wait_all_tasks_blocked()

        async def conditional() -> None:
            results.append(await log.save(mark("b"), when=lambda: log.state.last_seq == 3))

        nursery.start_soon(conditional)
        await trio.testing.wait_all_tasks_blocked()
        bench.journal.let.set()
    assert results == [False]
    assert await stored(bench) == ["a"]


async def test_replaced_writer_cannot_write(bench: Bench) -> None:
    old = await bench.begin()
    new = await bench.open()
    await new.save(mark("new"))
    with pytest.raises(Fenced):
        await old.save(mark("old"))
    assert await stored(bench) == ["new"]


async def test_next_activation_folds_the_stored_events(bench: Bench) -> None:
    old = await bench.begin()
    await old.save(*[mark(str(n)) for n in range(1200)])  # more than one page
    new = await bench.open()
    assert new.state.last_seq == old.state.last_seq == 1203
    assert new.run.id == "r"


# ------------------------------------------------------------- ahead of the journal


def passing(log: ConversationLog, key: str) -> ModelDelta:
    return ModelDelta(ID, log.state.last_seq, key, "n", "m", 1, TextDelta(key))


async def test_pending_writes_are_published_after_their_commit(bench: Bench) -> None:
    log = await bench.begin()
    heard: list[Event | ModelDelta] = []
    with bench.bus.subscribe(ConversationTopic(ID)) as live:
        log.publish_delta(passing(log, "1"))
        bench.now = 7.0
        assert await log.save_soon(mark("soon"))
        assert (log.state.last_seq, log.has_pending_writes) == (4, True)
        assert log.snapshot() is None
        log.publish_delta(passing(log, "2"))
        bench.now = 9.0
        assert await stored(bench) == []
        await log.save(mark("next"))
        log.publish_delta(passing(log, "3"))
        for _ in range(5):
            each = await anext(live)
            assert isinstance(each, Event | ModelDelta)
            heard.append(each)
    kept = await bench.journal.events_since(ID, 3)
    assert [event for event in heard if isinstance(event, Event)] == list(kept)
    assert [event.at for event in kept] == [7.0, 0.0]  # when it happened; when it was saved
    # Each piece in its place among the events.
    assert [each.seq if isinstance(each, Event) else each.after for each in heard] == [3, 4, 4, 5, 5]
    assert (log.has_pending_writes, bench.journal.saves) == (False, 2)
    folded = log.snapshot()
    assert folded is not None
    assert folded.head == (await read(bench.journal, ID)).head


async def test_deltas_during_a_slow_commit_are_bounded(bench: Bench) -> None:
    log = await bench.begin()
    await log.save_soon(mark("soon"))
    with bench.bus.subscribe(ConversationTopic(ID), buffer=2 * MAX_UNPUBLISHED) as live:
        for n in range(2 * MAX_UNPUBLISHED):
            log.publish_delta(passing(log, str(n)))
        await log.flush()
        log.publish_delta(passing(log, "last"))
        heard = [await anext(live) for _ in range(MAX_UNPUBLISHED + 1)]
    assert isinstance(heard[0], Event)
    assert isinstance(heard[-1], ModelDelta)
    assert heard[-1].key == "last"


async def test_pending_writes_are_flushed_without_a_save(
    bench: Bench, autojump_clock: trio.testing.MockClock
) -> None:
    log = await bench.begin()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(bench.flusher.run)
        await trio.sleep(1)
        await log.save_soon(mark("a"))
        await log.save(mark("b"))
        await trio.sleep(1)
        assert bench.started == []  # there was nothing left to do
        await log.save_soon(mark("c"))
        await log.save_soon(mark("d"))
        await trio.sleep(1)
        (flush,) = bench.started
        await flush()
        assert await stored(bench) == ["a", "b", "c", "d"]
        saves = bench.journal.saves
        await flush()
        assert bench.journal.saves == saves
        nursery.cancel_scope.cancel()


async def test_save_replaces_the_flush_unless_it_fails(
    bench: Bench, autojump_clock: trio.testing.MockClock
) -> None:
    log = await bench.begin()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(bench.flusher.run)
        await log.save_soon(mark("a"))
        bench.journal.let = trio.Event()
        async with trio.open_nursery() as saving:
            saving.start_soon(log.save, mark("b"))
            await trio.sleep(1)
            assert bench.started == []
            bench.journal.let.set()
        await log.save_soon(mark("c"))
        bench.journal.fail = QuestionTaken("a human was faster")
        with pytest.raises(QuestionTaken):
            await log.save(mark("d"))
        bench.journal.fail = None
        await trio.sleep(1)
        for flush in bench.started:
            await flush()
        assert await stored(bench) == ["a", "b", "c"]
        nursery.cancel_scope.cancel()


async def test_save_soon_waits_for_the_running_save(bench: Bench) -> None:
    log = await bench.begin()
    bench.journal.let = trio.Event()
    saved: list[bool] = []
    async with trio.open_nursery() as nursery:
        nursery.start_soon(log.save, mark("a"))
        await trio.testing.wait_all_tasks_blocked()

        async def soon(when: Callable[[], bool]) -> None:
            saved.append(await log.save_soon(mark("b"), when=when))

        nursery.start_soon(soon, lambda: log.state.last_seq == 3)
        nursery.start_soon(soon, lambda: log.state.last_seq == 4)
        await trio.testing.wait_all_tasks_blocked()
        assert (log.state.last_seq, saved) == (3, [])
        bench.journal.let.set()
    assert sorted(saved) == [False, True]
    await log.flush()
    assert await stored(bench) == ["a", "b"]


# ------------------------------------------------------------------------------ steps


async def test_recorded_step_is_not_done_again(bench: Bench) -> None:
    log = await bench.begin()
    done = 0

    async def work() -> Ended | StepFailed:
        nonlocal done
        done += 1
        await trio.lowlevel.checkpoint()
        return StepFailed(error=Fault("x", "m"))  # errors are recorded like results

    first = await step(log, "1/", Ended, "n", work)
    assert await step(log, "1/", Ended, "n", work) == first
    await log.flush()
    again = await bench.open()
    assert await step(again, "1/", Ended, "n", work) == first
    assert done == 1


async def test_another_fingerprint_under_the_key_is_a_mismatch(bench: Bench) -> None:
    log = await bench.begin()

    async def work() -> Ended:
        await trio.lowlevel.checkpoint()
        return Ended(NodeEnd("text"))

    async def never() -> NoReturn:
        raise AssertionError("it was done")

    await step(log, "1/0", Ended, "a", work)
    for other in (step(log, "1/0", Ended, "b", never), step(log, "1/0", Replied, "a", never)):
        with pytest.raises(ReplayMismatch, match="1/0"):
            await other


async def test_step_and_its_further_events_share_a_commit(bench: Bench) -> None:
    log = await bench.begin()

    async def work() -> Ended:
        await trio.lowlevel.checkpoint()
        return Ended(NodeEnd("text"))

    await step(log, "1/0", Ended, "a", work, also=lambda _: [mark("also")])
    assert (log.state.last_seq, bench.journal.saves) == (5, 1)
    await log.save(mark("next"))
    kept = await bench.journal.events_since(ID, 3)
    assert [event.type for event in kept] == ["step.finished", "state.set", "state.set"]
    assert bench.journal.saves == 2
    assert await step(log, "1/0", Ended, "a", work) == Ended(NodeEnd("text"))


# ------------------------------------------------------------- what is active, exactly


Job = Callable[[], Awaitable[Any]]


async def test_gather_keeps_the_order_of_the_jobs(bench: Bench, autojump_clock: MockClock) -> None:
    log = await bench.begin()

    def job(n: int) -> Job:
        async def run() -> int:
            await trio.sleep(5 - n)
            return n

        return run

    assert await log.branches.gather() == []
    assert await log.branches.gather(job(1)) == [1]
    assert await log.branches.gather(*(job(n) for n in range(5))) == list(range(5))
    nested = await log.branches.gather(
        lambda: log.branches.gather(job(0), job(1)), lambda: log.branches.gather(), job(4)
    )
    assert nested == [[0, 1], [], 4]
    assert log.branches.active == 1
    assert bench.stalls == 0


async def test_gather_cancels_on_first_error_and_raises_it_bare(
    bench: Bench, autojump_clock: MockClock
) -> None:
    log = await bench.begin()

    cause = JournalError("no")

    async def fail() -> None:
        await trio.sleep(1)
        raise ZeroDivisionError from cause

    async def sleep() -> None:
        await trio.sleep_forever()

    for jobs in ((fail, sleep), (sleep, fail, sleep), (lambda: log.branches.gather(fail, sleep), sleep)):
        with pytest.raises(ZeroDivisionError) as failed:
            await log.branches.gather(*jobs)
        assert failed.value.__cause__ is cause
        assert log.branches.active == 1
    assert bench.stalls == 0


async def test_branch_that_waits_for_a_human_is_not_active(bench: Bench) -> None:
    log = await bench.begin()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(
            lambda: log.branches.gather(
                lambda: log.decision("q-a", lambda: question("a"), ()),
                lambda: log.branches.credential(Wanted("server"), ()),
            )
        )
        await trio.testing.wait_all_tasks_blocked()
        assert (log.branches.active, bench.active_runs.count, log.blocked, bench.stalls) == (0, 0, True, 1)
        assert log.branches.unauthorized == Wanted("server")
        await answer(log, "a")
        await trio.testing.wait_all_tasks_blocked()
        assert (log.branches.active, bench.stalls) == (0, 2)
        await log.save(e.RunResumed("r", "k2", True, answer=True))
    assert (log.branches.active, bench.active_runs.count) == (1, 1)
    assert not log.branches.unauthorized
    log.branches.end()
    assert (log.branches.active, bench.active_runs.count) == (0, 0)


async def test_question_is_put_once_and_recorded_decision_returns(bench: Bench) -> None:
    log = await bench.begin()
    put: list[str] = []

    def ask() -> Asked[Any]:
        put.append("a")
        return question("a")

    with trio.CancelScope() as scope:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(log.decision, "q-a", ask, ())
            await trio.testing.wait_all_tasks_blocked()
            scope.cancel()
    assert log.branches.active == 1
    again = await bench.open()
    again.begin(bench.stall)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(again.decision, "q-a", ask, ())
        await trio.testing.wait_all_tasks_blocked()
        await answer(again, "a")
    assert isinstance(await again.decision("q-a", ask, ()), Approved)
    assert put == ["a"]
    assert again.branches.active == 1


@asynccontextmanager
async def cancelled_after(ticks: int) -> AsyncIterator[trio.Nursery]:
    with trio.CancelScope() as scope:
        async with trio.open_nursery() as nursery:
            yield nursery
            for _ in range(ticks):
                await trio.lowlevel.checkpoint()
            scope.cancel()


@pytest.mark.repeat(4)
@pytest.mark.parametrize("ticks", range(16))
async def test_active_count_is_exact_after_any_cancellation(bench: Bench, ticks: int) -> None:
    """Questions, tokens, limited branches and errors, cancelled at any checkpoint."""
    log = await bench.begin()
    limiter = BranchLimiter(1)

    async def in_turn(id: str) -> None:
        async with log.branches.limited(limiter, ()):
            await log.decision(f"q-{id}", lambda: question(id), ())

    async def outside() -> None:
        for id in ("a", "b", "c"):
            await trio.lowlevel.checkpoint()
            if id in log.state.head.pending:
                await answer(log, id)
        await log.save(e.RunResumed("r", "k2", True, answer=False))

    async with cancelled_after(ticks) as nursery:
        nursery.start_soon(
            lambda: log.branches.gather(
                lambda: in_turn("a"),
                lambda: in_turn("b"),
                lambda: log.branches.gather(
                    lambda: log.decision("q-c", lambda: question("c"), ()),
                    lambda: log.branches.credential(Wanted("server"), ()),
                ),
            )
        )
        await trio.lowlevel.checkpoint()
        nursery.start_soon(outside)
    assert (log.branches.active, bench.active_runs.count) == (1, 1)
    assert limiter.free == 1
    log.branches.end()
    assert (log.branches.active, bench.active_runs.count) == (0, 0)
    log.begin(bench.stall)  # and the next run of this life counts from one
    assert (log.branches.active, bench.active_runs.count) == (1, 1)


@pytest.mark.repeat(5)
async def test_branch_limiter_is_first_come_first_served(bench: Bench, autojump_clock: MockClock) -> None:
    log = await bench.begin()
    limiter, now, most, order = BranchLimiter(2), 0, 0, list[int]()

    def job(n: int) -> Job:
        async def run() -> None:
            nonlocal now, most
            await trio.sleep(n)
            async with log.branches.limited(limiter, ()):
                order.append(n)
                now += 1
                most = max(most, now)
                await trio.sleep(100)
                now -= 1

        return run

    await log.branches.gather(*(job(n) for n in range(7)))
    assert (most, order, limiter.free, log.branches.active) == (2, list(range(7)), 2, 1)
    assert bench.stalls == 0


# --------------------------------------------------------------------------- shutting down


async def test_admit_parks_the_branch_while_draining(bench: Bench) -> None:
    log = await bench.begin()
    await log.admit()
    await log.save_soon(mark("soon"))
    bench.active_runs.draining.set()
    passed: list[str] = []

    async def enter() -> None:
        await log.admit()
        passed.append("in")

    with trio.CancelScope() as scope:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(enter)
            await trio.testing.wait_all_tasks_blocked()
            assert (log.branches.active, bench.active_runs.count) == (0, 0)
            assert not log.blocked  # the drain parks the branch; nothing outside could continue it
            assert bench.stalls == 0
            assert await stored(bench) == ["soon"]  # what is known is not lost
            scope.cancel()
    assert passed == []
    assert log.branches.active == 1


async def test_decision_during_announcement_is_answered(bench: Bench) -> None:
    """The decision resumes no branch, because its branch waits for a slot; the run waits for the other
    question."""
    log = await bench.begin()
    services = cast(Any, SimpleNamespace(wake=lambda id: None))
    with bench.bus.subscribe(ReplyTopic(ID, "d"), 1) as replies:
        async with trio.open_nursery() as nursery:
            await put(log, "a")
            await put(log, "b")
            nursery.start_soon(log.decision, "q-a", lambda: question("a"), ())
            await trio.testing.wait_all_tasks_blocked()
            bench.journal.let = trio.Event()
            resolved = e.ApprovalResolved("b", Approved(), "d", False)
            nursery.start_soon(log.save, resolved)
            await trio.testing.wait_all_tasks_blocked()
            nursery.start_soon(announce, log, services)
            await trio.testing.wait_all_tasks_blocked()
            bench.journal.let.set()
            reply = await anext(replies)
            nursery.cancel_scope.cancel()
    [waiting] = [
        event for event in await bench.journal.events_since(ID, 0) if event.type == e.RunWaiting.type
    ]
    assert (waiting.body["settles"], waiting.body["on"]) == (["k", "d"], ["a"])
    assert cast(Any, reply)["result"]["approvals"] == ["a"]


async def test_decision_for_a_branch_without_slot_is_answered(
    bench: Bench, autojump_clock: MockClock
) -> None:
    """It resumes no branch: after a restart another branch has the slot, and waits for a human, too."""
    log = await bench.begin()
    services = cast(Any, SimpleNamespace(wake=lambda id: None))
    await put(log, "a")
    await put(log, "b")
    with bench.bus.subscribe(ReplyTopic(ID, "d"), 1) as replies:
        async with trio.open_nursery() as nursery:
            log.begin(lambda: nursery.start_soon(announce, log, services))
            nursery.start_soon(log.decision, "q-a", lambda: question("a"), ())
            await trio.testing.wait_all_tasks_blocked()
            assert log.state.head.run is not None
            assert log.state.head.run.state == "waiting"
            resolved = e.ApprovalResolved("b", Approved(), "d", False)
            await log.save(resolved, e.RunResumed("r", "d", False, answer=False))
            with trio.fail_after(1):
                reply = await anext(replies)
            nursery.cancel_scope.cancel()
    assert cast(Any, reply)["result"]["approvals"] == ["a"]


# --------------------------------------------------------------- taking questions back


async def end_what_asked(log: ConversationLog) -> None:
    await save_and_void(log, mark("over"), where=lambda asked: asked.id == "a", why="it is over")


async def ask_anew(log: ConversationLog) -> None:
    assert not await replace(log, "a", question("b"))


async def while_saving(
    bench: Bench, log: ConversationLog, save: Awaitable[object], then: Awaitable[object]
) -> list[str]:
    """The events on disk, after the first ones, if `then` waits for its turn during `save`."""

    async def wait_for(job: Awaitable[object]) -> None:
        await job

    bench.journal.let = trio.Event()
    async with trio.open_nursery() as nursery:
        for job in (save, then):
            nursery.start_soon(wait_for, job)
            await trio.testing.wait_all_tasks_blocked()
        bench.journal.let.set()
    await log.flush()
    return [event.type for event in await bench.journal.events_since(ID, 3)]


@pytest.mark.parametrize(("take_back", "saved"), [(end_what_asked, [e.StateSet.type]), (ask_anew, [])])
async def test_approval_that_expires_meanwhile_is_not_voided(
    bench: Bench, take_back: Callable[[ConversationLog], Awaitable[None]], saved: list[str]
) -> None:
    log = await bench.begin()
    await put(log, "a")
    expire = log.save(e.ApprovalExpired("a", "reject"), questions=[CloseQuestion("a", "expired")])
    kept = await while_saving(bench, log, expire, take_back(log))
    assert kept == [e.ApprovalRequested.type, e.ApprovalExpired.type, *saved]


async def test_run_recorded_as_waiting_meanwhile_is_resumed(bench: Bench) -> None:
    """Otherwise it would stay recorded as waiting, and would not be resumed after a crash."""
    log = await bench.begin()
    await put(log, "a")
    wait = log.save(e.RunWaiting("r", ["a"], ["k"], {}))
    kept = await while_saving(bench, log, wait, end_what_asked(log))
    expected = (e.ApprovalRequested, e.RunWaiting, e.StateSet, e.ApprovalVoid, e.RunResumed)
    assert kept == [each.type for each in expected]
