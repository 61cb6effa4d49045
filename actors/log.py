"""The one writer of a conversation while it is active.

Rules:

* Saves pass one queue. What is told to anybody (the fold advanced, the event published, a waiter answered)
  is told after its commit, in seq order, in one place: `ConversationLog.save`.
* What a run decides comes from recorded steps, results and decisions alone, so running it again over the
  same log takes the same path.
* All concurrency of a run goes through `gather` and all its waiting for somebody outside through `decision`
  and `credential`. Every branch counts as active except while it waits there; so `active == 0` means exactly
  that nothing but somebody outside can move the run on.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

import attrs
import trio

from stopgo.actors import events as e
from stopgo.actors.errors import ErrorCode
from stopgo.actors.head import Head, fold_head
from stopgo.actors.pulse import Pulse
from stopgo.actors.result import Result
from stopgo.actors.state import Conversation, Run
from stopgo.runtime.events import EventBus
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

T = TypeVar("T")

Job = Callable[[], Awaitable[T]]

PAGE = 500
"""Events read at a time when a conversation is activated."""


class ReplayMismatch(Exception):
    """The log has another step where this run wants one: going on could repeat or undo something."""


class BrokenConversation(Exception):
    """The events of a conversation do not follow from one another."""


def topic(conversation: str) -> str:
    """The topic of the bus that this conversation's events are published on."""
    return f"conversation/{conversation}"


def reply_topic(conversation: str, key: str) -> str:
    """The topic that the reply to a command is published on once it is on disk; None: it was deleted."""
    return f"reply/{conversation}/{key}"


async def read(journal: Journal, conversation: str, known: Conversation | None = None) -> Conversation:
    """Fold a conversation from the journal; from where `known` stands, if it is given.

    Raises:
        BrokenConversation
    """
    state = known or Conversation(conversation)
    while page := await journal.events_since(conversation, state.last_seq, PAGE):
        for event in page:
            try:
                state.apply(event)
            except (LookupError, TypeError) as error:
                raise BrokenConversation(f"{conversation}: event {event.seq} does not fit") from error
    return state


@attrs.define(eq=False)
class ConversationLog:
    journal: Journal
    bus: EventBus
    fence: Fence
    state: Conversation
    pulse: Pulse
    progress: Callable[[], None]
    """Told of every commit."""
    _queue: trio.Lock = attrs.field(factory=trio.Lock)
    _notes: list[NewEvent] = attrs.field(factory=list)
    _active: int = 0
    _parked: int = 0
    """Branches that a shutdown keeps from going on."""
    _quiet: trio.Event = attrs.field(factory=trio.Event)
    _on_stall: Callable[[], None] | None = None
    _waiting: dict[str, trio.Event] = attrs.field(factory=dict)
    """Who waits for a decision in this life, by approval."""
    _unauthorized: dict[object, tuple[str, trio.Event]] = attrs.field(factory=dict)
    """Who waits for a credential, and for which server."""

    @property
    def run(self) -> Run:
        """The record of the live run. Raises `LookupError` when there is none."""
        if self.state.run is None:
            raise LookupError("no run is live")
        return self.state.run

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
        async with self._queue:
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
            for key, reply in {**(replies or {}), **(refuse or {})}.items():
                self.bus.publish(reply_topic(self.state.id, key), reply)
            self.progress()
            return True

    def note(self, event: NewEvent) -> None:
        """Have an event written with the next save; it is lost if a crash comes first."""
        self._notes.append(event)

    def head_after(self, *new: NewEvent) -> Head:
        """The head as it will be when `new` is what is saved next."""
        return fold_head(self.state.head, (*self._notes, *new))

    def _publish(self, event: Event) -> None:
        self.state.apply_below(event)
        if event.type == e.APPROVAL_RESOLVED:
            self._answer(event.body["id"])
        if event.type == e.RUN_RESUMED or (event.type == e.APPROVAL_RESOLVED and event.body["token"]):
            for _server, ready in self._take_unauthorized():
                ready.set()
        self.bus.publish(topic(event.stream), event)

    def _answer(self, approval: str) -> None:
        waiter = self._waiting.pop(approval, None)
        if waiter is not None:
            self._become_active()  # here and not in the waiter: in between the run would look idle
            waiter.set()

    def _take_unauthorized(self) -> Iterable[tuple[str, trio.Event]]:
        taken = list(self._unauthorized.values())
        self._unauthorized.clear()
        for _ in taken:
            self._become_active()
        return taken

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
            else:
                await self.save(*events)
            return outcome
        if recorded["fingerprint"] != fingerprint:
            raise ReplayMismatch(
                f"step {key} was {recorded['fingerprint']} when it was recorded, and is {fingerprint} now"
            )
        return recorded

    async def admit(self) -> None:
        """Pass, unless a shutdown began: then nothing new starts, and this waits to be cancelled."""
        if self.pulse.draining.is_set():
            if self._notes:
                await self.save()
            self._parked += 1
            self._release()
            try:
                await trio.sleep_forever()
            finally:
                self._parked -= 1
                self._become_active()

    async def decision(self, question: str, ask: Callable[[], Mapping[str, Any]]) -> Mapping[str, Any]:
        """Put a question to a human once; wait for the answer without keeping the run active.

        `question` is its key in the run, `ask` makes its body (`stopgo.actors.approvals`).
        """
        id = self.run.asked.get(question)
        if id is None:
            await self.admit()
            body = ask()
            id = body["id"]
            await self.save(e.approval_requested(body), questions=[NewQuestion(id, body["kind"], body)])
        if id not in self.run.decisions:
            answered = self._waiting[id] = trio.Event()
            self._release()
            try:
                await answered.wait()
            finally:
                if self._waiting.pop(id, None) is not None:  # cancelled: `_answer` did not count us in again
                    self._become_active()
        return self.run.decisions[id]

    async def credential(self, server: str) -> None:
        """Wait, without keeping the run active, until a command brings a bearer token for `server`."""
        waiter = object()
        ready = trio.Event()
        self._unauthorized[waiter] = (server, ready)
        self._release()
        try:
            await ready.wait()
        finally:
            if self._unauthorized.pop(waiter, None) is not None:
                self._become_active()

    async def gather(self, *jobs: Job[T]) -> list[T]:
        """Run jobs side by side; results in the order of the jobs. The first error cancels the others."""
        if not jobs:
            return []
        if len(jobs) == 1:
            return [await jobs[0]()]
        results: dict[int, T] = {}
        left = len(jobs)

        async def one(index: int, job: Job[T]) -> None:
            nonlocal left
            try:
                results[index] = await job()
            finally:
                left -= 1
                if left:  # the last one hands its place to the parent
                    self._release()

        self._active += len(jobs) - 1
        try:
            async with trio.open_nursery() as nursery:
                for index, job in enumerate(jobs):
                    nursery.start_soon(one, index, job)
        except ExceptionGroup as group:
            raise first_leaf(group) from None
        return [results[index] for index in range(len(jobs))]

    # ------------------------------------------------------------- what it counts

    @property
    def active(self) -> int:
        """Branches of the run that can move by themselves."""
        return self._active

    @property
    def stalled(self) -> bool:
        """Only somebody outside can move the run on, and nobody was told yet."""
        run = self.state.head.run
        return not self._active and not self._parked and run is not None and run.state == "running"

    @property
    def unauthorized(self) -> str | None:
        """A server that a branch needs a credential for."""
        return next((server for server, _ in self._unauthorized.values()), None)

    def begin(self, on_stall: Callable[[], None]) -> None:
        """A run starts to move, in this life; `on_stall` is called whenever it is `stalled`."""
        self._active = 0
        self._on_stall = on_stall
        self._become_active()

    def end(self) -> None:
        """The run does not move any more, in this life."""
        self._on_stall = None
        while self._active:
            self._release()

    async def quiet(self) -> None:
        """Return when no branch can move by itself."""
        while self._active:
            await self._quiet.wait()

    def _become_active(self) -> None:
        self._active += 1
        if self._active == 1:
            self.pulse.beat(+1)

    def _release(self) -> None:
        self._active -= 1
        if not self._active:
            self.pulse.beat(-1)
            self._quiet.set()
            self._quiet = trio.Event()
            if self._on_stall is not None and self.stalled:
                self._on_stall()


def first_leaf(error: BaseException) -> BaseException:
    """The first error in a group of groups."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


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
    return ConversationLog(journal, bus, fence, state, pulse, progress)


def reply_of(result: Result | None) -> dict[str, Any]:
    """A reply as it is kept: the result of a command."""
    return {"result": result.to_json() if result else None}


def refusal(code: ErrorCode, message: str) -> dict[str, Any]:
    """What the sender of a command is told that is not carried out."""
    return {"error": {"code": code, "message": message}}
