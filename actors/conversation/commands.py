"""Carrying out the commands in a conversation's inbox, and keeping its run going.

A command stays in the inbox until the commit that holds what it caused.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, assert_never

import attrs
import trio

from ...runtime.context import Context
from ...runtime.journal.errors import JournalError, QuestionTaken, Reading
from ...runtime.journal.protocol import CloseQuestion, Event, Fence, Json, NewEvent
from ..common.errors import ErrorCode
from ..log import events as e
from ..log import stored
from ..log.head import RunState, Status
from ..log.inbox import Cancel, Complete, Create, Decide, Delete, Expire, Received, Resume, Say, Withdraw
from ..log.log import ConversationLog
from ..log.record import Run
from ..log.topics import EVERYTHING, reply_topic, topic
from ..log.void import closed, save_over
from ..nodes.services import Services
from . import result as results
from .remote_tasks import cancel_open
from .result import refusal, reply_of
from .run import Failure, announce, close, end_event, execute, internal_error


@attrs.frozen
class Idle:
    """Published when a conversation has looked through its inbox and nothing in it moves by itself."""


@attrs.define(eq=False)
class Commands:
    """The commands of one conversation in one of its lives, and the run they keep going."""

    _ctx: Context[Any]
    _log: ConversationLog
    _services: Services
    _scope: trio.CancelScope | None = None
    """Of the run that is being executed in this life."""
    _over: trio.Event = attrs.field(factory=trio.Event)
    _queued: bool = False
    """Messages wait for the live run to end."""
    _told: set[str] = attrs.field(factory=set)
    """Queued messages whose senders know that they wait for a human."""
    _tried: set[tuple[str, str]] = attrs.field(factory=set)
    """Runs, and queued messages whose token was tried for them: it may be one that the server refuses."""
    deleted: bool = False

    def busy(self) -> bool:
        """Something moves or is not written yet, or somebody is just being told that nothing moves."""
        log = self._log
        return log.active > 0 or log.held or log.ahead or (self._scope is not None and log.stalled)

    async def look(self) -> None:
        """Read the inbox, carry out what can be, and see that a run that can move does."""
        if self.deleted or self._services.pulse.draining.is_set():
            return  # what is in the inbox stays there for the next start
        waiting: list[Received] = []
        acked = self._log.acked
        for place in await stored.inbox(self._services.journal, self._log.state.id):
            if self.deleted:
                return
            if place.key in acked:
                continue
            if self._log.state.read_only and not isinstance(place.command, Delete):
                await self._leave_alone(place)
            elif isinstance(place.command, Say) and self._run_is_live():
                waiting.append(place)
                self._queued = True  # at once: the run may end while what came after it is carried out
            else:
                await self._carry_out(place)
        self._queued = bool(waiting)
        await self._take_back_lost()
        await self._see_to_waiting(waiting)
        state = self._log.state
        run = state.head.run
        if run is not None and run.state == "running" and self._scope is None and not state.read_only:
            self._start()
        if not self._log.active:
            self._services.bus.publish(topic(self._log.state.id), Idle())

    async def _carry_out(self, place: Received) -> None:
        match place.command:
            case None:
                text = f"this version does not know {place.kind!r} commands"
                await self._refuse(place, "invalid_request", text)
            case Create() as create:
                await self._create(place, create)
            case Say():
                await self._say(place)
            case Decide() as decide:
                await self._decide(place, decide)
            case Expire(question):
                await self._expire(place, question)
            case Withdraw(question, reason):
                await self._withdraw(place, question, reason)
            case Resume():
                await self._resume(place)
            case Cancel() as cancel:
                await self._cancel(place, cancel)
            case Complete():
                await self._complete(place)
            case Delete():
                await self._delete()
            case _:
                assert_never(place.command)

    async def _leave_alone(self, place: Received) -> None:
        """Refuse what is asked of a conversation that can only be read. A decision stays in the inbox: its
        question is decided by now, and nobody could decide it again."""
        if not isinstance(place.command, Decide):
            await self._refuse(place, "conversation_read_only", _READ_ONLY)
            return
        self._services.tokens.drop(place.stream, [place.key])
        told = refusal("conversation_read_only", _DECIDED)
        self._services.bus.publish(reply_topic(place.stream, place.key), told)

    async def _refuse(self, place: Received, code: ErrorCode, message: str) -> None:
        self._services.tokens.drop(place.stream, [place.key])
        await self._log.save(refuse={place.key: refusal(code, message)})

    def _run_is_live(self, id: str | None = None) -> bool:
        run = self._log.state.live_run
        return run is not None and id in (None, run.id)

    # ---------------------------------------------------------------- commands

    async def _create(self, place: Received, create: Create) -> None:
        if self._log.state.last_seq:  # the caller's key gave the id, and has delivered another command
            await self._refuse(place, "idempotency_key_reused", "the conversation exists already")
            return
        if create.message is None:
            created, replies = self._created(place, create), {place.key: reply_of(None)}
            await self._log.save(created, ack=[place.key], replies=replies)
        else:
            await self._log.save_soon(*self._beginning(place), ack=[place.key])

    async def _say(self, place: Received) -> None:
        if self._log.state.head.completed:
            await self._refuse(place, "conversation_completed", "the conversation is completed")
        else:
            await self._log.save_soon(*self._beginning(place), ack=[place.key])

    def _created(self, place: Received, create: Create) -> e.Dated:
        return e.Dated(stored.created_by(place, create, self._services.config.prompt), place.at)

    def _beginning(self, place: Received) -> Sequence[e.LogEvent | e.Dated]:
        """The events with which a command begins a run; none if it begins none."""
        match place.command:
            case Create(message=str(message)) as create:
                return (self._created(place, create), *self._turn(place.key, message, create))
            case Say(message=message) as say:
                return self._turn(place.key, message, say)
            case _:
                return ()

    def _turn(self, key: str, message: str, command: Create | Say) -> tuple[e.LogEvent, ...]:
        """The message, and the run with the tree it will go on with whatever the file says later."""
        state, config, id = self._log.state, self._services.config, self._services.tree_id
        last, prompt = state.head.run, config.prompt
        shown = state.messages[0].content if state.messages else prompt  # it begins with this command
        return (
            e.MessageAdded(message, key),
            e.RunStarted(
                str(uuid.uuid4()),
                last.turn + 1 if last else 1,
                key,
                tree_id=id,
                replay_version=e.REPLAY_VERSION,
                token=command.token,
                tree=None if id in state.trees else config.stored_tree,
                prompt=None if shown == prompt else prompt,
                task=command.task if isinstance(command, Say) else None,
                message_id=command.message_id,
                origin=command.origin,
            ),
        )

    async def _decide(self, place: Received, decide: Decide) -> None:
        id, decision = decide.question, decide.decision
        with Reading(place.stream, f"command {place.key}"):
            self._log.state.approvals[id].asked.check_kind(decision)
        resolved = e.Dated(e.ApprovalResolved(id, decision, place.key, decision.token), place.at)
        if await self._settle(id, resolved, place.key, decision.token):
            return
        if self._log.state.approvals[id].state != "decided":  # it is when the run took it in as it ended
            await self._refuse(place, "void", "the approval is void: its run has ended")

    async def _expire(self, place: Received, id: str) -> None:
        expired = e.ApprovalExpired(id, self._log.state.approvals[id].asked.on_expiry)
        try:
            if await self._settle(id, expired, place.key, False, [CloseQuestion(id, "expired")]):
                return
        except QuestionTaken:
            pass  # somebody decided in time; that is in the inbox, too
        await self._log.save(ack=[place.key])

    async def _withdraw(self, place: Received, id: str, reason: str) -> None:
        approval, replies = self._log.state.approvals[id], {place.key: reply_of(None)}
        try:
            void, row = e.ApprovalVoid(id, reason), closed(approval, reason)
            if await self._settle(id, void, place.key, False, [row], replies):
                return
        except QuestionTaken:
            pass  # it has been decided meanwhile; the agent judges the decision
        await self._log.save(ack=[place.key], replies=replies)

    async def _settle(
        self,
        id: str,
        event: e.LogEvent | e.Dated,
        command: str,
        token: bool,
        questions: Sequence[CloseQuestion] = (),
        replies: Mapping[str, Json] | None = None,
    ) -> bool:
        """Take an approval's end into the run, and let that go on. False: the approval was not pending."""
        log = self._log
        while id in log.state.head.pending:
            run = log.state.head.run
            assert run is not None
            events: list[e.LogEvent | e.Dated] = [event]
            if run.state != "running":
                events.append(e.RunResumed(run.id, command, token, answer=False))

            def unchanged(state: RunState = run.state) -> bool:
                now = log.state.head
                return id in now.pending and now.run is not None and now.run.state == state

            # The run may begin to wait, or end, while this save waits for its turn.
            saved = await log.save(
                *events, questions=questions, ack=[command], replies=replies, when=unchanged
            )
            if saved:
                return True
        return False

    async def _resume(self, place: Received) -> None:
        head = self._log.state.head.run
        if head is None or head.state != "auth_required":
            text = "the run does not wait for a credential"
            await self._refuse(place, "not_waiting_for_credential", text)
            return
        await self._log.save(e.RunResumed(head.id, place.key, True, answer=True), ack=[place.key])

    async def _see_to_waiting(self, waiting: list[Received]) -> None:
        """Messages behind a live run: one with a token lets a run that lost its own go on, and a run that
        waits for a human answers those who sent them, for that may take long."""
        head = self._log.state.head.run
        if head is None or not waiting:
            return
        if head.state == "auth_required":
            for place in waiting:
                tried = (head.id, place.key)
                has_token = self._services.tokens.get(place.stream, place.key) is not None
                if has_token and tried not in self._tried:
                    self._tried.add(tried)
                    await self._log.save(e.RunResumed(head.id, place.key, True, answer=False))
                    return
        if head.state in ("waiting", "auth_required"):
            reply = reply_of(results.queued(head, self._log.state.head.pending))
            replies = {place.key: reply for place in waiting if place.key not in self._told}
            if replies:
                await self._log.save(replies=replies)
                self._told.update(replies)

    async def _take_back_lost(self) -> None:
        """What servers asked in the middle of calls of an earlier life: nobody waits for the answers."""
        lost = self._log.state.head.in_flight
        if lost and self._scope is None and not self._log.state.read_only:
            why = "the call it was asked in was lost with the process"
            await save_over(self._log, asked=lambda asked: asked.id in lost, why=why)

    async def _complete(self, place: Received) -> None:
        if self._run_is_live() or self._queued:
            await self._refuse(place, "run_in_progress", "a run is going; wait for it or cancel it first")
            return
        events = () if self._log.state.head.completed else (e.ConversationCompleted(),)
        await self._log.save(*events, ack=[place.key], replies={place.key: reply_of(None)})

    async def _cancel(self, place: Received, cancel: Cancel) -> None:
        if self._run_is_live(cancel.run):
            await self._stop_run()
        if self._run_is_live(cancel.run):  # it may have finished on its own meanwhile
            await self._close(lambda run: e.RunCancelled(run.id, (*run.unsettled, place.key)), (place.key,))
            self._services.wake(self._log.state.id)  # the next queued message: this look has passed it
        else:
            await self._log.save(ack=[place.key], replies={place.key: reply_of(None)})

    async def _delete(self) -> None:
        if self._run_is_live():
            await self._stop_run()
        if self._run_is_live() and not self._log.state.read_only:
            await self._close(lambda run: e.RunCancelled(run.id, tuple(run.unsettled)))
        await erase(self._services, self._log.fence, self._log.state.last_seq, self._log.state.head.status)
        self.deleted = True
        del self._services.live[self._log.state.id]

    # --------------------------------------------------------------------- runs

    def _start(self) -> None:
        self._over = trio.Event()
        self._log.begin(self._stalled)
        self._scope = self._ctx.start_soon(self._execute, name=f"{self._ctx.ref.name}/run")

    def _stalled(self) -> None:
        self._ctx.start_soon(announce, self._log, self._services)

    async def _execute(self) -> None:
        try:
            outcome = await execute(self._ctx, self._log, self._services)
            await self._close_with(outcome)
        finally:
            self._log.end()
            self._scope = None
            self._over.set()
            if self._queued:
                self._services.wake(self._log.state.id)

    async def _stop_run(self) -> None:
        """Cancel the run that is being executed, and wait until its last call is recorded."""
        if self._scope is not None:
            self._scope.cancel()
            await self._over.wait()

    async def _close_with(self, outcome: str | Failure) -> None:
        await self._close(lambda run: end_event(run, outcome))

    async def _close(self, event: Callable[[Run], e.RunEnd], ack: tuple[str, ...] = ()) -> None:
        """End the live run. A human who decides at this moment is heard first."""
        await cancel_open(self._log, self._services)
        while True:
            run = self._log.run
            try:
                if await close(self._log, event(run), ack):
                    self._services.tokens.drop(self._log.state.id, run.commands)
                    return
            except QuestionTaken:
                await self._take_decisions()

    async def _take_decisions(self) -> None:
        """A human decided while the run was ending: what was answered stands on record before the end."""
        for place in await stored.inbox(self._services.journal, self._log.state.id):
            if isinstance(place.command, Decide):
                await self._decide(place, place.command)

    async def give_up(self, crash: Exception) -> None:
        """Fail the run that keeps crashing this conversation, be it one that did so before its start was on
        disk; without one, it must be the next command."""
        failure = internal_error(crash)
        first = (await stored.inbox(self._services.journal, self._log.state.id))[:1]
        for place in filter(self._can_begin, first):
            with suppress(JournalError):  # it may be its start that cannot be saved: then it is refused
                await self._log.save(*self._beginning(place), ack=[place.key])
        if self._run_is_live() and not self._log.state.read_only:
            await self._close_with(failure)
            return
        for place in first:
            await self._refuse(place, "internal_error", failure.message)

    def _can_begin(self, place: Received) -> bool:
        """Whether a run of this command can begin now."""
        state = self._log.state
        if state.read_only or state.head.completed or self._run_is_live():
            return False
        match place.command:
            case Create(message=message):
                return message is not None and not state.last_seq
            case command:
                return isinstance(command, Say)


async def erase(services: Services, fence: Fence, last_seq: int, status: Status) -> None:
    """Forget a conversation; notify its followers, and the senders of commands without an answer."""
    id, bus = fence.stream, services.bus
    unanswered = await services.journal.delete(fence)
    services.tokens.forget(id)
    bus.publish(topic(id), NewEvent(e.CONVERSATION_DELETED, {}))
    deleted = Event(id, last_seq + 1, e.CONVERSATION_DELETED, services.wall(), {})
    bus.publish(EVERYTHING, (deleted, status))
    for key in unanswered:
        bus.publish(reply_topic(id, key), None)


_READ_ONLY = (
    "the conversation was written by a newer version of the agent; this one can only read or delete it"
)
_DECIDED = (
    "a newer version of the agent wrote the conversation; the decision is kept, and that one carries it out"
)
