"""Reading of tasks from a conversation's events."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing

from ...actors.a2a.wire.a2a_errors import A2AError
from ...actors.a2a.wire.task import Task
from ...actors.agent.agent import Agent
from ...actors.common.errors import journal_as_agent_error
from ...actors.log.words.event_json import decode
from ...actors.log.words.events import Entry
from ...runtime.journal.errors import Reading
from ..http.request import set_conversation
from .as_a2a_error import as_a2a_error
from .task_log import TaskLog


async def read_tasks(agent: Agent, context: str, *, hitl: bool = False) -> TaskLog:
    """The current tasks of a conversation. Raises `A2AError`."""
    log = TaskLog(context, hitl)
    with as_a2a_error():
        # Read before the events, because a command is removed from the inbox in the commit of its first
        # event; in the other order it could be missing from both.
        queued = await agent.inbox(context)
        async with aclosing(entries(agent, context, (await agent.log_end(context)).last_seq)) as found:
            async for entry in found:
                log.apply(entry)
    for received in queued:
        log.queue(received)
    return log


async def read_own_tasks(agent: Agent, context: str, *, hitl: bool = False) -> TaskLog:
    """`read_tasks` for the conversation of the current request. Raises `A2AError`."""
    log = await read_tasks(agent, context, hitl=hitl)
    set_conversation(context, log.session_id)
    return log


async def entries(agent: Agent, context: str, end: int | None = None) -> AsyncGenerator[Entry, None]:
    """The events of a conversation, past and future, or up to `end`. Raises `AgentError`."""
    if end == 0:
        return
    async with aclosing(agent.events(context)) as events:
        async for event in events:
            with journal_as_agent_error(), Reading(context, f"event {event.seq}"):
                entry = decode(event)
            yield entry
            if event.seq == end:
                return


def known_task(log: TaskLog, id: str) -> Task:
    """The task with this id. Raises `A2AError` TASK_NOT_FOUND."""
    task = log.task(id)
    if task is None:
        raise A2AError("TASK_NOT_FOUND", "Task not found")
    return task
