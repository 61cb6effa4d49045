"""The methods of A2A about tasks.

A task is a view of its conversation's events (`task_log`). Each answer is folded from them, and a stream is
the state after one event, followed by the updates of the later ones. An answer therefore never contradicts
the journal, and all streams agree.

A context is a conversation. Its first task has the id of the conversation; the ids of later tasks begin with
that id, so no index is needed to find them.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence, Set
from contextlib import aclosing

import attrs
import trio

from ...actors.a2a.wire.a2a_errors import A2AError
from ...actors.a2a.wire.a2a_headers import LOOK
from ...actors.a2a.wire.task import (
    INTERRUPTED,
    TERMINAL,
    CancelTask,
    GetTask,
    ListTasks,
    Message,
    Send,
    Status,
    StatusUpdate,
    StreamItem,
    Subscribe,
    Task,
    TaskPage,
)
from ...actors.agent.agent import Agent
from ...actors.approvals.proxy_approval import ProxyQuestion
from ...runtime.journal.question import MOST_BYTES
from .as_a2a_error import as_a2a_error
from .message_content import content_of
from .message_delivery import Caller, conversations_of, deliver_to
from .push import PushNotifier
from .task_events import entries, known_task, read_own_tasks, read_tasks
from .task_log import TaskLog
from .task_page import context_of, ends_stream, matches, page_offset, size_of_task, with_history, with_notice

MOST_LISTED = 1000
"""Conversations that a list without a context covers, the newest first."""


LOOK_TIME = 3.0
"""Seconds to check a task's questions at other agents; less than the requesting agent waits."""


@attrs.frozen
class TaskServer:
    """Methods raise `A2AError`; streams raise it only before the first item."""

    agent: Agent
    push: PushNotifier | None = None

    async def send(self, send: Send, caller: Caller) -> Task | Message:
        delivery = await deliver_to(self.agent, self.push, send, caller)
        notice = await delivery.carry_out()
        if isinstance(notice, Message):
            return notice
        log = await read_own_tasks(self.agent, delivery.log.context, hitl=caller.hitl)
        task = with_history(known_task(log, delivery.task), send.history_length)
        return log.message(delivery.task) or (with_notice(task, notice) if notice else task)

    async def stream(self, send: Send, caller: Caller) -> AsyncGenerator[StreamItem, None]:
        """The task after the message, then its updates, up to the one that ends the stream."""
        delivery = await deliver_to(self.agent, self.push, send, caller)
        notice = await delivery.carry_out()
        if isinstance(notice, Message):
            yield notice
            return
        log = delivery.log
        decided = frozenset(delivery.decisions())
        if notice or delivery.task in log.ids or log.has_taken(delivery.key):
            log = await read_own_tasks(self.agent, delivery.log.context, hitl=caller.hitl)
        else:
            log.submit(delivery.task, content_of(send.message).text, send.message.id)
        task = with_history(known_task(log, delivery.task), send.history_length)
        if notice:
            yield with_notice(task, notice)
            return
        async with aclosing(self._follow(log, task, delivery.key, decided)) as items:
            async for item in items:
                yield item

    async def get(self, request: GetTask, *, hitl: bool, with_pending: bool = False) -> Task:
        """`with_pending`: put the ids of the open questions into the metadata, in any state."""
        log = await read_own_tasks(self.agent, context_of(request.id), hitl=hitl)
        task = with_history(known_task(log, request.id), request.history_length)
        if not with_pending:
            return task
        pending = [asked.id for asked in log.pending] if log.is_live(request.id) else []
        return attrs.evolve(task, metadata={**(task.metadata or {}), LOOK: {"pending": pending}})

    async def look(self, request: GetTask) -> None:
        """Void the proxy questions of the task that the remote agents have withdrawn."""
        log = await read_own_tasks(self.agent, context_of(request.id))
        if not log.is_live(request.id):
            return
        with trio.move_on_after(LOOK_TIME), as_a2a_error():
            for asked in log.pending:
                if isinstance(asked, ProxyQuestion):
                    await self.agent.look_at(asked.id)

    async def cancel(self, request: CancelTask, *, hitl: bool) -> Task:
        context = context_of(request.id)
        log = await read_own_tasks(self.agent, context, hitl=hitl)
        state = known_task(log, request.id).status.state
        with as_a2a_error():
            if (run := log.live_run(request.id)) is not None:
                await self.agent.cancel(context, run=run)
            elif state in INTERRUPTED:
                # A script dictated this state and no run is live. Only completing the conversation records
                # that no answer will come.
                await self.agent.complete(context)
            else:
                raise A2AError("TASK_NOT_CANCELABLE", f"the task is {state} and has no run to cancel")
        task = known_task(await read_own_tasks(self.agent, context, hitl=hitl), request.id)
        # The task may continue with a queued message; its new state is then the answer.
        if task.status.state in TERMINAL - {"canceled"}:
            raise A2AError("TASK_NOT_CANCELABLE", f"the task is {task.status.state}")
        return task

    async def subscribe(self, request: Subscribe, *, hitl: bool) -> AsyncGenerator[StreamItem, None]:
        log = await read_own_tasks(self.agent, context_of(request.id), hitl=hitl)
        task = known_task(log, request.id)
        if task.status.state in TERMINAL:
            raise A2AError("UNSUPPORTED_OPERATION", f"the task is {task.status.state}")
        async with aclosing(self._follow(log, task)) as items:
            async for item in items:
                yield item

    async def list(self, request: ListTasks, *, hitl: bool) -> TaskPage:
        first = page_offset(request.page_token)
        if request.context is None:
            contexts = await self._contexts()
        else:
            contexts = tuple(dict.fromkeys(conversations_of(self.agent, request.context)))
        found: list[tuple[float, str]] = []
        for context in contexts:
            found += [(task.status.at or 0.0, task.id) for task in await self._matching(context, request)]
        found.sort(reverse=True)
        following = first + request.page_size
        ids = [id for _, id in found[first:following]]
        # Read again, because all tasks of all conversations would not fit into memory.
        page: dict[str, Task] = {}
        read: set[str] = set()
        left = MOST_BYTES
        for number, id in enumerate(ids, 1):
            if (context := context_of(id)) not in read:
                read.add(context)
                for task in await self._matching(context, request, hitl=hitl):
                    if task.id in ids:
                        shown = task if request.artifacts else attrs.evolve(task, artifacts=())
                        page[task.id] = with_history(shown, request.history_length)
                        left -= size_of_task(page[task.id])
            if left <= 0:  # the page ends early
                ids, following = ids[:number], first + number
                break
        token = str(following) if following < len(found) else ""
        return TaskPage([page[id] for id in ids if id in page], token, request.page_size, len(found))

    # ------------------------------------------------------------------------- reading

    async def _matching(self, context: str, request: ListTasks, *, hitl: bool = False) -> Sequence[Task]:
        """The tasks of a conversation that match; none if the conversation cannot be read."""
        try:
            log = await read_tasks(self.agent, context, hitl=hitl)
        except A2AError:
            return ()
        return [task for task in map(log.task, log.ids) if task is not None and matches(task, request)]

    async def _follow(
        self, read: TaskLog, known: Task, key: str | None = None, decided: Set[str] = frozenset()
    ) -> AsyncGenerator[StreamItem, None]:
        """`known`, a task as of `read`, then its later updates.

        With a key, the stream stays open at least until the conversation has processed that message and the
        decisions about these approvals. Without a key, a waiting task can be followed, too (section 3.1.6).
        Raises `AgentError` after the first item, for example when the conversation is deleted.
        """
        yield known
        if key is not None and ends_stream(known.status.state) and read.has_taken(key, decided):
            return
        log = TaskLog(read.context, read.hitl)
        async with aclosing(entries(self.agent, read.context)) as found:
            async for entry in found:
                for update in log.apply(entry):
                    if entry.seq <= read.last_seq or update.task != known.id:
                        continue
                    match update:
                        case StatusUpdate(status=Status(state=state)) if state in INTERRUPTED and not (
                            key is None or log.has_taken(key, decided)
                        ):
                            pass  # the run has not yet seen the message
                        case StatusUpdate(status=Status(state=state)) if ends_stream(state) and (
                            key is None or log.has_taken(key, decided)
                        ):
                            yield attrs.evolve(update, final=True)
                            return
                        case _:
                            yield update

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
