"""What clients ask of tasks, carried out by the agent.

A task is a view on the events of its conversation: each answer is folded from them, and a stream is the state
after one event, then what the following events change, from one ordered source. So an answer never
contradicts the journal, and every stream tells the same.

A context is a conversation. Its first task has the id of the conversation; the ids of later ones begin with
it, so that each is found without an index.
"""

from __future__ import annotations

import hashlib
import re
import uuid
from collections.abc import AsyncGenerator, Sequence, Set
from contextlib import aclosing

import attrs

from ...actors.agent import Agent
from ...actors.common.errors import AgentError
from ...actors.conversation.result import Result
from ..responses import concerns
from .a2a_errors import A2AError, invalid
from .as_a2a_error import as_a2a_error
from .message_text import text_of
from .push import PushNotifier, SetBy
from .task import (
    INTERRUPTED,
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
from .task_answer import Decisions, decision_in_words, is_yes_or_no, named_decisions, word_of
from .task_events import entries, known_task, read_tasks
from .task_log import TaskLog
from .task_page import context_of, ends_stream, matches, page_offset, with_history, with_notice

CONTEXT = re.compile(r"[A-Za-z0-9._-]{1,128}")
"""A context that a client may name; a conversation of that id is made when there is none."""

MOST_LISTED = 1000
"""Conversations whose tasks a list without a context looks at, the newest first."""

_NAMESPACE = uuid.UUID("0b7c9f56-5f5e-4e5b-8f57-6a0f8c1d2e4a")
"""Of contexts that are derived from a key."""

UNDECIDED = "The message decides nothing and is not kept. The task still waits:"


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
    is_v1: bool = True
    """It speaks version 1.0."""
    peer: str = ""
    """The address that it came from."""


@attrs.frozen
class _Place:
    """Where a message goes."""

    task: str
    key: str
    """Of the command that it becomes."""
    log: TaskLog
    is_new: bool = False
    """There is no such context yet."""

    @property
    def context(self) -> str:
        return self.log.context


@attrs.frozen
class TaskServer:
    """Every method raises `A2AError`."""

    agent: Agent
    push: PushNotifier | None = None

    async def send(self, send: Send, caller: Caller) -> Task | Message:
        place = await self._place(send.message, caller)
        told = await self._begin(place, send, caller)
        if isinstance(told, Message):
            return told
        log = await self._read(place.context, caller.hitl)
        task = with_history(self._known(log, place.task), send.history_length)
        return log.message(place.task) or (with_notice(task, told) if told else task)

    async def stream(self, send: Send, caller: Caller) -> AsyncGenerator[StreamItem, None]:
        """The task as it was before the message, then its updates, to the one that closes the stream."""
        place = await self._place(send.message, caller)
        told = await self._begin(place, send, caller)
        if isinstance(told, Message):
            yield told
            return
        log = place.log
        if place.task not in log.ids:
            log.submit(place.task, text_of(send.message), send.message.id)
        elif told or log.has_taken(place.key):
            log = await self._read(place.context, caller.hitl)
        task = with_history(self._known(log, place.task), send.history_length)
        if told:
            yield with_notice(task, told)
            return
        decided = frozenset(self._decisions(place, send.message, caller))
        async with aclosing(self._follow(log, task, place.key, decided)) as items:
            async for item in items:
                yield item

    async def get(self, request: GetTask, *, hitl: bool) -> Task:
        log = await self._read(context_of(request.id), hitl)
        return with_history(self._known(log, request.id), request.history_length)

    async def cancel(self, request: CancelTask, *, hitl: bool) -> Task:
        context = context_of(request.id)
        log = await self._read(context, hitl)
        state = self._known(log, request.id).status.state
        with as_a2a_error():
            if log.is_live(request.id):
                await self.agent.cancel(context)
            elif state in INTERRUPTED:
                # As a script says, for no run is going. That nobody will answer is on record only when the
                # conversation takes no more messages.
                await self.agent.complete(context)
            else:
                raise A2AError("TASK_NOT_CANCELABLE", f"the task is {state}, and nothing of it is going on")
        task = self._known(await self._read(context, hitl), request.id)
        if task.status.state != "canceled":
            raise A2AError("TASK_NOT_CANCELABLE", f"the task is {task.status.state}")
        return task

    async def subscribe(self, request: Subscribe, *, hitl: bool) -> AsyncGenerator[StreamItem, None]:
        log = await self._read(context_of(request.id), hitl)
        task = self._known(log, request.id)
        if task.status.state in TERMINAL:
            raise A2AError("UNSUPPORTED_OPERATION", f"the task is {task.status.state}")
        async with aclosing(self._follow(log, task)) as items:
            async for item in items:
                yield item

    async def list(self, request: ListTasks, *, hitl: bool) -> TaskPage:
        contexts = [request.context] if request.context is not None else await self._contexts()
        tasks: list[Task] = []
        for context in contexts:
            try:
                log = await self._fold(context, hitl)
            except A2AError:
                continue
            tasks += filter(None, map(log.task, log.ids))
        found = [task for task in tasks if matches(task, request)]
        found.sort(key=lambda task: (task.status.at or 0.0, task.id), reverse=True)
        first = page_offset(request.page_token)
        page = [with_history(task, request.history_length) for task in found[first:][: request.page_size]]
        following = first + len(page)
        token = str(following) if following < len(found) else ""
        shown = page if request.artifacts else [attrs.evolve(task, artifacts=()) for task in page]
        return TaskPage(shown, token, request.page_size, len(found))

    # ---------------------------------------------------------------- where a message goes

    async def _place(self, message: Message, caller: Caller) -> _Place:
        key = caller.key or str(uuid.uuid4())
        if message.task is None:
            if caller.key is None and message.context is None:  # there can be no such context yet
                context = str(uuid.uuid4())
                concerns(context, caller.session_id)
                return _Place(context, key, TaskLog(context, caller.hitl))
            return await self._new_task(message, key, caller.hitl)
        context = context_of(message.task)
        # Section 3.4.3; version 0.3 says nothing of a context that is not that of the task.
        if caller.is_v1 and message.context not in (None, context):
            raise invalid("message.contextId", "is not that of the task")
        log = await self._read(context, caller.hitl)
        self._known(log, message.task)
        return _Place(message.task, key, log)

    async def _new_task(self, message: Message, key: str, hitl: bool) -> _Place:
        context = message.context or str(uuid.uuid5(_NAMESPACE, key))
        if not CONTEXT.fullmatch(context):
            raise invalid("message.contextId", "has other characters than letters, digits, '.', '_' and '-'")
        is_new = False
        try:
            log = await self._read(context, hitl)
        except A2AError as error:
            if error.reason != "TASK_NOT_FOUND":
                raise
            log, is_new = TaskLog(context, hitl), True
        later = f"{context}~{hashlib.sha256(key.encode()).hexdigest()[:8]}"
        task = log.commands.get(key) or (later if log.ids else context)
        return _Place(task, key, log, is_new)

    async def _begin(self, place: _Place, send: Send, caller: Caller) -> str | Message | None:
        """Carry it out; what it says of push notifications counts from before the message."""
        config, push = send.push, self.push
        if config is None or push is None:
            return await self._carry_out(place, send, caller)
        await push.check(config)
        # The task has to be there first, and must not be over by then; with its key, the message is the same.
        told = await self._carry_out(place, attrs.evolve(send, wait=False), caller)
        if told is not None:
            return told
        log, config = place.log, attrs.evolve(config, task=place.task)
        task = log.task(place.task) if log.has_taken(place.key) else None
        is_over = task is not None and task.status.state in TERMINAL
        by = SetBy(caller.is_v1, caller.hitl, caller.peer)
        await push.set(config, by, after=log.last_seq, is_over=is_over)
        return await self._carry_out(place, send, caller) if send.wait and not send.stream else None

    async def _carry_out(self, place: _Place, send: Send, caller: Caller) -> str | Message | None:
        """None: done. A text: the message led to nothing. A message: the same, and there is no task."""
        log, message = place.log, send.message
        if place.key not in log.commands:
            if place.key in log.resumed:
                return await self._resume(place, send, caller)
            decisions = self._decisions(place, message, caller)
            if {asked.id for asked in log.decided.get(place.key, ())} - decisions.keys():
                raise A2AError("INVALID_PARAMS", "this key came with another message before")
            if decisions:
                await self._decide(decisions, place, send, caller)
                return None
            state = self._refuse(place, message, caller)
            if state == "input-required" and log.is_live(place.task):
                return UNDECIDED
            if state == "auth-required" and log.is_live(place.task):
                return await self._resume(place, send, caller)
        result = await self._say(text_of(message), place, send, caller)
        if result is not None and result.code == "waiting_approval" and result.state == "waiting":
            return await self._not_begun(place, result.response)
        return None

    def _decisions(self, place: _Place, message: Message, caller: Caller) -> Decisions:
        """Those that a message brings; a message that begins a run brings none."""
        log = place.log
        if place.key in log.commands or place.task not in log.ids:
            return {}
        repeated = log.decided.get(place.key, ())
        pending = repeated or (log.pending if log.is_live(place.task) else ())
        named = named_decisions(message, pending)
        of_another = {asked.id for asked in log.pending if asked not in pending}
        if named and (pending or log.asked.keys() & named.keys() - of_another):  # else it is like any other
            return named
        if len(pending) != 1 or caller.hitl:
            return {}
        words = decision_in_words(message, pending[0])
        return {pending[0].id: words} if words is not None else {}

    def _refuse(self, place: _Place, message: Message, caller: Caller) -> State | None:
        """The state of the task, None: it is new. Raises `A2AError` when it takes no message."""
        task = place.log.task(place.task)
        if task is None:
            return None
        state = task.status.state
        if state in TERMINAL and not caller.continues:
            raise A2AError(
                "UNSUPPORTED_OPERATION", f"the task is {state}; a message without its id begins another"
            )
        late = place.log.asked and not place.log.pending and is_yes_or_no(word_of(message) or "")
        if late and place.log.is_live(place.task):
            raise A2AError("UNSUPPORTED_OPERATION", "the task has no open question; all have been answered")
        return state

    async def _say(self, text: str, place: _Place, send: Send, caller: Caller) -> Result | None:
        message, context = send.message, place.context
        with as_a2a_error():
            if message.task is None and message.context is None:
                turn = await self.agent.start_conversation(
                    text,
                    id=context,
                    key=place.key,
                    session_id=caller.session_id,
                    token=caller.token,
                    wait=send.wait and not send.stream,
                    message_id=message.id or None,
                )
            else:
                if place.is_new:
                    await self._make_context(context, caller.session_id)
                turn = await self.agent.send(
                    context,
                    text,
                    key=place.key,
                    token=caller.token,
                    wait=send.wait and not send.stream,
                    task=None if place.task == context else place.task,
                    message_id=message.id or None,
                )
        return turn.result

    async def _make_context(self, context: str, session_id: str) -> None:
        """So that a message to a context is the same command whether it came first or not."""
        try:
            await self.agent.start_conversation(id=context, key=f"{context}:context", session_id=session_id)
        except AgentError as error:
            if error.code != "idempotency_key_reused":  # another client has just made it
                raise

    async def _decide(self, decisions: Decisions, place: _Place, send: Send, caller: Caller) -> None:
        """None of several, if one is no decision. All but the last are not waited for: the run goes on when
        all are there."""
        asked, pending = place.log.asked, {each.id for each in place.log.pending}
        if unknown := decisions.keys() - asked.keys():
            raise invalid("message.parts", f"the task has no approval {min(unknown)[:64]}")
        ids = sorted(decisions, key=pending.__contains__)  # what stands is told before anything is done
        with as_a2a_error():
            for id in ids if len(ids) > 1 else ():
                await asked[id].checked(asked[id].parse(decisions[id]), pending=id in pending)
            for id in ids:
                key, wait = f"{place.key}:{id}", send.wait and not send.stream and id == ids[-1]
                await self.agent.decide(id, decisions[id], key=key, token=caller.token, wait=wait)

    async def _resume(self, place: _Place, send: Send, caller: Caller) -> str | None:
        """A message to a task that needs a token brings one, and is no message of its own."""
        if caller.token is None:
            return UNDECIDED
        with as_a2a_error():
            wait = send.wait and not send.stream
            await self.agent.resume(place.context, token=caller.token, key=place.key, wait=wait)
        return None

    async def _not_begun(self, place: _Place, text: str) -> str | Message:
        log = await self._read(place.context, False)
        if log.is_live(place.task):
            return UNDECIDED
        waiting = tuple(id for id in log.ids if log.is_live(id))
        parts = (Text(text),)
        return Message(
            id=str(uuid.uuid4()), role="agent", parts=parts, context=log.context, references=waiting
        )

    # ------------------------------------------------------------------------- reading

    async def _read(self, context: str, hitl: bool) -> TaskLog:
        """The tasks of the conversation that the request is about."""
        log = await self._fold(context, hitl)
        concerns(context, log.session_id)
        return log

    async def _fold(self, context: str, hitl: bool) -> TaskLog:
        """The tasks of a conversation as they are now."""
        return await read_tasks(self.agent, context, hitl=hitl)

    async def _follow(
        self, read: TaskLog, known: Task, key: str | None = None, decided: Set[str] = frozenset()
    ) -> AsyncGenerator[StreamItem, None]:
        """`known`, a task as it was after `read`, then what changed since.

        With a key, the stream stays open until the conversation has taken that message, and with it the
        decisions about these approvals. Without one, a task that waits is worth following (section 3.1.6).
        """
        yield known
        if key is not None and ends_stream(known.status.state) and read.has_taken(key, decided):
            return
        log = TaskLog(read.context, read.hitl)
        with as_a2a_error():
            async with aclosing(entries(self.agent, read.context)) as found:
                async for entry in found:
                    for update in log.apply(entry):
                        if entry.seq <= read.last_seq or update.task != known.id:
                            continue
                        match update:
                            case StatusUpdate(status=Status(state=state)) if ends_stream(state) and (
                                key is None or log.has_taken(key, decided)
                            ):
                                yield attrs.evolve(update, final=True)
                                return
                            case _:
                                yield update

    def _known(self, log: TaskLog, id: str) -> Task:
        return known_task(log, id)

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
