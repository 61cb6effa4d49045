"""Delivery of a client's message: find its context and task, and turn it into commands.

| the message | becomes |
|---|---|
| decides pending questions of its task, or of its context (`task_answer`) | `decide` for each question |
| names neither, and is nothing but a decision with the id of a question | `decide` for it |
| the task waits for a token, and the request has one | `resume` |
| the task waits for a decision, and the message has none | nothing; the task is returned with `UNDECIDED` |
| anything else | a message that starts a run: of the task, of a new task, or in a new conversation |

The keys of the commands derive from the key of the message, so a repeated message is the same command. A
message without a key gets a random one.
"""

from __future__ import annotations

import hashlib
import re
import uuid
from collections.abc import Sequence

import attrs

from ...actors.a2a.wire.a2a_errors import A2AError, invalid
from ...actors.a2a.wire.task import TERMINAL, Message, Send, State, Text
from ...actors.access.rights import relays
from ...actors.agent.agent import Agent
from ...actors.common.errors import AgentError
from ...actors.conversation.result import Result
from ...actors.log.words.events import Origin
from ..contract.attachments import Content
from ..http.identity import Lifetime
from ..http.request import set_conversation
from .as_a2a_error import as_a2a_error
from .message_content import content_of
from .push import PushNotifier
from .push_hook import SetBy
from .task_answer import (
    Decisions,
    decision_in_words,
    is_yes_or_no,
    named_alone,
    named_decisions,
    words_of,
)
from .task_events import known_task, read_own_tasks, read_tasks
from .task_log import TaskLog
from .task_page import context_of

CONTEXT = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,127}")
"""A context id that a client may choose. A conversation is created for it if the client has none."""

_NAMESPACE = uuid.UUID("0b7c9f56-5f5e-4e5b-8f57-6a0f8c1d2e4a")
"""Namespace of the context ids that earlier versions derived from a key."""

UNDECIDED = "The message decides nothing and is not kept. The task still waits:"


@attrs.frozen(kw_only=True)
class Caller:
    """The properties of a request beside its parameters."""

    session_id: str
    key: str | None = None
    """Idempotency key: a message with the same key is a repeat."""
    token: str | None = attrs.field(default=None, repr=False)
    """The bearer token for the calls of the turn."""
    hitl: bool = False
    """The request activates the extension for approvals."""
    continues: bool = False
    """A message to an ended task continues the task (the older dialect)."""
    is_v1: bool = True
    """The request is in version 1.0."""
    peer: str = ""
    """The client's address."""
    lifetime: Lifetime = attrs.field(factory=Lifetime)
    """Of the credential of the request."""
    origin: Origin | None = None


@attrs.frozen
class Delivery:
    """A message and its destination, made by `deliver_to`. Methods raise `A2AError`."""

    _agent: Agent
    _push: PushNotifier | None
    _send: Send
    _caller: Caller
    task: str
    key: str
    """The key of the command that the message becomes."""
    log: TaskLog
    """The tasks of the context before the message."""
    _is_new: bool = False
    """The context does not exist yet."""

    async def carry_out(self) -> str | Message | None:
        """Deliver the message, and set its configuration for push notifications, which covers the updates
        after the message.

        Returns None if the message was delivered; a text that says why it changed nothing; or a message that
        says so, if there is no task to return.
        """
        config, push = self._send.push, self._push
        if config is None or push is None:
            return await self._carry_out()
        await push.check(config)
        log, config = self.log, attrs.evolve(config, task=self.task)
        caller = self._caller
        by = SetBy(caller.is_v1, caller.hitl, caller.peer, caller.lifetime)
        if not log.has_taken(self.key):
            push.check_room(config, by)
        # The configuration needs an existing task, so deliver the message without waiting, set the
        # configuration, and then wait: with the same key, the second delivery is a repeat.
        notice = await attrs.evolve(self, send=attrs.evolve(self._send, wait=False))._carry_out()
        if notice is not None:
            return notice
        task = log.task(self.task) if log.has_taken(self.key) else None
        is_over = task is not None and task.status.state in TERMINAL
        await push.set(config, by, after=log.last_seq, is_over=is_over)
        return await self._carry_out() if self._waits else None

    async def _carry_out(self) -> str | Message | None:
        log, message = self.log, self._send.message
        if self.key not in log.commands:
            if self.key in log.resumed:
                return await self._resume()
            decisions = self.decisions()
            if {asked.id for asked in log.decided.get(self.key, ())} - decisions.keys():
                raise A2AError("INVALID_PARAMS", "this key was already used for a different message")
            if decisions:
                await self._decide(decisions)
                return None
            state = self._refuse()
            if state == "input-required" and log.is_live(self.task):
                return UNDECIDED
            if state == "auth-required" and log.is_live(self.task):
                return await self._resume()
        result = await self._send_content(content_of(message))
        if result is not None and result.not_stored:
            return await self._not_begun(result.response)
        return None

    def decisions(self) -> Decisions:
        """The decisions in the message; none if it starts a run."""
        log, message = self.log, self._send.message
        if self.key in log.commands or self.task not in log.ids:
            return {}
        repeated = log.decided.get(self.key, ())
        pending = repeated or (log.pending if log.is_live(self.task) else ())
        named = named_decisions(message, pending)
        of_another = {asked.id for asked in log.pending if asked not in pending}
        if named and (pending or log.asked.keys() & named.keys() - of_another):
            return named
        is_late = named_alone(message) in log.asked  # and refused, with the earlier decision
        if self._caller.hitl or not (pending or log.is_live(self.task) or is_late):
            return {}
        said = decision_in_words(message, pending, log.asked)
        if not said or said.keys() & of_another:
            return {}
        if (principal := self._agent.principal) is not None and relays(principal):
            raise A2AError("PERMISSION_DENIED", "a relay decides with the id of the approval, not in words")
        return said

    def _refuse(self) -> State | None:
        """The state of the task; None: it is new. Raises `A2AError` if it accepts no message."""
        task = self.log.task(self.task)
        if task is None:
            return None
        state = task.status.state
        if state in TERMINAL and not self._caller.continues:
            raise A2AError(
                "UNSUPPORTED_OPERATION",
                f"the task is {state}; to begin another, send a message without the task id",
            )
        said = " ".join(words_of(self._send.message)).lower()
        late = self.log.asked and not self.log.pending and is_yes_or_no(said)
        if late and self.log.is_live(self.task):
            raise A2AError("UNSUPPORTED_OPERATION", "the task has no open question; all have been answered")
        return state

    async def _send_content(self, content: Content) -> Result | None:
        agent, message, context = self._agent, self._send.message, self.log.context
        with as_a2a_error():
            if message.task is None and message.context is None:
                start = agent.start_conversation if self._waits else agent.post_conversation
                turn = await start(
                    content.text,
                    pictures=content.pictures,
                    id=context,
                    key=self.key,
                    session_id=self._caller.session_id,
                    token=self._caller.token,
                    message_id=message.id or None,
                    origin=self._caller.origin,
                )
            else:
                if self._is_new:
                    await self._make_context()
                send = agent.send if self._waits else agent.post
                turn = await send(
                    context,
                    content.text,
                    pictures=content.pictures,
                    key=self.key,
                    token=self._caller.token,
                    task=None if self.task == context else self.task,
                    message_id=message.id or None,
                    origin=self._caller.origin,
                )
        return turn.result

    async def _make_context(self) -> None:
        """Create the conversation separately, so that a message to a context is always the same command, even
        if it is the first one."""
        context = self.log.context
        try:
            await self._agent.start_conversation(
                id=context,
                key=f"{context}:context",
                session_id=self._caller.session_id,
                context=None if self.log.shown_context == context else self.log.shown_context,
            )
        except AgentError as error:
            if error.code != "idempotency_key_reused":  # another client has just created it
                raise

    async def _decide(self, decisions: Decisions) -> None:
        """Make all decisions, or none if one is invalid. Wait only for the last one, because the run
        continues when all have been made."""
        asked, pending = self.log.asked, {each.id for each in self.log.pending}
        of_others = frozenset() if self.log.is_live(self.task) else pending
        if unknown := decisions.keys() - (asked.keys() - of_others):
            raise invalid("message.parts", f"the task has no approval {min(unknown)[:64]}")
        ids = sorted(decisions, key=pending.__contains__)  # decided ones first, because they are refused
        trace = None if self._caller.origin is None else self._caller.origin.traceparent
        with as_a2a_error():
            for id in ids if len(ids) > 1 else ():
                await asked[id].decision_in(decisions[id], pending=id in pending)
            for id in ids:
                waits = self._waits and id == ids[-1]
                decide = self._agent.decide if waits else self._agent.post_decision
                key = f"{self.key}:{id}"
                await decide(id, decisions[id], key=key, token=self._caller.token, traceparent=trace)

    async def _resume(self) -> str | None:
        """Continue the task with the token of the message; the text is discarded."""
        if self._caller.token is None:
            return UNDECIDED
        with as_a2a_error():
            resume = self._agent.resume if self._waits else self._agent.post_token
            await resume(self.log.context, token=self._caller.token, key=self.key)
        return None

    async def _not_begun(self, text: str) -> str | Message:
        log = await read_own_tasks(self._agent, self.log.context)
        if log.is_live(self.task):
            return UNDECIDED
        waiting = tuple(id for id in log.ids if log.is_live(id))
        parts = (Text(text),)
        return Message(
            id=str(uuid.uuid4()), role="agent", parts=parts, context=log.shown_context, references=waiting
        )

    @property
    def _waits(self) -> bool:
        """Whether to wait until the run ends or needs its client."""
        return self._send.wait and not self._send.stream


async def deliver_to(agent: Agent, push: PushNotifier | None, send: Send, caller: Caller) -> Delivery:
    """Find the context and the task of a message. Raises `A2AError`."""
    message, key = send.message, caller.key or str(uuid.uuid4())
    if message.task is not None:
        log = await read_own_tasks(agent, context_of(message.task), hitl=caller.hitl)
        # Section 3.4.3; version 0.3 does not define a mismatch of context and task.
        if caller.is_v1 and message.context not in (None, log.context, log.shown_context):
            raise invalid("message.contextId", "is not the context of the task")
        known_task(log, message.task)
        return Delivery(agent, push, send, caller, message.task, key, log)
    if message.context is None and (answer := await _by_id(agent, push, send, caller, key)) is not None:
        return answer
    if caller.key is None and message.context is None:  # a new context
        context = str(uuid.uuid4())
        set_conversation(context, caller.session_id)
        return Delivery(agent, push, send, caller, context, key, TaskLog(context, caller.hitl))
    if message.context is None:
        wanted = (agent.id_of("A2A key", key), str(uuid.uuid5(_NAMESPACE, key)))
    elif CONTEXT.fullmatch(message.context):
        wanted = conversations_of(agent, message.context)
    else:
        raise invalid(
            "message.contextId",
            "must be 1 to 128 letters, digits, '.', '_' and '-', and must not begin with '.'",
        )
    found = await _tasks_of_one(agent, wanted, hitl=caller.hitl)
    if found is None:
        set_conversation(wanted[0], caller.session_id)
    log = found or TaskLog(wanted[0], caller.hitl, message.context or wanted[0])
    context = log.context
    later = f"{context}~{hashlib.sha256(key.encode()).hexdigest()[:8]}"
    known = log.commands.get(key) or log.answered.get(key)
    if known is None and (waiting := log.waiting) is not None:
        answer = Delivery(agent, push, send, caller, waiting, key, log)
        if answer.decisions():
            return answer
    task = known or (later if log.ids else context)
    return Delivery(agent, push, send, caller, task, key, log, found is None)


def conversations_of(agent: Agent, context: str) -> tuple[str, str]:
    """The two ids that the conversation of a context can have. A new conversation gets the first.

    The first is derived from the context id and the principal, so that the context ids of two principals
    cannot collide. The second is the context id itself: it is the id of the conversation if this agent issued
    the context id, or an earlier version created the conversation. Without principals, both are the same.
    """
    return context if agent.principal is None else agent.id_of("A2A context", context), context


async def _tasks_of_one(agent: Agent, conversations: Sequence[str], *, hitl: bool) -> TaskLog | None:
    """The tasks of the first of these conversations that the principal may read. Raises `A2AError`."""
    for id in conversations:
        try:
            return await read_own_tasks(agent, id, hitl=hitl)
        except A2AError as error:
            if error.reason != "TASK_NOT_FOUND":
                raise
    return None


async def _by_id(
    agent: Agent, push: PushNotifier | None, send: Send, caller: Caller, key: str
) -> Delivery | None:
    """The delivery of a message that names neither a task nor a context, but the id of a question. None: it
    decides nothing, or the question is one of another principal."""
    id = named_alone(send.message)
    if id is None:
        return None
    try:
        with as_a2a_error():
            question = await agent.approval(id)
        log = await read_tasks(agent, question.conversation_id, hitl=caller.hitl)
    except A2AError as error:
        if error.reason not in {"INVALID_PARAMS", "TASK_NOT_FOUND"}:  # there is none that the client may see
            raise
        return None
    answer = Delivery(agent, push, send, caller, log.waiting or log.ids[-1], key, log)
    if not answer.decisions():
        return None
    set_conversation(log.context, log.session_id)
    return answer
