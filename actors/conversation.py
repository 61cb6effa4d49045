"""The conversation: one virtual actor by id, `Wake` is its whole protocol, its work is in its inbox.

Commands are durable before the conversation hears of them, and stay in the inbox until the commit that
holds what they caused. So a wake says nothing but "look", and any number of them may be lost or folded into
one as long as one follows the last command.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable
from functools import partial

import attrs
import trio

from stopgo.actors import events as e
from stopgo.actors import result as results
from stopgo.actors.errors import ErrorCode
from stopgo.actors.head import RunState
from stopgo.actors.log import (
    BrokenConversation,
    ConversationLog,
    open_log,
    refusal,
    reply_of,
    reply_topic,
    topic,
)
from stopgo.actors.record import (
    Run,
)
from stopgo.actors.run import (
    Failure,
    announce,
    close,
    end_event,
    execute,
    internal_error,
)
from stopgo.actors.services import Services
from stopgo.runtime.context import Behaviour, Context
from stopgo.runtime.journal.errors import (
    QuestionTaken,
    UnknownStream,
)
from stopgo.runtime.journal.protocol import (
    Command,
    NewEvent,
)
from stopgo.runtime.message import Message

logger = logging.getLogger(__name__)

IDLE = 1.0
"""Seconds without a command after which a conversation whose run does not move leaves memory."""


@attrs.frozen
class Idle:
    """Published when a conversation has looked through its inbox and nothing in it moves by itself."""


@attrs.frozen
class Wake(Message["Wake"]):
    """There may be something in your inbox."""


def conversation(services: Services) -> Callable[[str], Behaviour[Wake]]:
    """The behaviour of a conversation, by its id."""

    def by_id(id: str) -> Behaviour[Wake]:
        async def behaviour(ctx: Context[Wake]) -> None:
            await _live(ctx, services, id, None)

        return behaviour

    return by_id


def poisoned(services: Services) -> Callable[[str, Exception], Behaviour[Wake]]:
    """The behaviour of a conversation that crashed again and again: it gives its run up and lives on."""

    def by_id(id: str, error: Exception) -> Behaviour[Wake]:
        async def behaviour(ctx: Context[Wake]) -> None:
            try:
                await _live(ctx, services, id, error)
            except BrokenConversation as unfoldable:
                internal_error(unfoldable)

                async def refuse(_: Wake) -> None:
                    await _refuse_all(services, id)

                await ctx.serve(refuse, idle_timeout=IDLE)

        return behaviour

    return by_id


async def _live(ctx: Context[Wake], services: Services, id: str, crash: Exception | None) -> None:
    journal = services.journal
    try:
        log = await open_log(journal, services.bus, services.pulse, id, services.owner, ctx.progress)
    except UnknownStream:  # deleted: whoever woke us comes too late, or makes it anew
        await ctx.serve(partial(_look_again, ctx, services, id), idle_timeout=IDLE)
        return
    talk = _Conversation(ctx, log, services)
    services.live[id] = log.state
    try:
        if crash is not None:
            await talk.give_up(crash)
        await ctx.serve(talk.wake, idle_timeout=IDLE, busy=talk.busy)
        await log.quiet()  # a shutdown: what is in flight gets the grace
    finally:
        del services.live[id]


async def _refuse_all(services: Services, id: str) -> None:
    """Answer everybody who waits for a conversation whose events do not make sense. It stays as it is."""
    journal = services.journal
    row = await journal.row(id)
    if row is None:
        return
    fence = await journal.claim(id, services.owner)
    keys = [command.key for command in await journal.inbox(id)]
    reply = refusal("conversation_broken", "the conversation cannot be read; its log has to be repaired")
    await journal.save(fence, row.last_seq, forget=keys)
    for key in keys:
        services.bus.publish(reply_topic(id, key), reply)


async def _look_again(ctx: Context[Wake], services: Services, id: str, _: Wake) -> None:
    """What is left to do for a conversation that is gone: end, should there be one of its id again."""
    if await services.journal.row(id) is not None:
        ctx.stop()
        services.wake(id)


@attrs.define(eq=False)
class _Conversation:
    _ctx: Context[Wake]
    _log: ConversationLog
    _services: Services
    _scope: trio.CancelScope | None = None
    """Of the run that is being executed in this life."""
    _over: trio.Event = attrs.field(factory=trio.Event)
    _queued: bool = False
    """Messages wait for the live run to end."""
    _told: set[str] = attrs.field(factory=set)
    """Queued messages whose senders know that they wait for a human."""
    _deleted: bool = False

    def busy(self) -> bool:
        return self._log.active > 0

    async def wake(self, _: Wake) -> None:
        if self._deleted:
            await _look_again(self._ctx, self._services, self._log.state.id, Wake())
        else:
            await self.look()

    async def look(self) -> None:
        """Read the inbox, carry out what can be, and see that a run that can move does."""
        if self._services.pulse.draining.is_set():
            return  # what is in the inbox stays there for the next start
        waiting: list[Command] = []
        for command in await self._services.journal.inbox(self._log.state.id):
            if self._deleted:
                return
            if self._log.state.read_only:
                await self._refuse(command, "conversation_read_only", _READ_ONLY)
            elif command.kind == "message" and self._run_is_live():
                waiting.append(command)
            else:
                await self._carry_out(command)
        self._queued = bool(waiting)
        await self._see_to_waiting(waiting)
        state = self._log.state
        run = state.head.run
        if run is not None and run.state == "running" and self._scope is None and not state.read_only:
            self._start()
        if not self._log.active:
            self._services.bus.publish(topic(self._log.state.id), Idle())

    async def _carry_out(self, command: Command) -> None:
        match command.kind:
            case "create":
                await self._create(command)
            case "message":
                await self._message(command)
            case "decision":
                await self._decision(command)
            case "cancel":
                await self._cancel(command)
            case "complete":
                await self._complete(command)
            case "resume":
                await self._resume(command)
            case "delete":
                await self._delete()
            case kind:
                await self._refuse(
                    command, "invalid_request", f"this version does not know {kind!r} commands"
                )

    async def _refuse(self, command: Command, code: ErrorCode, message: str) -> None:
        self._services.tokens.drop(command.stream, [command.key])
        await self._log.save(refuse={command.key: refusal(code, message)})

    def _run_is_live(self) -> bool:
        return self._log.state.run is not None

    # ---------------------------------------------------------------- commands

    async def _create(self, command: Command) -> None:
        state = self._log.state
        if state.last_seq:  # the id was given by the caller's key, and this key delivered something else
            await self._refuse(command, "idempotency_key_reused", "the conversation exists already")
            return
        session_id = command.body["session_id"] or state.id[:8]
        created = e.conversation_created(session_id, self._services.config.prompt)
        text = command.body["message"]
        if text is None:
            await self._log.save(created, ack=[command.key], replies={command.key: reply_of(None)})
        else:
            await self._log.save(created, *self._begin(command, text), ack=[command.key])

    async def _message(self, command: Command) -> None:
        if self._log.state.head.completed:
            await self._refuse(command, "conversation_completed", "the conversation is completed")
        else:
            await self._log.save(*self._begin(command, command.body["message"]), ack=[command.key])

    def _begin(self, command: Command, text: str) -> tuple[NewEvent, ...]:
        """A turn: the message, and the run with the tree it will go on with whatever the file says later."""
        state = self._log.state
        tree, id = self._services.config.stored_tree, self._services.tree_id
        last = state.head.run
        return (
            e.message_added(text, command.key),
            e.run_started(
                str(uuid.uuid4()),
                last.turn + 1 if last else 1,
                command.key,
                id,
                None if id in state.trees else tree,
                command.body["token"],
            ),
        )

    async def _decision(self, command: Command) -> None:
        log, id, decision = self._log, command.body["question"], command.body["decision"]
        token = "token" in decision
        while id in log.state.head.pending:
            run = log.state.head.run
            assert run is not None
            events = [e.approval_resolved(id, decision, command.key, token)]
            if run.state != "running":
                events.append(e.run_resumed(run.id, command.key, token, answer=False))

            def unchanged(state: RunState = run.state) -> bool:
                now = log.state.head
                return id in now.pending and now.run is not None and now.run.state == state

            # The run may begin to wait, or end, while this save waits for its turn.
            if await log.save(*events, ack=[command.key], when=unchanged):
                return
        if log.state.approvals[id].state != "decided":  # it is when the run took it in as it ended
            await self._refuse(command, "void", "the approval is void: its run has ended")

    async def _resume(self, command: Command) -> None:
        head = self._log.state.head.run
        if head is None or head.state != "auth_required":
            text = "the run does not wait for a credential"
            await self._refuse(command, "not_waiting_for_credential", text)
            return
        await self._log.save(e.run_resumed(head.id, command.key, True, answer=True), ack=[command.key])

    async def _see_to_waiting(self, waiting: list[Command]) -> None:
        """Messages behind a live run: one with a token lets a run that lost its own go on, and a run that
        waits for a human answers those who sent them, for that may take long."""
        head = self._log.state.head.run
        if head is None or not waiting:
            return
        if head.state == "auth_required":
            for command in waiting:
                if self._services.tokens.get(command.stream, command.key) is not None:
                    await self._log.save(e.run_resumed(head.id, command.key, True, answer=False))
                    return
        if head.state == "waiting":
            reply = reply_of(results.queued(self._log.state.head.pending))
            replies = {command.key: reply for command in waiting if command.key not in self._told}
            if replies:
                await self._log.save(replies=replies)
                self._told.update(replies)

    async def _complete(self, command: Command) -> None:
        if self._run_is_live():
            await self._refuse(command, "run_in_progress", "a run is going; wait for it or cancel it first")
            return
        events = () if self._log.state.head.completed else (e.conversation_completed(),)
        await self._log.save(*events, ack=[command.key], replies={command.key: reply_of(None)})

    async def _cancel(self, command: Command) -> None:
        if self._run_is_live():
            await self._stop_run()
        if self._run_is_live():  # it may have finished on its own meanwhile
            await self._close(
                lambda run: e.run_cancelled(run.id, [*run.unsettled, command.key]), (command.key,)
            )
            self._services.wake(self._log.state.id)  # the next queued message: this look has passed it
        else:
            await self._log.save(ack=[command.key], replies={command.key: reply_of(None)})

    async def _delete(self) -> None:
        if self._run_is_live():
            await self._stop_run()
        if self._run_is_live():
            await self._close(lambda run: e.run_cancelled(run.id, run.unsettled))
        id, bus = self._log.state.id, self._services.bus
        with trio.CancelScope(shield=True):
            unanswered = await self._services.journal.delete(self._log.fence)
        self._deleted = True
        self._services.tokens.forget(id)
        bus.publish(topic(id), NewEvent(e.CONVERSATION_DELETED, {}))
        for key in unanswered:
            bus.publish(reply_topic(id, key), None)

    # --------------------------------------------------------------------- runs

    def _start(self) -> None:
        self._scope = trio.CancelScope()
        self._over = trio.Event()
        self._log.begin(self._stalled)
        self._ctx.start_soon(self._execute, self._scope, name=f"{self._ctx.ref.name}/run")

    def _stalled(self) -> None:
        self._ctx.start_soon(announce, self._log, self._services)

    async def _execute(self, scope: trio.CancelScope) -> None:
        try:
            with scope:
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

    async def _close(self, event: Callable[[Run], NewEvent], ack: tuple[str, ...] = ()) -> None:
        """End the live run. A human who decides at this moment is heard first."""
        while True:
            run = self._log.run
            try:
                await close(self._log, event(run), ack)
            except QuestionTaken:
                await self._take_decisions()
                continue
            self._services.tokens.drop(self._log.state.id, run.commands)
            return

    async def _take_decisions(self) -> None:
        """A human decided while the run was ending: what was answered stands on record before the end."""
        for command in await self._services.journal.inbox(self._log.state.id):
            if command.kind == "decision":
                await self._decision(command)

    async def give_up(self, crash: Exception) -> None:
        """Fail the run that keeps crashing this conversation; without one, it must be the next command."""
        failure = internal_error(crash)
        if self._run_is_live():
            await self._close_with(failure)
            return
        for command in (await self._services.journal.inbox(self._log.state.id))[:1]:
            await self._refuse(command, "internal_error", failure.message)


_READ_ONLY = "the conversation was written by a newer version of the agent; this one can only read it"
