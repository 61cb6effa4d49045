"""The one writer of a conversation while it is active.

Rules:

* Saves pass one queue. What is told to anybody (the fold advanced, the event published, a waiter answered)
  is told after its commit, in seq order, in one place: `ConversationLog.save`.
* What a run decides comes from recorded steps, results and decisions alone, so running it again over the
  same log takes the same path.
* All waiting of a run for somebody outside goes through `decision` and `credential`, and all its concurrency
  through `gather` (see `stopgo.actors.branches`), so the log knows when only somebody outside can move it on.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import attrs
import trio

from stopgo.actors import events as e
from stopgo.actors.branches import Branches, Meters
from stopgo.actors.head import Head, RunHead, fold_head
from stopgo.actors.meter import Meter
from stopgo.actors.needs import Wanted
from stopgo.actors.pulse import Pulse
from stopgo.actors.record import Run
from stopgo.actors.state import Conversation
from stopgo.actors.stored import read
from stopgo.actors.timers import EXPIRIES
from stopgo.runtime.events import EventBus
from stopgo.runtime.journal.errors import QuestionTaken
from stopgo.runtime.journal.protocol import (
    CloseQuestion,
    Event,
    Fence,
    Journal,
    NewEvent,
    NewIntent,
    NewQuestion,
    SettleIntent,
)


class ReplayMismatch(Exception):
    """The log has another step where this run wants one: going on could repeat or undo something."""


def topic(conversation: str) -> str:
    """The topic of the bus that this conversation's events are published on."""
    return f"conversation/{conversation}"


def reply_topic(conversation: str, key: str) -> str:
    """The topic that the reply to a command is published on once it is on disk; None: it was deleted."""
    return f"reply/{conversation}/{key}"


@attrs.define(eq=False, kw_only=True)
class ConversationLog(Branches):
    journal: Journal
    bus: EventBus
    fence: Fence
    state: Conversation
    progress: Callable[[], None]
    """Told of every commit."""
    _queue: trio.Lock = attrs.field(factory=trio.Lock)
    _notes: list[NewEvent] = attrs.field(factory=list)
    _used: dict[str, int] = attrs.field(factory=dict)
    """Model calls and tool calls of the run, those under way included."""
    _meters: dict[str, Meter] = attrs.field(factory=dict)
    """Of the executions that have a limit, by key."""
    _waiting: dict[str, tuple[trio.Event, Meters]] = attrs.field(factory=dict)
    """Who waits for a decision in this life, by approval."""
    _unauthorized: dict[object, tuple[Wanted, trio.Event, Meters]] = attrs.field(factory=dict)
    """Who waits for a credential, and for whom."""

    @property
    def run(self) -> Run:
        """The record of the live run. Raises `LookupError` when there is none."""
        if self.state.run is None:
            raise LookupError("no run is live")
        return self.state.run

    def begin(self, on_stall: Callable[[], None]) -> None:
        """A run starts to move, in this life; what an earlier one used up does not count against it."""
        self._used.clear()
        super().begin(on_stall)

    def snapshot(self) -> Conversation | None:
        """The conversation as it is in the journal; None while something is being written."""
        return None if self._queue.locked() else self.state.snapshot()

    # ------------------------------------------------------------------ saving

    async def save(
        self,
        *new: NewEvent,
        intents: Sequence[NewIntent] = (),
        settle: Sequence[SettleIntent] = (),
        questions: Sequence[NewQuestion | CloseQuestion] = (),
        ack: Sequence[str] = (),
        replies: Mapping[str, Mapping[str, Any]] | None = None,
        refuse: Mapping[str, Mapping[str, Any]] | None = None,
        when: Callable[[], bool] = lambda: True,
    ) -> bool:
        """Write all of it or nothing, then let everybody know. False when `when` no longer holds.

        `refuse` answers commands with a `refusal`; they leave no trace, so their keys are not used up.

        Raises what `Journal.save` raises; then nothing was written.
        """
        # Free nearly always; and who finds it so need not let all others run first.
        try:
            self._queue.acquire_nowait()
        except trio.WouldBlock:
            await self._queue.acquire()
        try:
            if not when():
                return False
            notes = tuple(self._notes)
            events = (*notes, *new)
            head = self.head_after(*new)
            saved = await self.journal.save(
                self.fence,
                self.state.last_seq,
                events,
                intents=intents,
                settle=settle,
                questions=questions,
                ack=ack,
                replies=replies,
                forget=tuple(refuse or ()),
                summary=head.summary() if head != self.state.head else None,
            )
            # No checkpoint from here on: commit, fold and publication are one step for everybody else.
            del self._notes[: len(notes)]
            self.state.head = head
            for n, event in enumerate(events):
                self._publish(Event(self.state.id, saved.first_seq + n, event.type, saved.at, event.body))
            if replies or refuse:
                for key, reply in {**(replies or {}), **(refuse or {})}.items():
                    self.bus.publish(reply_topic(self.state.id, key), reply)
            if questions and any(isinstance(each, NewQuestion) and each.expires for each in questions):
                self.bus.publish(EXPIRIES, None)
            self.progress()
            if self.stalled and self._on_stall is not None:
                self._on_stall()  # a decision that nobody waits for any more moves nothing
            return True
        finally:
            self._queue.release()

    def replace(self, old: str, body: Mapping[str, Any]) -> Awaitable[bool]:
        """Take a pending question back and put another in its place, in one commit.

        Raises `QuestionTaken` when a human was faster.
        """
        return self.save(
            e.approval_void(old, "the tool is not what was shown any more", superseded_by=body["id"]),
            e.approval_requested(body),
            questions=[CloseQuestion(old, "void", {"superseded_by": body["id"]}), question_of(body)],
            when=partial(self._pending, [old]),
        )

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

    def note(self, event: NewEvent) -> None:
        """Have an event written with the next save; it is lost if a crash comes first."""
        self._notes.append(event)

    def head_after(self, *new: NewEvent) -> Head:
        """The head as it will be when `new` is what is saved next."""
        return fold_head(self.state.head, (*self._notes, *new))

    def _publish(self, event: Event) -> None:
        self.state.apply_below(event)
        if event.type in (e.APPROVAL_RESOLVED, e.APPROVAL_EXPIRED):
            self._answer(event.body["id"])
        if event.type == e.RUN_RESUMED or (event.type == e.APPROVAL_RESOLVED and event.body["token"]):
            for _wanted, ready, meters in list(self._unauthorized.values()):
                self.resume(meters)
                ready.set()
            self._unauthorized.clear()
        self.bus.publish(topic(event.stream), event)

    def _answer(self, approval: str) -> None:
        waiter = self._waiting.pop(approval, None)
        if waiter is not None:
            answered, meters = waiter
            self.resume(meters)  # here and not in the waiter: in between the run would look idle
            answered.set()

    # ----------------------------------------------------------- what a run does

    async def step(
        self,
        key: str,
        kind: str,
        node: str,
        work: Callable[[], Awaitable[Mapping[str, Any]]],
        *,
        also: Callable[[Mapping[str, Any]], Sequence[NewEvent]] = lambda _: (),
        with_next: bool = False,
    ) -> Mapping[str, Any]:
        """Do `work` until its outcome is recorded; that outcome ever after.

        The outcome is what is kept of it in ``step.finished``: results and errors alike. `also` gives the
        events that belong into the same commit. `with_next` leaves the commit to the next save, for an
        outcome that nothing is done about before something else is saved.

        Raises:
            ReplayMismatch: another step is recorded under this key.
        """
        fingerprint = f"{kind} {node}"
        recorded = self.run.steps.get(key)
        if recorded is None:
            outcome = await work()
            events = (e.step_finished(key, kind, node, fingerprint, **outcome), *also(outcome))
            if with_next:
                self._notes.extend(events)
            elif "error" in outcome or "continued" in outcome:
                await self._give_up(key.removesuffix("!"), events)
            else:
                await self.save(*events)
            return outcome
        if recorded["fingerprint"] != fingerprint:
            raise ReplayMismatch(
                f"step {key} was {recorded['fingerprint']} when it was recorded, and is {fingerprint} now"
            )
        return recorded

    async def _give_up(self, execution: str, events: Sequence[NewEvent]) -> None:
        """Save that an execution failed, and take back what is still being asked below it."""
        await self.save_over(
            *events,
            asked=lambda body: is_within(body["key"], execution),
            why="what it was asked for has failed",
        )

    async def save_over(
        self,
        *events: NewEvent,
        asked: Callable[[Mapping[str, Any]], bool],
        why: str,
        settle: Sequence[SettleIntent] = (),
    ) -> None:
        """Save what makes pending questions pointless, those whose body `asked` picks, and take them back:
        nobody waits for the answer any more. A human who was faster is heard, and nothing follows."""
        faster: set[str] = set()
        while True:
            over = [
                id
                for id in self.state.head.pending
                if id not in faster and asked(self.state.approvals[id].body)
            ]
            void = [e.approval_void(id, why) for id in over]
            try:
                close = [CloseQuestion(id, "void") for id in over]
                moved = self._moves_on()
                holds = partial(self._still, over, self.state.head.run)
                if await self.save(*events, *void, *moved, settle=settle, questions=close, when=holds):
                    return
            except QuestionTaken:
                rows = [await self.journal.question(id) for id in over]
                faster |= {row.id for row in rows if row is not None and row.state == "decided"}

    def _moves_on(self) -> Sequence[NewEvent]:
        """A run that was just said to wait, and goes on by itself, is one to resume at the next start."""
        run = self.state.head.run
        if run is None or run.state == "running":
            return ()
        return (e.run_resumed(run.id, self.run.mover, self.run.token, answer=False),)

    def _still(self, asked: Sequence[str], run: RunHead | None) -> bool:
        now = self.state.head.run
        return self._pending(asked) and (now and now.state) == (run and run.state)

    def _pending(self, asked: Sequence[str]) -> bool:
        """Whether these questions are still open: while a save waits for its turn, one may expire."""
        return set(asked) <= set(self.state.head.pending)

    async def admit(self, meters: Meters = ()) -> None:
        """Pass, unless a shutdown began: then nothing new starts, and this waits to be cancelled."""
        if self.pulse.draining.is_set():
            if self._notes:
                await self.save()
            await self.park(meters)

    async def decision(
        self, question: str, ask: Callable[[], Mapping[str, Any]], meters: Meters
    ) -> Mapping[str, Any]:
        """Put a question to a human once; wait for the answer without keeping the run active.

        `question` is its key in the run, `ask` makes its body (`stopgo.actors.approvals`), `meters` are those
        of the branch that waits. What returns is the decision as it is kept, or ``{"expired": true, ...}``.
        """
        id = self.run.asked.get(question)
        if id is None:
            await self.admit(meters)
            body = ask()
            id = body["id"]
            await self.save(e.approval_requested(body), questions=[question_of(body)])
        if id not in self.run.decisions:
            answered = trio.Event()
            self._waiting[id] = (answered, meters)
            self.release(meters)
            try:
                await answered.wait()
            finally:
                if self._waiting.pop(id, None) is not None:  # cancelled: `_answer` did not count us in again
                    self.resume(meters)
        return self.run.decisions[id]

    async def credential(self, wanted: Wanted, meters: Meters) -> None:
        """Wait, without keeping the run active, until a command moves the run on, perhaps with a token."""
        waiter = object()
        ready = trio.Event()
        self._unauthorized[waiter] = (wanted, ready, meters)
        self.release(meters)
        try:
            await ready.wait()
        finally:
            if self._unauthorized.pop(waiter, None) is not None:
                self.resume(meters)

    # ------------------------------------------------------------- what it counts

    @property
    def stalled(self) -> bool:
        """Only somebody outside can move the run on, and nobody was told yet."""
        run = self.state.head.run
        return self.still and run is not None and run.state == "running"

    @property
    def unauthorized(self) -> Wanted | None:
        """What a branch needs a credential for; of several, that which a server has asked for itself."""
        wanted = [each for each, _, _ in self._unauthorized.values()]
        return next((each for each in wanted if each.status), wanted[0] if wanted else None)


async def open_log(
    journal: Journal,
    bus: EventBus,
    pulse: Pulse,
    conversation: str,
    owner: str,
    progress: Callable[[], None],
) -> ConversationLog:
    """Become the conversation's writer, and fold what there is.

    Raises:
        UnknownStream: it does not exist (any more).
    """
    fence = await journal.claim(conversation, owner)
    state = await read(journal, conversation)
    return ConversationLog(journal=journal, bus=bus, fence=fence, state=state, pulse=pulse, progress=progress)


def is_within(key: str, execution: str) -> bool:
    """Whether a key is of this execution of a node, or of anything below it, whatever the attempt."""
    return key == execution or key.startswith(tuple(f"{execution}{mark}" for mark in ":.@!"))


def question_of(body: Mapping[str, Any]) -> NewQuestion:
    """The journal's row of the question that an ``approval.requested`` with this body puts."""
    return NewQuestion(body["id"], body["kind"], body, body.get("expires"))
