"""The objects of A2A as JSON; how the versions differ in it is a value. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal, TypeAlias, assert_never

import attrs

from .fields import Fields
from .task import (
    Artifact,
    ArtifactUpdate,
    ListTasks,
    Message,
    Part,
    State,
    Status,
    StatusUpdate,
    StreamItem,
    Task,
    TaskPage,
)
from .timestamp import write_time

Json: TypeAlias = dict[str, Any]
Role: TypeAlias = Literal["user", "agent"]

DEFAULT_PAGE = 50
MAX_PAGE = 100


def filled(**fields: Any) -> Json:
    """The optional fields that say something: None, false and what is empty are left out."""
    return {name: value for name, value in fields.items() if value}


@attrs.frozen(kw_only=True)
class ObjectCodec:
    """The objects in the spelling of one version.

    Methods that read raise A2AError: INVALID_PARAMS.
    """

    states: Mapping[State, str]
    roles: Mapping[Role, str]
    write_part: Callable[[Part], Json]
    read_part: Callable[[Fields], Part]
    parts: str = "parts"
    """The field of a message; that of an artifact never differs."""
    references: bool = True
    """A message has `referenceTaskIds`."""
    kinds: bool = False
    """Each object tells its kind."""
    final: bool = False
    """An update of the status tells whether it is the last one."""

    # ------------------------------------------------------------------- writing

    def task(self, task: Task) -> Json:
        return {
            **self._kind("task"),
            "id": task.id,
            "contextId": task.context,
            "status": self.status(task.status),
            **filled(
                artifacts=[self.artifact(artifact) for artifact in task.artifacts],
                history=[self.message(message) for message in task.history],
                metadata=task.metadata,
            ),
        }

    def message(self, message: Message) -> Json:
        return {
            **self._kind("message"),
            "messageId": message.id,
            "role": self.roles[message.role],
            self.parts: [self.write_part(part) for part in message.parts],
            **filled(
                taskId=message.task,
                contextId=message.context,
                referenceTaskIds=list(message.references) if self.references else None,
                extensions=list(message.extensions),
                metadata=message.metadata,
            ),
        }

    def status(self, status: Status) -> Json:
        return {
            "state": self.states[status.state],
            **filled(
                timestamp=None if status.at is None else write_time(status.at),
                message=None if status.message is None else self.message(status.message),
            ),
        }

    def artifact(self, artifact: Artifact) -> Json:
        return {
            "artifactId": artifact.id,
            "parts": [self.write_part(part) for part in artifact.parts],
            **filled(
                name=artifact.name,
                description=artifact.description,
                extensions=list(artifact.extensions),
                metadata=artifact.metadata,
            ),
        }

    def item(self, item: StreamItem) -> Json:
        """An item of a stream, without anything around it."""
        match item:
            case Task():
                return self.task(item)
            case Message():
                return self.message(item)
            case StatusUpdate():
                return {
                    **self._kind("status-update"),
                    "taskId": item.task,
                    "contextId": item.context,
                    "status": self.status(item.status),
                    **({"final": item.final} if self.final else {}),
                    **filled(metadata=item.metadata),
                }
            case ArtifactUpdate():
                return {
                    **self._kind("artifact-update"),
                    "taskId": item.task,
                    "contextId": item.context,
                    "artifact": self.artifact(item.artifact),
                    **filled(append=item.append, lastChunk=item.last, metadata=item.metadata),
                }
            case _:
                assert_never(item)

    def wrapped(self, item: StreamItem) -> Json:
        """The same in an object whose only field tells what it is."""
        return {_WRAPPERS[type(item)]: self.item(item)}

    def page(self, page: TaskPage) -> Json:
        """All four fields are required, be they empty."""
        return {
            "tasks": [self.task(task) for task in page.tasks],
            "nextPageToken": page.next,
            "pageSize": page.page_size,
            "totalSize": page.total,
        }

    def _kind(self, kind: str) -> Json:
        return {"kind": kind} if self.kinds else {}

    # ------------------------------------------------------------------- reading

    def read_message(self, fields: Fields) -> Message:
        """What a client says: it has an id, the role of a user, and at least one part."""
        id = fields.needed("messageId")
        user = self.roles["user"]
        if fields.needed("role") != user:
            raise fields.refusal("role", f"must be {user}")
        parts = fields.children(self.parts)
        if not parts:
            raise fields.refusal(self.parts, "must hold at least one part")
        return Message(
            id=id,
            role="user",
            parts=tuple(self.read_part(part) for part in parts),
            task=fields.text("taskId"),
            context=fields.text("contextId"),
            references=fields.texts("referenceTaskIds"),
            extensions=fields.texts("extensions"),
            metadata=fields.struct("metadata"),
        )

    def read_list(self, fields: Fields) -> ListTasks:
        # As ProtoJSON has it, the unspecified state is no filter.
        unspecified = fields.value("status") == "TASK_STATE_UNSPECIFIED"
        states: dict[str, State] = {word: state for state, word in self.states.items()}
        return ListTasks(
            context=fields.text("contextId"),
            state=None if unspecified else fields.word("status", states),
            since=fields.time("statusTimestampAfter"),
            page_size=fields.whole("pageSize", least=1, most=MAX_PAGE) or DEFAULT_PAGE,
            page_token=fields.text("pageToken") or "",
            history_length=fields.whole("historyLength"),
            artifacts=fields.flag("includeArtifacts") or False,
        )


_WRAPPERS: Mapping[type[StreamItem], str] = {
    Task: "task",
    Message: "message",
    StatusUpdate: "statusUpdate",
    ArtifactUpdate: "artifactUpdate",
}
