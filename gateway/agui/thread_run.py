"""One request to `POST /agui`: the commands that it becomes, and the stream of what they come to.

A thread is a conversation: the one whose id `threadId` is, else the one whose id derives from it, which the
first message makes. Every command has a key that derives from the request, so a repeated request does nothing
again and follows the same run.
"""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import AsyncGenerator, Sequence, Set
from contextlib import aclosing
from typing import Any

import attrs

from ...actors.agent import Agent
from ...actors.common import errors
from ...actors.common.errors import AgentError, damage_as_agent_error
from ...actors.log.event_json import decode
from ...actors.log.events import CONVERSATION_DELETED, Origin
from ...actors.log.inbox import Say
from ...actors.log.state import Conversation
from ...runtime.journal.errors import Reading
from ...runtime.journal.protocol import Event
from ..a2a.task_events import entries
from ..http.chunked_json import encode
from .agui_events import AGUIEvent, MessagesSnapshot, event_json, messages_of
from .agui_run import AGUIRun
from .interrupts import AUTH, decision_in
from .run_input import ResumeEntry, RunInput, UserMessage

_NAMESPACE = uuid.UUID("b7a0f6c2-8f3e-4f0a-9c57-2f4f0b1d7e36")
"""Of conversation ids that are derived from a thread."""
_LATE = frozenset({"already_decided", "expired", "void"})
"""Errors that mean the interrupt has already ended; the request then follows the run."""
_REFUSED = frozenset({"decision_required", "denied_by_policy", "invalid_arguments", "invalid_request"})
"""Errors that reject an answer and leave its interrupt open."""


@attrs.frozen(kw_only=True)
class Caller:
    """What a request says beside its body."""

    session_id: str
    token: str | None = attrs.field(default=None, repr=False)
    """A bearer token for the calls of the run."""
    origin: Origin | None = None


def key_of(*parts: str) -> str:
    """The idempotency key of what a request makes, scoped to the route."""
    return hashlib.sha256("\n".join(("POST", "/agui", *parts)).encode()).hexdigest()


@attrs.frozen
class ThreadRun:
    """Made by `open_thread_run`, when all commands are durable."""

    _agent: Agent
    _input: RunInput
    _log: AGUIRun
    _caught_up: int
    """The last event before the commands: where the run rests earlier than that, it has gone on since."""
    _awaited: Set[str] = frozenset()
    """The interrupts that commands end: until they have, the run does not rest."""
    _refused: bool = False
    """The message was not stored, for there are open interrupts."""
    _kept: Sequence[Any] | None = None
    """The messages of the client without those that the stream repeats; None: it has none of these."""

    @property
    def conversation(self) -> str:
        return self._log.conversation.id

    @property
    def session_id(self) -> str:
        return self._log.conversation.head.session_id

    async def frames(self) -> AsyncGenerator[bytes, None]:
        """The stream: it ends when the run rests. Closing it stops nothing."""
        log = self._log
        yield _frames([log.start(self._input.parent_run)])
        if self._kept is not None:
            yield _frames([MessagesSnapshot(messages=self._kept)])
        if log.begins is None and log.command is None:
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
        yield self.farewell()

    def farewell(self) -> bytes:
        """The last frame of a stream that ends too early, because the server stops or has a fault."""
        if self._log.ended:
            return b""
        stops = self._agent.draining.is_set()
        code, why = (
            ("shutting_down", "the server stops") if stops else ("internal_error", "the stream failed")
        )
        return _frames(self._log.fail(code, f"{why}; repeat the request to follow the run again"))

    async def _follow(self) -> AsyncGenerator[Sequence[AGUIEvent], None]:
        """Raises `AgentError`."""
        log, id = self._log, self.conversation
        async with aclosing(self._agent.events(id, log.last_seq, deltas=True)) as found:
            async for item in found:
                if not isinstance(item, Event):
                    # A reply that was under way before would be shown without its beginning.
                    yield log.delta(item) if item.after > self._caught_up else ()
                    continue
                if item.type == CONVERSATION_DELETED:
                    raise errors.no_conversation(id)
                with damage_as_agent_error(), Reading(id, f"event {item.seq}"):
                    events = log.apply(decode(item))
                yield events
                if not log.ended and self._rests():
                    yield self._pause()

    def _rests(self) -> bool:
        log = self._log
        return log.rests and log.last_seq >= self._caught_up and self._awaited.isdisjoint(log.open_ids)

    def _pause(self) -> Sequence[AGUIEvent]:
        if self._log.open_ids:
            return self._log.pause()
        text = "the message was not stored, for an approval was pending; send it again"
        return self._log.fail("waiting_approval", text)


def _frames(events: Sequence[AGUIEvent]) -> bytes:
    return b"".join(b"data: " + encode(event_json(event)) + b"\n\n" for event in events)


async def open_thread_run(agent: Agent, run_input: RunInput, caller: Caller) -> ThreadRun:
    """Carry out what a request asks for. Raises `AgentError`."""
    key = key_of("thread", run_input.thread)
    id = await _find(agent, run_input.thread, str(uuid.uuid5(_NAMESPACE, key)))
    request = _Request(agent, run_input, caller)
    if run_input.message is None:
        if id is None:
            raise errors.no_conversation(run_input.thread)
        return await request.resume(id, run_input.resume)
    return await request.say(id or await request.create(key), run_input.message)


async def _find(agent: Agent, *ids: str) -> str | None:
    for id in ids:
        try:
            await agent.log_end(id)
        except AgentError as error:
            if error.code != "conversation_not_found":
                raise
        else:
            return id
    return None


@attrs.frozen
class _Request:
    """Methods raise `AgentError`."""

    agent: Agent
    input: RunInput
    caller: Caller

    async def create(self, key: str) -> str:
        id = str(uuid.uuid5(_NAMESPACE, key))
        try:
            await self.agent.start_conversation(id=id, key=key, session_id=self.caller.session_id)
        except AgentError as error:
            if error.code != "idempotency_key_reused":  # another request has just made it
                raise
        return id

    async def say(self, id: str, message: UserMessage) -> ThreadRun:
        agent, token = self.agent, self.caller.token
        key = key_of("message", id, message.id)
        queued = {each.key: each.command for each in await agent.inbox(id)}  # before the log: it goes there
        read = await self._read(id)
        known = waiting.message if isinstance(waiting := queued.get(key), Say) else read.messages.get(key)
        if known not in (None, message.text):
            raise errors.key_reused()
        awaited = frozenset({read.auth.id} if read.auth is not None and token is not None else ())
        refused = False
        if known is None:
            turn = await agent.send(
                id,
                message.text,
                key=key,
                token=token,
                wait=False,
                message_id=message.id,
                origin=self.caller.origin,
            )
            result = turn.result
            refused = result is not None and (result.state, result.code) == ("waiting", "waiting_approval")
        elif awaited and token is not None:
            await agent.resume(id, token=token, wait=False)
        if refused:
            read = await self._read(id)
        if key in read.messages:
            return await self._repeat(id, read.last_seq, awaited, command=key)
        read.command = key
        return self._run(read, read.last_seq, awaited, refused=refused)

    async def resume(self, id: str, entries: Sequence[ResumeEntry]) -> ThreadRun:
        read = await self._read(id)
        approvals = read.conversation.approvals
        for entry in entries:
            if entry.interrupt not in approvals.keys() | read.ends.keys() | read.open_ids:
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
        ended = [read.ends[each.interrupt] for each in entries if each.interrupt in read.ends]
        if ended:
            begins = min(ended)
            return await self._repeat(id, read.last_seq, awaited, begins=begins, refused=refused)
        read.refused = refused
        return self._run(read, read.last_seq, awaited)

    async def _answer(self, read: AGUIRun, entry: ResumeEntry) -> bool:
        """Whether the entry ends its interrupt."""
        agent, token, id = self.agent, self.caller.token, read.conversation.id
        if entry.interrupt.startswith(AUTH):
            if entry.status == "cancelled":
                head = read.conversation.head.run
                await agent.cancel(id, run=None if head is None else head.id)
            elif token is not None:
                await agent.resume(id, token=token, wait=False)
            return entry.status == "cancelled" or token is not None
        decision = decision_in(entry, read.conversation.approvals[entry.interrupt].asked)
        if decision is None:
            return False
        key = key_of("answer", entry.interrupt, json.dumps(decision, sort_keys=True))
        await agent.decide(entry.interrupt, decision, key=key, token=token, wait=False)
        return True

    async def _repeat(self, id: str, end: int, awaited: Set[str], **start: Any) -> ThreadRun:
        """Show again what is in the log up to `end`, and what follows. A client that has some of it would add
        the same text once more, so it is first told to forget that."""
        again: set[str] = set()
        async with aclosing(self._events(self._log(id, **start), end)) as found:
            async for event in found:
                again.update(messages_of(event))
        kept = [each for each in self.input.messages if _without_number(each) not in again]
        snapshot = None if len(kept) == len(self.input.messages) else kept
        return attrs.evolve(self._run(self._log(id, **start), end, awaited), kept=snapshot)

    def _run(self, log: AGUIRun, caught_up: int, awaited: Set[str], *, refused: bool = False) -> ThreadRun:
        return ThreadRun(self.agent, self.input, log, caught_up, awaited, refused)

    def _log(self, id: str, **start: Any) -> AGUIRun:
        thread, run = self.input.thread, self.input.run
        return AGUIRun(conversation=Conversation(id), thread=thread, run=run, **start)

    async def _read(self, id: str) -> AGUIRun:
        """The log as it is now; it emits nothing yet."""
        log = self._log(id)
        async with aclosing(self._events(log, (await self.agent.log_end(id)).last_seq)) as found:
            async for _ in found:
                pass
        if log.conversation.read_only:
            text = "the conversation was written by a newer version of the agent"
            raise AgentError("conversation_read_only", text)
        return log

    async def _events(self, log: AGUIRun, end: int) -> AsyncGenerator[AGUIEvent, None]:
        """Fold the log up to `end`."""
        id = log.conversation.id
        async with aclosing(entries(self.agent, id, end)) as found:
            async for entry in found:
                with damage_as_agent_error(), Reading(id, f"event {entry.seq}"):
                    events = log.apply(entry)
                for event in events:
                    yield event


def _without_number(message: Any) -> str | None:
    """The id of a message of the client; of several for one reply, that of the first (`OpenParts.say`)."""
    id = message.get("id") if isinstance(message, dict) else None
    return id.partition("~")[0] if isinstance(id, str) else None
