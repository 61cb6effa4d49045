"""One request to `POST /agui`: its commands, and the stream of their effects.

A thread is a conversation: the one with the id `threadId`, else one with an id derived from it, which the
first message creates. The keys of all commands derive from the request, so a repeated request repeats no
command and follows the same run.

The order matters. `_Request` reads the inbox, folds the log, and then sends the commands. `ThreadRun.frames`
sends the folded part at once, and then follows the log from there until the run ends or waits.
"""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import AsyncGenerator, Sequence, Set
from contextlib import aclosing
from typing import Any

import attrs
import trio

from ...actors.agent.agent import Agent
from ...actors.common import errors
from ...actors.common.errors import AgentError, journal_as_agent_error
from ...actors.log.fold.state import Conversation
from ...actors.log.words.event_json import decode
from ...actors.log.words.events import CONVERSATION_DELETED, Origin
from ...actors.log.words.inbox import Say
from ...runtime.journal.errors import JournalError, Reading
from ...runtime.journal.protocol import Event
from ..http import sse
from ..http.request import set_conversation
from .agui_events import AGUIEvent, MessagesSnapshot, event_json, messages_of
from .agui_run import AGUIRun
from .interrupts import AUTH, decision_in
from .run_input import ResumeEntry, RunInput, UserMessage

_NAMESPACE = uuid.UUID("b7a0f6c2-8f3e-4f0a-9c57-2f4f0b1d7e36")
"""Namespace of the conversation ids that earlier versions derived from a thread."""
_PATIENCE = 15.0
"""Seconds between two checks that a message without a run is still in the inbox."""
_LATE = frozenset({"already_decided", "expired", "void"})
"""Errors that mean the interrupt has already ended; the request then follows the run."""
_REFUSED = frozenset(
    {
        "decision_required",
        "denied_by_policy",
        "halted",
        "invalid_arguments",
        "invalid_request",
        "may_not_approve",
        "subject_changed",
        "unknown_field",
    }
)
"""Errors that reject an answer and leave its interrupt open."""


@attrs.frozen(kw_only=True)
class AGUICaller:
    """The parts of a request beside its body."""

    session_id: str
    token: str | None = attrs.field(default=None, repr=False)
    """A bearer token for the calls of the run."""
    origin: Origin | None = None


def key_of(agent: Agent, *parts: str) -> str:
    """The idempotency key of a command, scoped to the route and the principal."""
    if agent.principal is not None:
        parts = (agent.principal.id, *parts)
    return hashlib.sha256("\n".join(("POST", "/agui", *parts)).encode()).hexdigest()


@attrs.frozen
class ThreadRun:
    """The stream of a request. Made by `open_thread_run`, after all commands are durable."""

    _agent: Agent
    _input: RunInput
    _log: AGUIRun
    _shown: Sequence[AGUIEvent] = ()
    """The events of the part of the run that was already in the log."""
    _awaited: Set[str] = frozenset()
    """The interrupts that the commands will end. While one of them is open, the stream does not end."""
    _refused: bool = False
    """The message was not stored, because interrupts are open."""

    @property
    def conversation(self) -> str:
        return self._log.conversation.id

    @property
    def session_id(self) -> str:
        return self._log.conversation.head.session_id

    async def frames(self) -> AsyncGenerator[bytes, None]:
        """The stream, which ends when the run ends or waits. Closing the stream does not affect the run."""
        log = self._log
        opening = [log.start(self._input.parent_run)]
        again = {id for event in self._shown for id in messages_of(event)}
        kept = [each for each in self._input.messages if _without_number(each) not in again]
        if len(kept) < len(self._input.messages):
            # The client would append the repeated text to its copies of these messages, so remove them first.
            opening.append(MessagesSnapshot(messages=kept))
        # In one chunk, because `last_chunk` closes all parts that the log has opened, so their openings must
        # have been sent.
        yield _frames([*opening, *self._shown])
        if log.ended:
            return
        if not log.begun and log.command is None:
            yield _frames(log.begin())
        if self._refused or self._rests():
            yield _frames(self._pause())
            return
        try:
            async with aclosing(self._follow()) as followed:
                async for events in followed:
                    if events:
                        yield _frames(events)
                    if log.ended:
                        return
        except AgentError as error:
            yield _frames(log.fail(error.code, error.message))
            return
        yield self.last_chunk()

    async def over(self) -> None:
        """Return when the stream has to end early: the server stops, or the accepted message was refused
        later, which leaves no event."""
        agent, log, id = self._agent, self._log, self.conversation
        while self._queued and not agent.draining.is_set():
            with trio.move_on_after(_PATIENCE):
                await agent.draining.wait()
            try:
                # The inbox before the log, because a message moves from one to the other.
                queued = {each.key for each in await agent.inbox(id)}
                end = (await agent.log_end(id)).last_seq
            except (AgentError, JournalError):
                return
            if self._queued and log.command not in queued and log.last_seq >= end:
                return
        await agent.draining.wait()

    def last_chunk(self) -> bytes:
        """The last frame of a stream that ends early, because the server stops or an exception occurred."""
        if self._log.ended:
            return b""
        code, why = "internal_error", "the stream failed"
        if self._agent.draining.is_set():
            code, why = "shutting_down", "the server stops"
        elif self._queued:
            why = "the message has not been processed"
        return _frames(self._log.fail(code, f"{why}; repeat the request to follow the run again"))

    async def _follow(self) -> AsyncGenerator[Sequence[AGUIEvent], None]:
        """Raises `AgentError`."""
        log, arrived = self._log, self._log.last_seq
        async with aclosing(self._agent.events(self.conversation, arrived, deltas=True)) as found:
            async for item in found:
                if not isinstance(item, Event):
                    # Skip the deltas of a reply whose beginning was missed.
                    yield log.delta(item) if item.after > arrived else ()
                    continue
                yield _advance(log, item)
                if not log.ended and self._rests():
                    yield self._pause()

    @property
    def _queued(self) -> bool:
        """Whether the run of the message has not begun yet."""
        return self._log.command is not None and not self._log.begun

    def _rests(self) -> bool:
        return self._log.pauses.rests and self._awaited.isdisjoint(self._log.open_ids)

    def _pause(self) -> Sequence[AGUIEvent]:
        if self._log.open_ids:
            return self._log.pause()
        text = "the message was not stored because an approval was pending; send it again"
        return self._log.fail("waiting_approval", text)


def _frames(events: Sequence[AGUIEvent]) -> bytes:
    return b"".join(sse.encode(event_json(event)) for event in events)


def _advance(log: AGUIRun, event: Event) -> Sequence[AGUIEvent]:
    """Raises `AgentError`."""
    id = log.conversation.id
    if event.type == CONVERSATION_DELETED:
        raise errors.no_conversation(id)
    with journal_as_agent_error(), Reading(id, f"event {event.seq}"):
        return log.apply(decode(event))


async def open_thread_run(agent: Agent, run_input: RunInput, caller: AGUICaller) -> ThreadRun:
    """Send the commands of a request. Raises `AgentError`."""
    key, own = key_of(agent, "thread", run_input.thread), agent.id_of("thread", run_input.thread)
    id = await _find(agent, run_input.thread, own, str(uuid.uuid5(_NAMESPACE, key)))
    request = _Request(agent, run_input, caller)
    if run_input.message is None:
        if id is None:
            raise errors.no_conversation(run_input.thread)
        return await request.resume(id, run_input.resume)
    return await request.send(id or await request.create(own, key), run_input.message)


async def _find(agent: Agent, *ids: str) -> str | None:
    for id in ids:
        try:
            set_conversation(id, (await agent.log_end(id)).session_id)
        except AgentError as error:
            if error.code != "conversation_not_found":
                raise
        else:
            return id
    return None


@attrs.frozen
class _Request:
    """Sends the commands of a request. Methods raise `AgentError`."""

    agent: Agent
    input: RunInput
    caller: AGUICaller

    async def create(self, id: str, key: str) -> str:
        try:
            await self.agent.start_conversation(id=id, key=key, session_id=self.caller.session_id)
        except AgentError as error:
            if error.code != "idempotency_key_reused":  # another request has just created it
                raise
        return id

    async def send(self, id: str, message: UserMessage) -> ThreadRun:
        try:
            return await self._send(id, message)
        except AgentError as error:
            if error.code != "idempotency_key_reused":
                raise
        # Another request may have just sent the message with another token or trace; now it is in the log.
        return await self._send(id, message)

    async def _send(self, id: str, message: UserMessage) -> ThreadRun:
        agent, token = self.agent, self.caller.token
        key = key_of(agent, "message", id, message.id)
        # The inbox before the log, because a message moves from one to the other.
        queued = {each.key: each.command for each in await agent.inbox(id)}
        log = self._log(id, command=key)
        shown = await self._fold(log)
        waiting, run = queued.get(key), log.conversation.live_run
        known = waiting.message if isinstance(waiting, Say) else log.messages.get(key)
        if known not in (None, message.text):
            raise errors.key_reused()
        awaited = frozenset({log.pauses.auth.id} if log.pauses.auth is not None and token is not None else ())
        # A repeated message gives its token to the run again, which may have lost it in a restart.
        sent = (
            waiting
            if isinstance(waiting, Say)
            else run
            if run is not None and run.driving_command == key
            else None
        )
        refused = False
        if known is None or (sent is not None and sent.token and token is not None):
            turn = await agent.post(
                id,
                message.text,
                pictures=message.pictures,
                key=key,
                token=token,
                message_id=message.id,
                origin=self.caller.origin if sent is None else sent.origin,
            )
            refused = turn.result is not None and turn.result.not_stored
        if known is not None and awaited and token is not None:
            await agent.post_token(id, token=token)
        if refused:
            await self._fold(log)
        return self._run(log, shown, awaited, refused=refused)

    async def resume(self, id: str, entries: Sequence[ResumeEntry]) -> ThreadRun:
        read = self._log(id)
        shown = await self._fold(read)
        approvals = read.conversation.approvals
        for entry in entries:
            if entry.interrupt not in approvals.keys() | read.pauses.ends.keys() | read.open_ids:
                raise errors.no_approval(entry.interrupt)
        awaited: set[str] = set()
        refused: dict[str, AgentError] = {}
        for entry in entries:
            if entry.interrupt not in read.open_ids:
                continue
            try:
                if await self._answer(read, entry):
                    awaited.add(entry.interrupt)
            except AgentError as error:
                if error.code in _REFUSED:
                    refused[entry.interrupt] = error
                elif error.code in _LATE:
                    awaited.add(entry.interrupt)
                else:
                    raise
        ended = [read.pauses.ends[each.interrupt] for each in entries if each.interrupt in read.pauses.ends]
        if ended:
            read = self._log(id, begins=min(ended))
            shown = await self._fold(read)
        read.refused = refused
        return self._run(read, shown, awaited)

    async def _answer(self, read: AGUIRun, entry: ResumeEntry) -> bool:
        """Send the command of an entry. Returns whether it will end the interrupt."""
        agent, token, id = self.agent, self.caller.token, read.conversation.id
        if entry.interrupt.startswith(AUTH):
            if entry.status == "cancelled":
                head = read.conversation.head.run
                await agent.cancel(id, run=None if head is None else head.id)
            elif token is not None:
                await agent.post_token(id, token=token)
            return entry.status == "cancelled" or token is not None
        decision = decision_in(entry, read.conversation.approvals[entry.interrupt].asked)
        if decision is None:
            return False
        key = key_of(agent, "answer", entry.interrupt, json.dumps(decision, sort_keys=True))
        trace = None if self.caller.origin is None else self.caller.origin.traceparent
        await agent.post_decision(entry.interrupt, decision, key=key, token=token, traceparent=trace)
        return (await agent.approval(entry.interrupt)).state != "pending"  # a vote leaves it open

    def _run(
        self, log: AGUIRun, shown: Sequence[AGUIEvent], awaited: Set[str], *, refused: bool = False
    ) -> ThreadRun:
        return ThreadRun(self.agent, self.input, log, shown, awaited, refused)

    def _log(self, id: str, **start: Any) -> AGUIRun:
        thread, run = self.input.thread, self.input.run
        return AGUIRun(conversation=Conversation(id), thread=thread, run=run, **start)

    async def _fold(self, log: AGUIRun) -> Sequence[AGUIEvent]:
        """Fold the log up to its current end; return the emitted events."""
        id = log.conversation.id
        shown: list[AGUIEvent] = []
        end = (await self.agent.log_end(id)).last_seq
        if log.last_seq < end:
            async with aclosing(self.agent.events(id, log.last_seq)) as found:
                async for event in found:
                    shown += _advance(log, event)
                    if event.seq >= end:
                        break
        if log.conversation.read_only:
            text = "the conversation was written by a newer version of the agent"
            raise AgentError("conversation_read_only", text)
        return shown


def _without_number(message: Any) -> str | None:
    """The id of a client's message; of several for one reply, the first one's (`OpenParts.add_text`)."""
    id = message.get("id") if isinstance(message, dict) else None
    return id.partition("~")[0] if isinstance(id, str) else None
