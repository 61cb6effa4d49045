"""What clients ask of tasks, carried out by the agent, whatever the version of A2A.

A context is a conversation. Its first task has the id of the conversation; the ids of later ones begin with
it, so that each is found without an index.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager, contextmanager
from typing import Any

import attrs

from ...actors.agent import Agent
from ...actors.common.errors import AgentError, ErrorCode, damage_as_agent_error
from ...actors.conversation.result import WAITING, Turn
from ...actors.log.event_json import decode
from ...actors.log.events import Entry
from ...runtime.journal.errors import Reading
from ...runtime.journal.protocol import Event
from .a2a_errors import A2AError, Reason, invalid
from .message_text import text_of
from .task import (
    TERMINAL,
    CancelTask,
    GetTask,
    ListTasks,
    Message,
    Send,
    State,
    Status,
    StatusUpdate,
    StreamItem,
    Subscribe,
    Task,
    TaskPage,
    Text,
)
from .task_answer import decisions_in
from .task_log import TaskLog

CONTEXT = re.compile(r"[A-Za-z0-9._-]{1,128}")
"""A context that a client may name; a conversation of that id is made when there is none."""

MOST_LISTED = 1000
"""Conversations whose tasks a list without a context looks at, the newest first."""


@attrs.frozen(kw_only=True)
class Caller:
    """What a request says beside its parameters."""

    session_id: str
    key: str | None = None
    """The message is a repetition of the one that came with this key before."""
    token: str | None = attrs.field(default=None, repr=False)
    """A bearer token for the calls of the turn."""
    hitl: bool = False
    """It activates the extension for approvals."""
    continues: bool = False
    """A message to a task that has ended continues it (the older dialect)."""


@attrs.frozen
class _Place:
    """Where a message goes."""

    context: str
    task: str
    log: TaskLog
    last_seq: int = 0

    @property
    def is_new(self) -> bool:
        """There is no such conversation yet."""
        return not self.last_seq


@attrs.frozen
class TaskServer:
    """Every method raises `A2AError`."""

    agent: Agent

    async def send(self, send: Send, caller: Caller) -> Task | Message:
        place = await self._place(send.message, caller)
        refusal = await self._carry_out(place, send, caller, wait=send.wait)
        return refusal or await self._shown(place, send)

    async def stream(self, send: Send, caller: Caller) -> AsyncGenerator[StreamItem, None]:
        """The task, then its updates, to the one after which the stream is closed."""
        place = await self._place(send.message, caller)
        refusal = await self._carry_out(place, send, caller, wait=False)
        if refusal is not None:
            yield refusal
            return
        known = place.log.task(place.task) or _submitted(place, send.message)
        async with aclosing(self._follow(place, known)) as items:
            async for item in items:
                yield item

    async def get(self, request: GetTask) -> Task:
        log, _ = await self._read(context_of(request.id))
        return self._known(log, request.id)

    async def cancel(self, request: CancelTask) -> Task:
        context = context_of(request.id)
        log, _ = await self._read(context)
        task = self._known(log, request.id)
        if not log.is_live(request.id):
            raise A2AError("TASK_NOT_CANCELABLE", f"the task is {task.status.state}")
        with as_a2a_error():
            await self.agent.cancel(context)
        task = self._known((await self._read(context))[0], request.id)
        if task.status.state != "canceled":
            raise A2AError("TASK_NOT_CANCELABLE", f"the task is {task.status.state}")
        return task

    async def subscribe(self, request: Subscribe) -> AsyncGenerator[StreamItem, None]:
        context = context_of(request.id)
        log, last_seq = await self._read(context)
        task = self._known(log, request.id)
        if task.status.state in TERMINAL:
            raise A2AError("UNSUPPORTED_OPERATION", f"the task is {task.status.state}")
        place = _Place(context, request.id, log, last_seq)
        async with aclosing(self._follow(place, task)) as items:
            async for item in items:
                yield item

    async def list(self, request: ListTasks) -> TaskPage:
        contexts = [request.context] if request.context is not None else await self._contexts()
        tasks: list[Task] = []
        for context in contexts:
            try:
                log, _ = await self._read(context)
            except A2AError:
                continue
            tasks += filter(None, map(log.task, log.ids))
        found = [task for task in tasks if _matches(task, request)]
        found.sort(key=lambda task: (task.status.at or 0.0, task.id), reverse=True)
        first = _offset(request.page_token)
        page = found[first : first + request.page_size]
        following = first + len(page)
        token = str(following) if following < len(found) else ""
        shown = page if request.artifacts else [attrs.evolve(task, artifacts=()) for task in page]
        return TaskPage(shown, token, request.page_size, len(found))

    # ---------------------------------------------------------------- where a message goes

    async def _place(self, message: Message, caller: Caller) -> _Place:
        if message.task is None:
            return await self._new_task(message)
        context = context_of(message.task)
        if message.context not in (None, context):
            raise invalid("message.contextId", "is not that of the task")
        log, last_seq = await self._read(context)
        task = self._known(log, message.task)
        if task.status.state in TERMINAL and not caller.continues:
            raise A2AError("UNSUPPORTED_OPERATION", f"the task is {task.status.state}; send without its id")
        return _Place(context, message.task, log, last_seq)

    async def _new_task(self, message: Message) -> _Place:
        context = message.context
        if context is None:
            context = secrets.token_hex(16)
            return _Place(context, context, TaskLog(context))
        if not CONTEXT.fullmatch(context):
            raise invalid("message.contextId", "has other characters than letters, digits, '.', '_' and '-'")
        try:
            log, last_seq = await self._read(context)
        except A2AError:
            return _Place(context, context, TaskLog(context))
        task = f"{context}~{secrets.token_hex(4)}" if log.ids else context
        return _Place(context, task, log, last_seq)

    async def _carry_out(self, place: _Place, send: Send, caller: Caller, *, wait: bool) -> Message | None:
        """None: done. Else the agent's answer to a message that led to nothing."""
        message = send.message
        if place.log.pending and place.log.is_live(place.task):
            decisions = decisions_in(message, place.log.pending, hitl=caller.hitl)
            if not decisions:
                return _told(place, f"{WAITING} The message decides nothing, and is not kept.")
            await self._decide(decisions, place, caller, wait=wait)
            return None
        text = text_of(message)
        with as_a2a_error():
            turn = await self._say(text, place, caller, wait=wait)
        if turn.result is not None and turn.result.code == "waiting_approval" and turn.result.run_id:
            return _told(place, WAITING)
        return None

    async def _say(self, text: str, place: _Place, caller: Caller, *, wait: bool) -> Turn:
        if place.is_new:
            return await self.agent.start_conversation(
                text,
                id=place.context,
                key=caller.key,
                session_id=caller.session_id,
                token=caller.token,
                wait=wait,
            )
        task = None if place.task == place.context else place.task
        return await self.agent.send(
            place.context, text, key=caller.key, token=caller.token, wait=wait, task=task
        )

    async def _decide(
        self, decisions: Mapping[str, Mapping[str, Any]], place: _Place, caller: Caller, *, wait: bool
    ) -> None:
        """All but the last are not waited for: the run goes on when all are there."""
        last = list(decisions)[-1]
        with as_a2a_error():
            for id, words in decisions.items():
                if (await self.agent.approval(id)).stream != place.context:
                    raise invalid("message.parts", f"the task has no approval {id[:64]}")
                await self.agent.decide(id, words, token=caller.token, wait=wait and id == last)

    # ------------------------------------------------------------------------- reading

    async def _read(self, context: str) -> tuple[TaskLog, int]:
        """The tasks of a conversation as they are now, and the seq of the last event read."""
        log = TaskLog(context)
        with as_a2a_error():
            end = await self.agent.log_end(context)
            if end.last_seq:
                async with self._entries(context) as entries:
                    async for entry in entries:
                        log.apply(entry)
                        if entry.seq >= end.last_seq:
                            break
        return log, end.last_seq

    @asynccontextmanager
    async def _entries(self, context: str) -> AsyncIterator[AsyncIterator[Entry]]:
        async with (
            aclosing(self.agent.events(context)) as events,
            aclosing(_decoded(context, events)) as found,
        ):
            yield found

    async def _follow(self, place: _Place, known: Task) -> AsyncGenerator[StreamItem, None]:
        """`known`, which is the task as it was after `place.last_seq`, then what changed since."""
        yield known
        log = TaskLog(place.context)
        with as_a2a_error():
            async with self._entries(place.context) as entries:
                async for entry in entries:
                    updates = log.apply(entry)
                    if entry.seq <= place.last_seq:
                        continue
                    for update in updates:
                        if update.task != place.task:
                            continue
                        if isinstance(update, StatusUpdate) and _ends_stream(update.status.state):
                            yield attrs.evolve(update, final=True)
                            return
                        yield update

    async def _shown(self, place: _Place, send: Send) -> Task:
        log, _ = await self._read(place.context)
        task = log.task(place.task) or _submitted(place, send.message)
        return _with_history(task, send.history_length)

    def _known(self, log: TaskLog, id: str) -> Task:
        task = log.task(id)
        if task is None:
            raise A2AError("TASK_NOT_FOUND", f"there is no task {id[:200]}")
        return task

    async def _contexts(self) -> Sequence[str]:
        found: list[str] = []
        cursor: str | None = None
        with as_a2a_error():
            while len(found) < MOST_LISTED:
                page = await self.agent.conversations(limit=100, cursor=cursor)
                found += [item.id for item in page.conversations]
                cursor = page.next_cursor
                if cursor is None:
                    break
        return found


async def _decoded(context: str, events: AsyncIterator[Event]) -> AsyncGenerator[Entry, None]:
    async for event in events:
        with damage_as_agent_error(), Reading(context, f"event {event.seq}"):
            entry = decode(event)
        yield entry


def context_of(task: str) -> str:
    """The conversation that a task belongs to."""
    return task.partition("~")[0]


def _submitted(place: _Place, message: Message) -> Task:
    """A task whose run has not begun yet."""
    said = attrs.evolve(message, task=place.task, context=place.context)
    return Task(id=place.task, context=place.context, status=Status("submitted"), history=(said,))


def _told(place: _Place, text: str) -> Message:
    waiting = tuple(id for id in place.log.ids if place.log.is_live(id))
    return Message(
        id=secrets.token_hex(16), role="agent", parts=(Text(text),), context=place.context, references=waiting
    )


def _ends_stream(state: State) -> bool:
    """Whether nothing follows in the stream. A task that needs a token stays in it (section 7.6)."""
    return state in TERMINAL or state == "input-required"


def _with_history(task: Task, length: int | None) -> Task:
    if length is None or len(task.history) <= length:
        return task
    return attrs.evolve(task, history=tuple(task.history)[len(task.history) - length :])


def _matches(task: Task, request: ListTasks) -> bool:
    return (request.state is None or task.status.state == request.state) and (
        request.since is None or (task.status.at or 0.0) >= request.since
    )


def _offset(token: str) -> int:
    if not token:
        return 0
    if not token.isdigit() or len(token) > 9:
        raise invalid("pageToken", "is not one of this list's")
    return int(token)


_REASONS: Mapping[ErrorCode, Reason] = {
    "conversation_not_found": "TASK_NOT_FOUND",
    "approval_not_found": "INVALID_PARAMS",
    "decision_required": "INVALID_PARAMS",
    "denied_by_policy": "INVALID_PARAMS",
    "idempotency_key_reused": "INVALID_PARAMS",
    "invalid_arguments": "INVALID_PARAMS",
    "invalid_request": "INVALID_PARAMS",
    "message_required": "INVALID_PARAMS",
    "already_decided": "UNSUPPORTED_OPERATION",
    "expired": "UNSUPPORTED_OPERATION",
    "void": "UNSUPPORTED_OPERATION",
    "conversation_completed": "UNSUPPORTED_OPERATION",
    "conversation_read_only": "UNSUPPORTED_OPERATION",
    "run_in_progress": "UNSUPPORTED_OPERATION",
}


@contextmanager
def as_a2a_error() -> Iterator[None]:
    """Turn what the agent refuses into an error of the protocol."""
    try:
        yield
    except AgentError as error:
        text = error.message if error.hint is None else f"{error.message}. {error.hint}"
        raise A2AError(_REASONS.get(error.code, "INTERNAL_ERROR"), text) from error
