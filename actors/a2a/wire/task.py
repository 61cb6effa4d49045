"""The objects of A2A, independent of the version. Pure.

The names are those of the specification (https://a2a-protocol.org, version 1.0.1, section 4). The codec of
each version writes and reads them as JSON.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeAlias

import attrs

State: TypeAlias = Literal[
    "submitted",
    "working",
    "input-required",
    "auth-required",
    "completed",
    "failed",
    "canceled",
    "rejected",
]

TERMINAL: frozenset[State] = frozenset({"completed", "failed", "canceled", "rejected"})
"""Final states."""

INTERRUPTED: frozenset[State] = frozenset({"input-required", "auth-required"})
"""States in which a task waits for its client."""


@attrs.frozen
class Text:
    text: str
    media_type: str | None = None
    filename: str | None = None
    metadata: Mapping[str, Any] | None = None


@attrs.frozen
class File:
    """The content of a file."""

    content: str
    """The bytes in base64."""
    media_type: str | None = None
    filename: str | None = None
    metadata: Mapping[str, Any] | None = None


@attrs.frozen
class Link:
    """The address of a file."""

    url: str
    media_type: str | None = None
    filename: str | None = None
    metadata: Mapping[str, Any] | None = None


@attrs.frozen
class Data:
    data: Any
    """JSON of any shape."""
    media_type: str | None = None
    filename: str | None = None
    metadata: Mapping[str, Any] | None = None


Part: TypeAlias = Text | File | Link | Data


@attrs.frozen(kw_only=True)
class Message:
    id: str
    role: Literal["user", "agent"]
    parts: Sequence[Part]
    task: str | None = None
    context: str | None = None
    references: Sequence[str] = ()
    """Ids of other tasks that the message refers to."""
    extensions: Sequence[str] = ()
    metadata: Mapping[str, Any] | None = None


@attrs.frozen
class Status:
    state: State
    at: float | None = None
    """UTC seconds."""
    message: Message | None = None


@attrs.frozen(kw_only=True)
class Artifact:
    id: str
    name: str | None = None
    description: str | None = None
    parts: Sequence[Part]
    extensions: Sequence[str] = ()
    metadata: Mapping[str, Any] | None = None


@attrs.frozen(kw_only=True)
class Task:
    id: str
    context: str
    status: Status
    artifacts: Sequence[Artifact] = ()
    history: Sequence[Message] = ()
    metadata: Mapping[str, Any] | None = None


@attrs.frozen(kw_only=True)
class StatusUpdate:
    task: str
    context: str
    status: Status
    final: bool = False
    """Whether this is the last event of its stream. Version 1.0 has no such field and closes the stream
    instead."""
    metadata: Mapping[str, Any] | None = None


@attrs.frozen(kw_only=True)
class ArtifactUpdate:
    task: str
    context: str
    artifact: Artifact
    append: bool = False
    """Whether the parts continue the artifact with the same id."""
    last: bool = True
    """Whether the artifact is complete."""
    metadata: Mapping[str, Any] | None = None


Update: TypeAlias = StatusUpdate | ArtifactUpdate
StreamItem: TypeAlias = Task | Message | Update


@attrs.frozen(kw_only=True)
class PushConfig:
    """The address for push notifications of a task."""

    task: str
    id: str
    url: str
    token: str | None = attrs.field(default=None, repr=False)
    scheme: str | None = None
    credentials: str | None = attrs.field(default=None, repr=False)


# ------------------------------------------------------------------------ requests


@attrs.frozen(kw_only=True)
class Send:
    """Send a message, which starts a task or continues one."""

    message: Message
    wait: bool = True
    """Answer only when the task has ended or waits for its client."""
    history_length: int | None = None
    modes: Sequence[str] = ()
    """Media types that the client accepts; empty: all."""
    push: PushConfig | None = None
    """Its `task` is empty."""
    metadata: Mapping[str, Any] | None = None
    stream: bool = False


@attrs.frozen
class GetTask:
    id: str
    history_length: int | None = None


@attrs.frozen(kw_only=True)
class ListTasks:
    context: str | None = None
    state: State | None = None
    since: float | None = None
    """Earliest time of the status, in UTC seconds."""
    page_size: int = 50
    page_token: str = ""
    history_length: int | None = None
    artifacts: bool = False


@attrs.frozen
class CancelTask:
    id: str


@attrs.frozen
class Subscribe:
    id: str


@attrs.frozen
class SetPush:
    config: PushConfig


@attrs.frozen
class GetPush:
    task: str
    id: str | None
    """None: the first one (version 0.3)."""


@attrs.frozen
class ListPush:
    task: str


@attrs.frozen
class DeletePush:
    task: str
    id: str


@attrs.frozen
class GetCard:
    """Get the card for authenticated clients."""


Request: TypeAlias = (
    Send | GetTask | ListTasks | CancelTask | Subscribe | SetPush | GetPush | ListPush | DeletePush | GetCard
)


ClientRequest: TypeAlias = Send | GetTask | ListTasks | CancelTask | Subscribe
"""The requests that this agent sends to other agents."""


@attrs.frozen
class TaskPage:
    tasks: Sequence[Task]
    next: str
    """The token of the next page; empty: there is none."""
    page_size: int
    total: int


Answer: TypeAlias = Task | Message | TaskPage | PushConfig | Sequence[PushConfig] | Mapping[str, Any] | None
"""The result of a request: `Mapping` is a card, None the result of `DeletePush`."""
