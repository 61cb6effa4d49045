"""The part of a task that a request asks for, and pages of tasks. Pure."""

from __future__ import annotations

import attrs

from ...actors.a2a.remote_state import size_of
from ...actors.a2a.wire.a2a_errors import invalid
from ...actors.a2a.wire.task import TERMINAL, ListTasks, Message, State, Status, Task, Text


def context_of(task: str) -> str:
    """The conversation that a task belongs to."""
    return task.partition("~")[0]


def ends_stream(state: State) -> bool:
    """Whether this state ends a stream. A task that needs a token stays in it (section 7.6)."""
    return state in TERMINAL or state == "input-required"


def with_history(task: Task, length: int | None) -> Task:
    """The task with at most `length` messages, the newest ones; None: all."""
    if length is None or len(task.history) <= length:
        return task
    return attrs.evolve(task, history=tuple(task.history)[len(task.history) - length :])


def with_notice(task: Task, text: str) -> Task:
    """The task with a sentence in front of its status message."""
    status = task.status
    message = status.message or Message(
        id=f"{task.id}:notice", role="agent", parts=(), task=task.id, context=task.context
    )
    message = attrs.evolve(message, parts=(Text(text), *message.parts))
    return attrs.evolve(task, status=Status(status.state, status.at, message))


def size_of_task(task: Task) -> int:
    """About the bytes of a task in an answer."""
    said = task.status.message
    containers = (*task.history, *task.artifacts, *(() if said is None else (said,)))
    return sum(size_of(part) for container in containers for part in container.parts)


def matches(task: Task, request: ListTasks) -> bool:
    return (request.state is None or task.status.state == request.state) and (
        request.since is None or (task.status.at or 0.0) >= request.since
    )


def page_offset(token: str) -> int:
    """The index of a page's first task. Raises `A2AError` INVALID_PARAMS."""
    if not token:
        return 0
    if not (token.isascii() and token.isdigit()) or len(token) > 9:
        raise invalid("pageToken", "is not valid for this list")
    return int(token)
