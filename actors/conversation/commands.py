"""Executes the commands in a conversation's inbox, and runs its turns.

A command stays in the inbox until the commit that holds its effects, so a crash loses none and repeats none.
Each wake reads the whole inbox (`poll`):

    ============================  =================================================================
    command                       effect
    ============================  =================================================================
    `Create`, `Say`               starts a run; during a run, a `Say` stays in the inbox until its end
    `Decide`, `Expire`,           ends an approval; the branch that waits for it goes on, or, if the
    `Withdraw`                    run is not in memory, the run is resumed
    `AddVote`                     records a vote; the approval stays pending
    `Resume`                      resumes a run that waits for a token
    `Cancel`                      stops the run, waits for the record of its last call, ends the run
    `Complete`                    closes the conversation for messages; refused during a run
    `Delete`                      as `Cancel`, then deletes all rows of the conversation
    ============================  =================================================================

Then `poll` starts the run that is recorded as running, unless it is being executed. `ApprovalCommands` has
the commands about approvals. When a run ends before its calls, other agents are told to cancel their tasks
(`cancel_open`).
"""

from __future__ import annotations

import uuid
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, assert_never

import attrs
import trio

from ...runtime.context import Context
from ...runtime.envelope import Trace, current_trace
from ...runtime.errors import ActorError
from ...runtime.journal.errors import JournalError, QuestionTaken, Reading
from ...runtime.journal.patience import until_available
from ...runtime.journal.protocol import Json
from ...runtime.journal.question import CloseQuestion
from ..common.errors import ErrorCode
from ..log.fold import stored
from ..log.fold.head import RunState
from ..log.fold.record import CallRecord, Run
from ..log.words import events as e
from ..log.words.inbox import (
    AddVote,
    Cancel,
    Complete,
    Create,
    Decide,
    Delete,
    Expire,
    Received,
    Resume,
    Say,
    Withdraw,
)
from ..log.words.trace_ids import trace_id_of
from ..log.writer.log import ConversationLog
from ..log.writer.topics import ConversationTopic, Idle
from ..log.writer.void import closed, save_and_void
from ..run.scopes import hop_of
from ..run.services import Services
from ..tools.delegation import CancelRemote
from ..tools.needs import Wanted
from ..tools.registry import RemoteServer, Resolve, Resolved, bearer_for
from . import result as results
from .deletion import erase
from .result import refusal, reply_of, vote_recorded
from .run import Failure, announce, close, end_event, execute, internal_error, reply_without_token


@attrs.define(eq=False)
class Commands:
    """Executes the commands of one conversation during one activation."""

    _ctx: Context[Any]
    _log: ConversationLog
    _services: Services
    _scope: trio.CancelScope | None = None
    """The scope of the run that is being executed."""
    _ended: trio.Event = attrs.field(factory=trio.Event)
    _queued: bool = False
    """Messages wait for the live run to end."""
    _told: set[str] = attrs.field(factory=set)
    """Queued messages whose senders have been told that the run before them is blocked."""
    _tried: set[tuple[str, str]] = attrs.field(factory=set)
    """Pairs of a run and a queued message whose token it has used. The server may refuse it, so once only."""
    left: set[str] = attrs.field(factory=set)
    """The commands that the last `poll` did not execute: messages that wait for the end of the live run, and
    decisions that a read-only conversation cannot carry out. The conversation can be released with them."""
    deleted: bool = False
    _approvals: ApprovalCommands = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self._approvals = ApprovalCommands(self._log, self._services, self._refuse)

    def busy(self) -> bool:
        """Whether to stay in memory: a branch is active, a write pending, or a pause is being announced."""
        log = self._log
        return (
            log.branches.active > 0
            or log.branches.is_kept_loaded
            or log.has_pending_writes
            or (self._scope is not None and log.blocked)
        )

    async def poll(self) -> None:
        """Execute the commands in the inbox, then start the run if it is not being executed."""
        if self.deleted or self._services.logs.active_runs.draining.is_set():
            return  # the next start executes them
        waiting: list[Received] = []
        self.left = set()
        acked = self._log.acked
        for received in await self._inbox():
            if self.deleted:
                return
            if received.key in acked:
                continue
            if received.has_token and received.member != self._services.logs.journal.member:
                self._log.sent_elsewhere[received.key] = received.member
            if self._log.state.read_only and not isinstance(received.command, Delete):
                await self._refuse_read_only(received)
            elif isinstance(received.command, Say) and self._run_is_live():
                waiting.append(received)
                self.left.add(received.key)
                self._queued = True  # at once: the run may end while later commands are executed
            else:
                await self._carry_out(received)
        self._queued = bool(waiting)
        await self._void_lost()
        await self._resume_with_token()
        await self._reply_to_waiting(waiting)
        state = self._log.state
        run = state.head.run
        if run is not None and run.state == "running" and self._scope is None and not state.read_only:
            self._start()
        if not self._log.branches.active:
            self._services.tokens.note_rest(state.id, state.last_seq)
            self._services.logs.bus.publish(ConversationTopic(state.id), Idle())

    async def _inbox(self) -> Sequence[Received]:
        """The open commands. Raises `Fenced` if another member owns the conversation, because its commands
        may be about things that are not in the log of this activation."""
        journal = self._services.logs.journal
        inbox = await until_available(partial(stored.inbox, journal, self._log.state.id))
        await self._log.tenure.check(journal)  # after the reading, so that it held before it
        return inbox

    async def _carry_out(self, received: Received) -> None:
        match received.command:
            case None:
                text = f"this version does not know {received.kind!r} commands"
                await self._refuse(received, "invalid_request", text)
            case Create() as create:
                await self._create(received, create)
            case Say():
                await self._say(received)
            case Decide() | AddVote() | Expire() | Withdraw() as command:
                await self._approvals.carry_out(received, command)
            case Resume() as resume:
                await self._resume(received, resume.by)
            case Cancel() as cancel:
                await self._cancel(received, cancel)
            case Complete() as complete:
                await self._complete(received, complete.by)
            case Delete():
                await self._delete()
            case _:
                assert_never(received.command)

    async def _refuse_read_only(self, received: Received) -> None:
        """Refuse a command, because the conversation can only be read. A decision stays in the inbox, because
        its approval cannot be decided again."""
        if not isinstance(received.command, Decide | AddVote):
            await self._refuse(received, "conversation_read_only", _READ_ONLY)
            return
        self._services.tokens.drop(received.stream, [received.key])
        self.left.add(received.key)
        if received.key not in self._told:
            self._told.add(received.key)
            await self._log.save(replies={received.key: refusal("conversation_read_only", _DECIDED)})

    async def _refuse(self, received: Received, code: ErrorCode, message: str) -> None:
        self._services.tokens.drop(received.stream, [received.key])
        await self._log.save(refuse={received.key: refusal(code, message)})

    def _run_is_live(self, id: str | None = None) -> bool:
        run = self._log.state.live_run
        return run is not None and id in (None, run.id)

    # ---------------------------------------------------------------- commands

    async def _create(self, received: Received, create: Create) -> None:
        if self._log.state.last_seq:  # the id is made from the caller's key, which was used before
            await self._refuse(received, "idempotency_key_reused", "the conversation exists already")
            return
        if create.message is None:
            created, replies = self._created(received, create), {received.key: reply_of(None)}
            await self._log.save(created, ack=[received.key], replies=replies)
        else:
            await self._log.save_soon(*self._beginning(received), ack=[received.key])

    async def _say(self, received: Received) -> None:
        if self._log.state.head.completed:
            await self._refuse(received, "conversation_completed", "the conversation is completed")
        else:
            await self._log.save_soon(*self._beginning(received), ack=[received.key])

    def _created(self, received: Received, create: Create) -> e.Dated:
        return e.Dated(stored.created_by(received, create, self._services.config.prompt), received.at)

    def _beginning(self, received: Received) -> Sequence[e.LogEvent | e.Dated]:
        """The events with which a command starts a run; none if it starts no run."""
        match received.command:
            case Create(message=str(message)) as create:
                return (self._created(received, create), *self._turn(received.key, message, create))
            case Say(message=message) as say:
                return self._turn(received.key, message, say)
            case _:
                return ()

    def _turn(self, key: str, message: str, command: Create | Say) -> tuple[e.LogEvent, ...]:
        """The message, and the start of its run. The run keeps this tree if the file changes."""
        state, config, id = self._log.state, self._services.config, self._services.tree_id
        last, prompt = state.head.run, config.prompt
        shown = state.messages[0].content if state.messages else prompt  # no messages: `_created` comes first
        return (
            e.MessageAdded(message, key, command.by, command.pictures),
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
                by=command.by,
                program=command.program,
                policy=self._services.policies.current.revision,
            ),
        )

    async def _resume(self, received: Received, by: str | None) -> None:
        head = self._log.state.head.run
        if head is None or head.state != "auth_required":
            await self._refuse(received, "not_waiting_for_credential", "the run waits for no bearer token")
            return
        key = received.key
        await self._log.save(e.RunResumed(head.id, key, True, answer=True, by=by), ack=[key])

    async def _resume_with_token(self) -> None:
        """If the run waits for a bearer token and this member has one that it has not tried, resume the run.
        Otherwise reply to the senders that the run needs a token, unless another member may have it."""
        log, head = self._log, self._log.state.head.run
        if head is None or head.state != "auth_required":
            return
        run, wanted = log.run, Wanted(**(head.auth or {}))
        open_calls = (each for each in run.calls.values() if not log.state.has_ended(each))
        commands = {run.driving_command, *(each.own_command for each in open_calls if each.own_command)}
        found = {(head.id, key) for key in commands if self._services.tokens.get(log.state.id, key)}
        is_new = self._services.tokens.rested_at(log.state.id) != log.state.last_seq
        if wanted.status is None and is_new and not found <= self._tried:
            self._tried |= found
            await log.save(e.RunResumed(head.id, run.driving_command, run.token, answer=False))
        elif run.unreplied and self._scope is None:
            await reply_without_token(log, head, wanted)

    async def _reply_to_waiting(self, waiting: list[Received]) -> None:
        """If the live run needs a token and a waiting message of its requester came with one, resume the run
        with that. If it is blocked otherwise, answer that the messages are queued: a human may take long."""
        head = self._log.state.head.run
        if head is None or not waiting:
            return
        if head.state == "auth_required":
            for received in (each for each in waiting if each.by == self._log.run.started.by):
                tried = (head.id, received.key)
                has_token = self._services.tokens.get(received.stream, received.key) is not None
                if has_token and tried not in self._tried:
                    self._tried.add(tried)
                    await self._log.save(e.RunResumed(head.id, received.key, True, answer=False))
                    return
        if head.state in ("waiting", "auth_required"):
            reply = reply_of(results.queued(head, self._log.state.head.pending))
            replies = {received.key: reply for received in waiting if received.key not in self._told}
            if replies:
                await self._log.save(replies=replies)
                self._told.update(replies)

    async def _void_lost(self) -> None:
        """Void the elicitations of calls that an earlier process had in flight."""
        lost = self._log.state.head.in_flight
        if lost and self._scope is None and not self._log.state.read_only:
            why = "the call it was asked in was lost with the process"
            await save_and_void(self._log, where=lambda asked: asked.id in lost, why=why)

    async def _complete(self, received: Received, by: str | None) -> None:
        if self._run_is_live() or self._queued:
            text = "a run is in progress; wait for it or cancel it first"
            await self._refuse(received, "run_in_progress", text)
            return
        events = () if self._log.state.head.completed else (e.ConversationCompleted(by),)
        await self._log.save(*events, ack=[received.key], replies={received.key: reply_of(None)})

    async def _cancel(self, received: Received, cancel: Cancel) -> None:
        if self._run_is_live(cancel.run):
            await self._stop_run()
        if self._run_is_live(cancel.run):  # otherwise it has finished meanwhile
            key = received.key
            await self._close(lambda run: e.RunCancelled(run.id, (*run.unreplied, key), cancel.by), (key,))
            self._services.wake(self._log.state.id)  # to run the next message: this `poll` has passed it
        else:
            await self._log.save(ack=[received.key], replies={received.key: reply_of(None)})

    async def _delete(self) -> None:
        if self._run_is_live():
            await self._stop_run()
        if self._run_is_live() and not self._log.state.read_only:
            await self._close(lambda run: e.RunCancelled(run.id, tuple(run.unreplied)))
        await erase(self._services, self._log.tenure.fence, self._log.state.last_seq, self._log.state.head)
        self.deleted = True
        del self._services.logs.live[self._log.state.id]

    # --------------------------------------------------------------------- runs

    def _start(self) -> None:
        self._ended = trio.Event()
        self._log.begin(self._announce)
        self._scope = self._ctx.start_soon(self._execute, name=f"{self._ctx.ref.name}/run")

    def _announce(self) -> None:
        self._ctx.start_soon(announce, self._log, self._services)

    async def _execute(self) -> None:
        current_trace.set(self._names())
        try:
            outcome = await execute(self._ctx, self._log, self._services)
            await self._close_with(outcome)
        finally:
            self._log.branches.end()
            self._scope = None
            self._ended.set()
        if self._queued:
            self._services.wake(self._log.state.id)

    def _names(self) -> Trace:
        """The names of the run in the lines of the log, also in those of the actors that it asks."""
        state, run = self._log.state, self._log.run
        trace = trace_id_of(run.id, run.traceparent)
        return {"conversation": state.id, "sid": state.head.session_id, "trace": trace}

    async def _stop_run(self) -> None:
        """Cancel the run that is being executed, and wait until the end of its last call is recorded."""
        if self._scope is not None:
            self._scope.cancel()
            await self._ended.wait()

    async def _close_with(self, outcome: str | Failure) -> None:
        await self._close(lambda run: end_event(run, outcome))

    async def _close(self, event: Callable[[Run], e.RunEnd], ack: tuple[str, ...] = ()) -> None:
        """End the live run. If an approval is decided at this moment, record the decision first."""
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
        """Record the decisions in the inbox, so that they precede the end of the run."""
        for received in await self._inbox():
            if isinstance(received.command, Decide | AddVote):
                await self._approvals.carry_out(received, received.command)

    async def give_up(self, crash: Exception) -> None:
        """Fail the run that keeps crashing this conversation, also if its start is not on disk yet. Without a
        run, refuse the next command, which must be the cause."""
        failure = internal_error(crash)
        first = (await self._inbox())[:1]
        for received in filter(self._can_begin, first):
            with suppress(JournalError):  # saving the start may be what crashes: then it is refused below
                await self._log.save(*self._beginning(received), ack=[received.key])
        if self._run_is_live() and not self._log.state.read_only:
            await self._close_with(failure)
            return
        for received in first:
            await self._refuse(received, "internal_error", failure.message)

    def _can_begin(self, received: Received) -> bool:
        """Whether this command can start a run now."""
        state = self._log.state
        if state.read_only or state.head.completed or self._run_is_live():
            return False
        match received.command:
            case Create(message=message):
                return message is not None and not state.last_seq
            case command:
                return isinstance(command, Say)


_READ_ONLY = "a newer version of the agent wrote the conversation; this version can only read or delete it"
_DECIDED = "a newer version of the agent wrote the conversation, and will apply the decision, which is stored"


_VOID = "the approval is void: its run has ended"


@attrs.frozen(eq=False)
class ApprovalCommands:
    _log: ConversationLog
    _services: Services
    _refuse: Callable[[Received, ErrorCode, str], Awaitable[None]]
    _recorded: set[str] = attrs.field(factory=set)
    """The votes of this activation that are on record. A task may have read the inbox before that."""

    async def carry_out(self, received: Received, command: Decide | AddVote | Expire | Withdraw) -> None:
        match command:
            case Decide() as decide:
                await self._decide(received, decide)
            case AddVote() as vote:
                await self._vote(received, vote)
            case Expire(question):
                await self._expire(received, question)
            case Withdraw(question, reason):
                await self._withdraw(received, question, reason)
            case _:
                assert_never(command)

    async def _decide(self, received: Received, decide: Decide) -> None:
        id, decision = decide.question, decide.decision
        with Reading(received.stream, f"command {received.key}"):
            self._log.state.approvals[id].asked.check_kind(decision)
        resolved = e.ApprovalResolved(
            id, decision, received.key, decision.token, subject=decide.subject, voters=decide.voters
        )
        if await self._settle(id, e.Dated(resolved, received.at), received.key, decision.token):
            return
        if self._log.state.approvals[id].state != "decided":  # `_take_decisions` may have applied it
            await self._refuse(received, "void", _VOID)

    async def _vote(self, received: Received, vote: AddVote) -> None:
        log, key, id = self._log, received.key, vote.question
        with Reading(received.stream, f"command {key}"):
            log.state.approvals[id].asked.check_kind(vote.decision)
        self._services.tokens.drop(received.stream, [key])
        voted = e.ApprovalVoted(
            id,
            vote.voters[-1],
            subject=vote.subject,
            voters=vote.voters,
            needed=vote.needed,
            decision=vote.decision,
            command=key,
        )
        reply = reply_of(vote_recorded(log.state.head, len(vote.voters), vote.needed))
        saved = await log.save(
            e.Dated(voted, received.at),
            ack=[key],
            replies={key: reply},
            when=lambda: key not in self._recorded and id in log.state.head.pending,
        )
        if saved:
            self._recorded.add(key)
        elif key not in self._recorded:
            await self._refuse(received, "void", _VOID)

    async def _expire(self, received: Received, id: str) -> None:
        expired = e.ApprovalExpired(id, self._log.state.approvals[id].asked.on_expiry)
        try:
            if await self._settle(id, expired, received.key, False, [CloseQuestion(id, "expired")]):
                return
        except QuestionTaken:
            pass  # decided in time: the decision is in the inbox
        await self._log.save(ack=[received.key])

    async def _withdraw(self, received: Received, id: str, reason: str) -> None:
        approval, replies = self._log.state.approvals[id], {received.key: reply_of(None)}
        try:
            void, row = e.ApprovalVoid(id, reason), closed(approval, reason)
            if await self._settle(id, void, received.key, False, [row], replies):
                return
        except QuestionTaken:
            pass  # decided meanwhile: the other agent has to accept or refuse the decision
        await self._log.save(ack=[received.key], replies=replies)

    async def _settle(
        self,
        id: str,
        event: e.LogEvent | e.Dated,
        command: str,
        token: bool,
        questions: Sequence[CloseQuestion] = (),
        replies: Mapping[str, Json] | None = None,
    ) -> bool:
        """Record the end of an approval, and resume its run. False if the approval is not pending."""
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

            # The run may start to wait, or end, while this save waits for its turn.
            saved = await log.save(
                *events, questions=questions, ack=[command], replies=replies, when=unchanged
            )
            if saved:
                return True
        return False


# ------------------------------------------------------- tasks of other agents

MAX_CONCURRENT = 8
"""The tasks of a run that are cancelled at the same time."""


async def cancel_open(log: ConversationLog, services: Services) -> None:
    """Cancel the open tasks of the live run, which is about to end.

    The actors of the agents limit the time. An agent that cannot be reached keeps its task.
    """
    run = log.state.live_run
    calls = run.calls if run is not None else {}
    open_calls = [(key, record) for key, record in calls.items() if _is_open(record)]
    if not open_calls:
        return
    limiter = trio.CapacityLimiter(MAX_CONCURRENT)
    async with trio.open_nursery() as nursery:
        for key, record in open_calls:
            nursery.start_soon(_cancel, log, services, key, record, limiter)


def _is_open(record: CallRecord) -> bool:
    if record.remote is None:
        return False
    return record.need is not None or record.attempts[max(record.attempts)] != "finished"


async def _cancel(
    log: ConversationLog, services: Services, key: str, record: CallRecord, limiter: trio.CapacityLimiter
) -> None:
    started, hop = record.started, hop_of(log, services.agent_id)
    assert started is not None
    assert record.remote is not None
    async with limiter:
        with suppress(ActorError):
            found = await services.registry.ask(Resolve(started.tool, {}, started.server))
            if isinstance(found, Resolved) and isinstance(found.server, RemoteServer):
                token = services.tokens.get(log.state.id, log.run.command_of(key))
                bearer = bearer_for(found.server, token)
                await found.server.ref.ask(CancelRemote(task=record.remote, hop=hop, bearer=bearer))
