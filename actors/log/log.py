"""The one writer of a conversation while it is active.

Rules:

* Saves pass one queue. What is told to anybody (the event published, a waiter answered, a sender replied to)
  is told after its commit, in seq order, in one place: `ConversationLog.save`.
* The fold advances with the commit, or ahead of it for what only the run itself goes on from (`save_soon`).
  Whoever could act on it (people, tools) hears only of what is on disk: before a call leaves, its intent is
  saved, behind all that led to it. A model acts on nothing but through what is saved after its reply, so it
  may be asked a moment earlier; but for the result of a call that must not be repeated (`flush`): a crash
  would leave it to a human to find out.
* What a run decides comes from recorded steps, results and decisions alone, so running it again over the
  same log takes the same path.
* All waiting of a run for somebody outside goes through `decision` and `credential`, and all its concurrency
  through `gather` (`stopgo.actors.log.activity`), so the log knows when only somebody outside can move it on.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, cast

import attrs
import trio

from ...runtime.clock import WallClock
from ...runtime.event_bus import EventBus
from ...runtime.journal.protocol import (
    CloseQuestion,
    Event,
    Fence,
    Journal,
    Json,
    NewEvent,
    NewIntent,
    NewQuestion,
    SettleIntent,
)
from ..approvals.asked import Asked
from ..approvals.decided import D, Expired
from ..approvals.proxy_approval import ProxyQuestion
from . import events as e
from .activity import Meter, Meters, Pulse
from .deltas import Passing
from .event_json import encode
from .head import Head, fold_head
from .record import Run
from .state import Conversation
from .stored import read
from .topics import EVERYTHING, EXPIRIES, reply_topic, topic
from .waits import Waits
from .write_behind import Ahead, Flusher


@attrs.define(eq=False, kw_only=True)
class ConversationLog(Waits):
    journal: Journal
    bus: EventBus
    fence: Fence
    state: Conversation
    wall: WallClock
    flusher: Flusher
    start_soon: Callable[[Callable[[], Awaitable[object]]], object]
    """Start a task of the conversation's."""
    progress: Callable[[], None]
    """Told of every commit."""
    _queue: trio.Lock = attrs.field(factory=trio.Lock)
    _ahead: Ahead = attrs.field(factory=Ahead)
    _closed: bool = False
    _stored_head: Head = attrs.field(
        init=False, default=attrs.Factory(lambda self: self.state.head, takes_self=True)
    )
    _used: dict[str, int] = attrs.field(factory=dict)
    """Model calls and tool calls of the run, those under way included."""
    _meters: dict[str, Meter] = attrs.field(factory=dict)
    """Of the executions that have a limit, by key."""

    @property
    def run(self) -> Run:
        """The record of the live run. Raises `LookupError` when there is none."""
        if self.state.live_run is None:
            raise LookupError("no run is live")
        return self.state.live_run

    def begin(self, on_stall: Callable[[], None]) -> None:
        """A run starts to move, in this life; what an earlier one used up does not count against it."""
        self._used.clear()
        super().begin(on_stall)

    def snapshot(self) -> Conversation | None:
        """The conversation as it is in the journal; None while that is behind, or being written."""
        return None if self.ahead or self._queue.locked() else self.state.snapshot()

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
        """Write all of it or nothing, behind what the fold is ahead; then let everybody know. False when
        `when` no longer holds.

        `refuse` answers commands with a `refusal`; they leave no trace, so their keys are not used up.

        Raises what `Journal.save` raises; then nothing was written.
        """
        await self._take_turn()
        try:
            if not when():
                return False
            ahead = self._ahead
            self.flusher.done(self)
            events = [e.undated(each) for each in new]
            written = [encode(each) for each in new]
            head = fold_head(self.state.head, events)
            saved = await self.journal.save(
                self.fence,
                self.state.last_seq - len(ahead.events),
                (*ahead.events, *written),
                intents=intents,
                settle=(*ahead.settle, *settle),
                questions=questions,
                ack=(*ahead.ack, *ack),
                replies=replies,
                forget=tuple(refuse or ()),
                summary=head.summary() if head != self._stored_head else None,
            )
            # No checkpoint from here on: commit, fold and publication are one step for everybody else.
            self.state.head = self._stored_head = head
            self._caught_up(ahead)
            for event, kept in zip(events, written, strict=True):
                self._take_in(event, self._placed(kept, saved.at))
            self._tell({**(replies or {}), **(refuse or {})}, questions)
            return True
        finally:
            if self.ahead:  # not written: the next save takes it along, or a flush
                self._ask_for_flush()
            self._queue.release()

    def _tell(self, replies: Mapping[str, Json], questions: Sequence[NewQuestion | CloseQuestion]) -> None:
        """Tell everybody but the followers of a commit."""
        for key, reply in replies.items():
            self.bus.publish(reply_topic(self.state.id, key), reply)
        if questions and (expire := _expiries(questions)):
            self.bus.publish(EXPIRIES, min(expire))
        self.progress()
        if self.stalled and self._on_stall is not None:
            self._on_stall()  # a decision that nobody waits for any more moves nothing

    async def save_soon(
        self,
        *new: e.LogEvent | e.Dated,
        settle: Sequence[SettleIntent] = (),
        ack: Sequence[str] = (),
        when: Callable[[], bool] = lambda: True,
    ) -> bool:
        """Take it in at once; it is written with the next `save`, or a moment later. False when `when` no
        longer holds.

        For what only the run goes on from, not for what anybody waits for. A crash in between is one that
        came a moment earlier; it finds the commands of `ack` in the inbox.
        """
        await self._take_turn()
        try:
            if not when():
                return False
            now = self.wall()
            events = []
            for each in new:
                events.append(stored := self._placed(encode(each), now))
                self.state.apply(e.Entry(stored.seq, stored.at, e.undated(each)))
            if not self.ahead:
                self._ask_for_flush()
            self._ahead.add(events, settle, ack)
        finally:
            self._queue.release()
        if self._closed:
            await self.flush()
        return True

    async def flush(self) -> None:
        """Have on disk what the fold is ahead."""
        if self.ahead:
            await self.save(when=lambda: self.ahead)

    def close(self) -> None:
        """The conversation ends, and can start no task any more that flushes: what is still saved while it
        unwinds is written at once."""
        self._closed = True
        self.flusher.done(self)

    def tell(self, passing: Passing) -> None:
        """Publish what is passing, in its place among the events."""
        if self.ahead:
            self._ahead.hold_back(passing)
        else:
            self._publish(passing)

    @property
    def ahead(self) -> bool:
        """Something has been taken in that is not on disk yet."""
        return bool(self._ahead.events)

    @property
    def acked(self) -> frozenset[str]:
        """Commands that are carried out, and in the inbox still, for that is not on disk yet."""
        return frozenset(self._ahead.ack)

    @property
    def begun(self) -> int:
        """How many messages a run has begun with that are in the inbox still."""
        made = len(self._ahead.events) == self.state.last_seq  # by the command that makes the conversation
        return 0 if made else len(self._ahead.ack)

    async def _take_turn(self) -> None:
        # Free nearly always; and who finds it so need not let all others run first.
        try:
            self._queue.acquire_nowait()
        except trio.WouldBlock:
            await self._queue.acquire()

    def _ask_for_flush(self) -> None:
        if not self._closed:
            self.flusher.soon(self, lambda: self.start_soon(self.flush))

    def _caught_up(self, ahead: Ahead) -> None:
        if ahead.events:
            self._ahead = Ahead()
            for each in ahead.untold:
                self._publish(each)

    @contextmanager
    def metered(self, key: str, limit: float) -> Iterator[Meter]:
        """Cancel the block once it has worked `limit` seconds, in this life and those before it."""
        meter = self._meters[key] = Meter(limit, self.run.worked.get(key, 0.0))
        try:
            with meter.scope:
                yield meter
        finally:
            del self._meters[key]

    @property
    def worked(self) -> Mapping[str, float]:
        """Seconds of work of the executions that have a limit, by key."""
        return {key: meter.worked for key, meter in self._meters.items()}

    def take(self, what: str, limit: int | None) -> bool:
        """Use up one of a run's `limit` model calls or tool calls; False when there is none left."""
        if what not in self._used:
            self._used[what] = self.run.used(what)
        used = self._used[what]
        if limit is not None and used >= limit:
            return False
        self._used[what] = used + 1
        return True

    def _placed(self, written: NewEvent, now: float) -> Event:
        """The next event of the log, as it is stored."""
        at = now if written.at is None else written.at
        return Event(self.state.id, self.state.last_seq + 1, written.type, at, written.body)

    def _take_in(self, event: e.LogEvent, stored: Event) -> None:
        self.state.apply_below(e.Entry(stored.seq, stored.at, event))
        if isinstance(event, e.ApprovalResolved | e.ApprovalExpired):
            self.end_wait(event.id)
        elif isinstance(event, e.ApprovalVoid) and isinstance(self._asked(event.id), ProxyQuestion):
            self.end_wait(event.id)  # its call reads the task again
        if isinstance(event, e.RunResumed) or (isinstance(event, e.ApprovalResolved) and event.token):
            self.end_credential_waits()
        self._publish(stored)

    def _publish(self, item: Event | Passing) -> None:
        self.bus.publish(topic(self.state.id), item)
        self.bus.publish(EVERYTHING, (item, self.state.head.status))

    def _asked(self, approval: str) -> Asked[Any]:
        return self.state.approvals[approval].asked

    # ----------------------------------------------------------- what a run does

    async def admit(self, meters: Meters = ()) -> None:
        """Pass, unless a shutdown began: then nothing new starts, and this waits to be cancelled."""
        if self.pulse.draining.is_set():
            await self.flush()
            await self.park(meters)

    async def decision(self, question: str, ask: Callable[[], Asked[D]], meters: Meters) -> D | Expired:
        """Put a question to a human once; wait for the answer without keeping the run active.

        `question` is its key in the run, `ask` makes it, `meters` are those of the branch that waits.
        """
        id = self.run.asked.get(question)
        if id is None:
            await self.admit(meters)
            asked = ask()
            id = asked.id
            await self.put(asked)
        if id not in self.run.decisions:
            await self.wait_for_end([id], meters)
        return cast(D | Expired, self.run.decisions[id])  # the fold reads it by its question

    async def put(self, *asked: Asked[Any]) -> None:
        """Put questions to people."""
        await self.save(*map(e.ApprovalRequested, asked), questions=[row_of(each) for each in asked])

    # ------------------------------------------------------------- what it counts

    @property
    def stalled(self) -> bool:
        """Only somebody outside can move the run on, and nobody was told yet."""
        run = self.state.head.run
        return self.still and run is not None and run.state == "running"


async def open_log(
    journal: Journal,
    conversation: str,
    owner: str,
    *,
    bus: EventBus,
    pulse: Pulse,
    flusher: Flusher,
    wall: WallClock,
    start_soon: Callable[[Callable[[], Awaitable[object]]], object],
    progress: Callable[[], None],
) -> ConversationLog:
    """Become the conversation's writer, and fold what there is.

    Raises:
        UnknownStream: it does not exist (any more).
        StreamDamaged: it cannot be read.
    """
    fence = await journal.claim(conversation, owner)
    state = await read(journal, conversation)
    return ConversationLog(
        journal=journal,
        bus=bus,
        pulse=pulse,
        flusher=flusher,
        wall=wall,
        fence=fence,
        state=state,
        start_soon=start_soon,
        progress=progress,
    )


def _expiries(questions: Sequence[NewQuestion | CloseQuestion]) -> list[float]:
    asked = (each for each in questions if isinstance(each, NewQuestion))
    return [each.expires for each in asked if each.expires is not None]


def row_of(asked: Asked[Any]) -> NewQuestion:
    """The journal's row of a question."""
    return NewQuestion(asked.id, asked.kind, asked.to_json(), asked.expires)
