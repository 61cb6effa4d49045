"""The conversation log: the only writer of an active conversation's stream.

Four rules hold here, and the rest of the runtime relies on them.

Rule 1: publish after commit, in order. Saves are serialized. Events are published, waiting branches resumed
and senders answered after the commit, in seq order and in one place: `save`.

Rule 2: memory may run ahead of disk only where nothing outside can act on it. `save_soon` applies events at
once and leaves them as pending writes for the next `save` or flush; a crash discards them. A call's intent is
committed together with all pending writes before the call is sent. A model may be asked earlier, because its
reply has no effect until a later save. One exception: the result of a `once` call is flushed first (`flush`);
if a crash lost it, a human would have to find out what happened.

Rule 3: runs are deterministic. A run decides only from recorded steps, results and decisions, so replaying it
over the same log takes the same path.

Rule 4: the log knows when a run is blocked. A run waits for the outside only in `decision`, `wait_for_end`
and `credential`, and creates concurrency only with `gather` (`branches.py`). With no active branch left, only
a human or a token can move it on.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, TypeAlias, cast

import attrs
import trio

from ....runtime.clock import WallClock
from ....runtime.event_bus import EventBus
from ....runtime.journal.protocol import Commit, Event, Journal, Json, NewEvent, NewIntent, SettleIntent
from ....runtime.journal.question import CloseQuestion, NewQuestion
from ...approvals.asked import Asked
from ...approvals.decided import D, Expired
from ...approvals.proxy_approval import ProxyQuestion
from ..fold.head import Head, fold_head
from ..fold.record import Run
from ..fold.state import Conversation
from ..words import events as e
from ..words.deltas import AnyDelta
from ..words.event_json import encode
from .branches import Branches, WorkTimer, WorkTimers
from .observer import Observer
from .tenure import Tenure
from .topics import DELTAS, EVERYTHING, EXPIRIES, NOTICES, ConversationTopic, Published, ReplyTopic
from .write_behind import Flusher, PendingWrites

OutboxRows: TypeAlias = Callable[[str, int, Sequence[NewEvent]], Sequence[Json]]
"""The rows of the outbox for the events of a conversation that follow an event."""


@attrs.define(eq=False, kw_only=True)
class ConversationLog:
    journal: Journal
    bus: EventBus
    tenure: Tenure
    state: Conversation
    branches: Branches
    wall: WallClock
    flusher: Flusher
    observer: Observer
    start_soon: Callable[[Callable[[], Awaitable[object]]], object]
    """Starts a task of the conversation."""
    progress: Callable[[], None]
    """Called after every commit."""
    outbox: OutboxRows
    sent_elsewhere: dict[str, str] = attrs.field(factory=dict)
    """The members that have the tokens of commands, by command; without those of this member."""
    _queue: trio.Lock = attrs.field(factory=trio.Lock)
    _pending_writes: PendingWrites = attrs.field(factory=PendingWrites)
    _closed: bool = False
    _stored_head: Head = attrs.field(
        init=False, default=attrs.Factory(lambda self: self.state.head, takes_self=True)
    )
    _used: dict[str, int] = attrs.field(factory=dict)
    """Model calls and tool calls of the run so far, including those in flight."""
    _work_timers: dict[str, WorkTimer] = attrs.field(factory=dict)
    """Of the executions with a time limit, by key."""

    @property
    def run(self) -> Run:
        """The record of the live run. Raises `LookupError` when there is none."""
        if self.state.live_run is None:
            raise LookupError("no run is live")
        return self.state.live_run

    @property
    def committed_seq(self) -> int:
        """The seq of the last event that was committed and published."""
        return self.state.last_seq - len(self._pending_writes.events)

    def begin(self, on_blocked: Callable[[], None]) -> None:
        """Start a run in this process. Model and tool calls are counted anew, from what is on record."""
        self._used.clear()

        def announce() -> None:
            if self.blocked:
                on_blocked()

        self.branches.begin(announce)

    def snapshot(self) -> Conversation | None:
        """The conversation as the journal has it; None while there are pending writes or a save."""
        return None if self.has_pending_writes or self._queue.locked() else self.state.snapshot()

    # ------------------------------------------------------------------ saving

    async def save(
        self,
        *new: e.LogEvent | e.Dated,
        intents: Sequence[NewIntent] = (),
        settle: Sequence[SettleIntent] = (),
        questions: Sequence[NewQuestion | CloseQuestion] = (),
        ack: Sequence[str] = (),
        replies: Mapping[str, Json] | None = None,
        refuse: Mapping[str, Json] | None = None,
        when: Callable[[], bool] = lambda: True,
    ) -> bool:
        """Commit the pending writes and all of this, atomically; then publish it.

        Returns False, with nothing written, if `when` is false by the time it is this save's turn.

        `refuse` answers commands with a `refusal`. The key of a refused command can be used again.

        Raises the errors of `Journal.save`, also `Fenced` if the lease of this member has run out; then
        nothing was written.
        """
        await self._acquire()
        try:
            if not when():
                return False
            pending = self._pending_writes
            self.flusher.done(self)
            events = [e.undated(each) for each in new]
            written = [encode(each) for each in new]
            head = fold_head(self.state.head, events)
            commit = Commit(
                self.tenure.fence,
                self.committed_seq,
                (*pending.events, *written),
                intents=intents,
                settle=(*pending.settle, *settle),
                questions=questions,
                ack=(*pending.ack, *ack),
                replies=replies or {},
                refuse=refuse or {},
                summary=head.summary() if head != self._stored_head else None,
                outbox=self.outbox(self.state.id, self.committed_seq, (*pending.events, *written)),
            )
            saved = await self.tenure.write(partial(self.journal.save, commit))
            # No checkpoint from here on, so that other tasks see commit, fold and publication as one step.
            self.state.head = self._stored_head = head
            self._publish_pending(pending)
            for event, stored in zip(events, written, strict=True):
                self._apply(event, self._numbered(stored, saved.at))
            self._notify({**(replies or {}), **(refuse or {})}, questions, saved.at)
            if commit.outbox:
                self.bus.publish(NOTICES, None)
            return True
        finally:
            if self.has_pending_writes:  # the commit failed: the next save or a flush tries again
                self._ask_for_flush()
            self._queue.release()

    def _notify(
        self, replies: Mapping[str, Json], questions: Sequence[NewQuestion | CloseQuestion], at: float
    ) -> None:
        """After a commit: answer senders, and notify the timers and the run."""
        for key, reply in replies.items():
            self.bus.publish(ReplyTopic(self.state.id, key), reply)
        asked = (each.expires for each in questions if isinstance(each, NewQuestion))
        if expires := [each for each in asked if each is not None]:
            self.bus.publish(EXPIRIES, min(expires) - at)
        self.progress()
        self.branches.check_blocked()

    async def save_soon(
        self,
        *new: e.LogEvent | e.Dated,
        settle: Sequence[SettleIntent] = (),
        ack: Sequence[str] = (),
        when: Callable[[], bool] = lambda: True,
    ) -> bool:
        """Apply events at once, and leave them as pending writes. Returns False if `when` is false.

        Only for events that nothing but the run itself acts on. A crash before the commit has the same effect
        as a crash a moment earlier: the commands of `ack` are still in the inbox.
        """
        await self._acquire()
        try:
            if not when():
                return False
            now = self.wall()
            events = []
            for each in new:
                events.append(stored := self._numbered(encode(each), now))
                event = e.undated(each)
                self.observer.happened(self.state, stored.at, event)
                self.state.apply(e.Entry(stored.seq, stored.at, event))
            if not self.has_pending_writes:
                self._ask_for_flush()
            self._pending_writes.add(events, settle, ack)
        finally:
            self._queue.release()
        if self._closed:
            await self.flush()
        return True

    async def flush(self) -> None:
        """Commit the pending writes."""
        if self.has_pending_writes:
            await self.save(when=lambda: self.has_pending_writes)

    def close(self) -> None:
        """End the activation. No further task can be started to flush, so `save_soon` commits at once."""
        self._closed = True
        self.flusher.done(self)

    def publish_delta(self, delta: AnyDelta) -> None:
        """Publish a delta, in its place among the events."""
        if self.has_pending_writes:
            self._pending_writes.add_delta(delta)
        else:
            self._publish(delta)

    @property
    def has_pending_writes(self) -> bool:
        return bool(self._pending_writes.events)

    @property
    def acked(self) -> frozenset[str]:
        """Commands whose events are pending writes. They are still in the inbox."""
        return frozenset(self._pending_writes.ack)

    async def confirm(self) -> None:
        """If another member can have taken the conversation over, let the store decide. Raises `Fenced`."""
        if not self.tenure.owns():
            await self.save()

    async def _acquire(self) -> None:
        # `acquire` alone would raise Cancelled in a branch that was cancelled just now, and what the branch
        # has to save would be lost. If the lock is free, the save still begins.
        try:
            self._queue.acquire_nowait()
        except trio.WouldBlock:
            await self._queue.acquire()

    def _ask_for_flush(self) -> None:
        if not self._closed:
            self.flusher.soon(self, lambda: self.start_soon(self._flush_in_background))

    async def _flush_in_background(self) -> None:
        """A failure means that the activation is about to end, so the flusher need not try again."""
        try:
            await self.flush()
        finally:
            if self.has_pending_writes:
                self.close()

    def _publish_pending(self, pending: PendingWrites) -> None:
        if pending.events:
            self._pending_writes = PendingWrites()
            for each in pending.unpublished:
                self._publish(each)

    @contextmanager
    def limit_work_time(self, key: str, limit: float) -> Iterator[WorkTimer]:
        """Cancel the block after `limit` seconds of work, including the work before a restart."""
        timer = self._work_timers[key] = WorkTimer(limit, self.run.worked.get(key, 0.0))
        try:
            with timer.scope:
                yield timer
        finally:
            del self._work_timers[key]

    @property
    def worked(self) -> Mapping[str, float]:
        """Seconds of work of the executions with a time limit, by key."""
        return {key: timer.worked for key, timer in self._work_timers.items()}

    def take(self, kind: str, limit: int | None) -> bool:
        """Count one more of a run's `model_calls` or `tool_calls`; False if the limit is reached."""
        if kind not in self._used:
            self._used[kind] = self.run.used(kind)
        used = self._used[kind]
        if limit is not None and used >= limit:
            return False
        self._used[kind] = used + 1
        return True

    def give_back(self, kind: str) -> None:
        """Undo one `take`."""
        self._used[kind] -= 1

    def _numbered(self, written: NewEvent, now: float) -> Event:
        """The next event of the log, in its stored form."""
        at = now if written.at is None else written.at
        return Event(self.state.id, self.state.last_seq + 1, written.type, at, written.body)

    def _apply(self, event: e.LogEvent, stored: Event) -> None:
        """Apply a committed event, end the waits that it ends, and publish it."""
        self.observer.happened(self.state, stored.at, event)
        self.state.apply_below(e.Entry(stored.seq, stored.at, event))
        if isinstance(event, e.ApprovalResolved | e.ApprovalExpired):
            self.branches.end_wait(event.id)
        elif isinstance(event, e.ApprovalVoid) and isinstance(self._asked(event.id), ProxyQuestion):
            self.branches.end_wait(event.id)  # so that the call reads the remote task again
        if isinstance(event, e.RunResumed) or (isinstance(event, e.ApprovalResolved) and event.token):
            self.branches.end_credential_waits()
        self._publish(stored)

    def _publish(self, item: Event | AnyDelta) -> None:
        self.bus.publish(ConversationTopic(self.state.id), item)
        head = self.state.head
        self.bus.publish(EVERYTHING, Published(item, head.status, head.owner))
        if not isinstance(item, Event):
            self.bus.publish(DELTAS, item)

    def _asked(self, approval: str) -> Asked[Any]:
        return self.state.approvals[approval].asked

    # ----------------------------------------------------------------- for the run

    async def admit(self, work_timers: WorkTimers = ()) -> None:
        """Return if something new may start. After the begin of a shutdown, stop the branch instead.

        Raises `Fenced` if another member has taken the conversation over.
        """
        if self.branches.active_runs.draining.is_set():
            await self.flush()
            await self.branches.park(work_timers)
        await self.confirm()

    async def decision(
        self, question: str, ask: Callable[[], Asked[D]], work_timers: WorkTimers
    ) -> D | Expired:
        """The decision about a question. If the question is not on record, put it to a human first.

        Args:
            question: its key in the run.
            ask: makes the question.
            work_timers: those of the branch, which is not active while it waits.
        """
        id = self.run.asked.get(question)
        if id is None:
            await self.admit(work_timers)
            asked = ask()
            id = asked.id
            await self.put(asked)
        if id not in self.run.decisions:
            await self.branches.wait_for_end([id], work_timers)
        return cast(D | Expired, self.run.decisions[id])  # the fold has checked that it fits the question

    async def put(self, *asked: Asked[Any]) -> None:
        """Put questions to humans."""
        await self.save(*map(e.ApprovalRequested, asked), questions=[each.to_row() for each in asked])

    @property
    def blocked(self) -> bool:
        """Whether only a human or a token can move the run on, and that is not on record yet."""
        run = self.state.head.run
        return self.branches.blocked and run is not None and run.state == "running"
