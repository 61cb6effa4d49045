"""The objects of A2A as JSON, for all versions. Pure.

`ObjectCodec` has a field for each difference between the versions: the spelling of states and roles, the form
of parts, names of fields. The codec of a version creates one and adds its methods.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal, TypeAlias, assert_never, get_args

import attrs

from .a2a_errors import A2AError
from .fields import Fields
from .task import (
    Artifact,
    ArtifactUpdate,
    Data,
    ListTasks,
    Message,
    Part,
    Send,
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

_STATES: Mapping[str, State] = {**{state: state for state in get_args(State)}, "cancelled": "canceled"}
_ROLES: Mapping[str, Role] = {role: role for role in get_args(Role)}


def filled(**fields: Any) -> Json:
    """The optional fields, without None, false and empty values."""
    return {name: value for name, value in fields.items() if value}


def given(**fields: Any) -> Json:
    """The optional fields, without None. Here 0 is a value."""
    return {name: value for name, value in fields.items() if value is not None}


@attrs.frozen(kw_only=True)
class ObjectCodec:
    """Reads and writes the objects in the spelling of one version.

    Requests are read strictly, as the specification demands. Answers are read tolerantly, because few agents
    are without mistakes: only necessary fields are required, states and roles may be spelled as in any
    version, and a part of an unknown kind becomes data.

    Methods that read raise A2AError: INVALID_PARAMS.
    """

    states: Mapping[State, str]
    roles: Mapping[Role, str]
    write_part: Callable[[Part], Json]
    read_part: Callable[[Fields], Part]
    parts: str = "parts"
    """Name of the parts in a message. In an artifact it is always `parts`."""
    references: bool = True
    """Whether a message has `referenceTaskIds`."""
    kinds: bool = False
    """Whether an object has a `kind`."""
    final: bool = False
    """Whether a status update has `final`."""

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
        """An item of a stream, without an object around it."""
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
        """An item of a stream, in an object whose only field names its type."""
        return {_WRAPPERS[type(item)]: self.item(item)}

    def page(self, page: TaskPage) -> Json:
        """A page of tasks. All four fields are required, even if empty."""
        return {
            "tasks": [self.task(task) for task in page.tasks],
            "nextPageToken": page.next,
            "pageSize": page.page_size,
            "totalSize": page.total,
        }

    def write_send(self, send: Send, options: Json) -> Json:
        """The parameters of a request to send. `options`: the options whose names depend on the version."""
        configuration = {
            **options,
            **filled(acceptedOutputModes=list(send.modes)),
            **given(historyLength=send.history_length),
        }
        return {
            "message": self.message(send.message),
            **filled(configuration=configuration, metadata=send.metadata),
        }

    def write_list(self, request: ListTasks) -> Json:
        return {
            "pageSize": request.page_size,
            **filled(
                contextId=request.context,
                status=None if request.state is None else self.states[request.state],
                statusTimestampAfter=None if request.since is None else write_time(request.since),
                pageToken=request.page_token,
                includeArtifacts=request.artifacts,
            ),
            **given(historyLength=request.history_length),
        }

    def _kind(self, kind: str) -> Json:
        return {"kind": kind} if self.kinds else {}

    # ---------------------------------------------------------- reading requests

    def read_message(self, fields: Fields) -> Message:
        """Read a client's message, which needs an id, the role of a user and at least one part."""
        fields.required("messageId")
        user = self.roles["user"]
        if fields.required("role") != user:
            raise fields.error("role", f"must be {user}")
        parts = fields.children(self.parts)
        if not parts:
            raise fields.error(self.parts, "must hold at least one part")
        return self._message(fields, "user", tuple(self.read_part(part) for part in parts))

    def _message(self, fields: Fields, role: Role, parts: tuple[Part, ...]) -> Message:
        return Message(
            id=fields.text("messageId") or "",
            role=role,
            parts=parts,
            task=fields.text("taskId"),
            context=fields.text("contextId"),
            references=fields.strings("referenceTaskIds"),
            extensions=fields.strings("extensions"),
            metadata=fields.struct("metadata"),
        )

    def read_list(self, fields: Fields) -> ListTasks:
        # In ProtoJSON, the unspecified state means that there is no filter.
        unspecified = fields.value("status") == "TASK_STATE_UNSPECIFIED"
        states: dict[str, State] = {word: state for state, word in self.states.items()}
        return ListTasks(
            context=fields.text("contextId"),
            state=None if unspecified else fields.choice("status", states),
            since=fields.time("statusTimestampAfter"),
            page_size=fields.integer("pageSize", minimum=1, maximum=MAX_PAGE) or DEFAULT_PAGE,
            page_token=fields.text("pageToken") or "",
            history_length=fields.integer("historyLength"),
            artifacts=fields.flag("includeArtifacts") or False,
        )

    # ----------------------------------------------------------- reading answers

    def read_item(self, fields: Fields) -> StreamItem:
        """Read an answer or an item of a stream. Its type follows from its `kind`, the object around it, or
        its fields."""
        type_ = fields.choice("kind", _KINDS)
        if type_ is None:
            for wrapped, name in _WRAPPERS.items():
                if inner := fields.child(name):
                    return _READERS[wrapped](self, inner)
        return _READERS[type_ or _type_of(fields)](self, fields)

    def read_task(self, fields: Fields) -> Task:
        """Read a task. The context of a task without one is its id."""
        id = fields.required("id")
        return Task(
            id=id,
            context=fields.text("contextId") or id,
            status=self.read_status(fields.required_child("status")),
            artifacts=tuple(map(self.read_artifact, fields.children("artifacts"))),
            history=tuple(map(self.read_answered_message, fields.children("history"))),
            metadata=fields.struct("metadata"),
        )

    def read_status(self, fields: Fields) -> Status:
        state = _STATES.get(_plain(fields.required("state"), "TASK_STATE_"))
        if state is None:
            raise fields.error("state", "is not known")
        message = fields.child("message")
        return Status(state, _time(fields), None if message is None else self.read_answered_message(message))

    def read_artifact(self, fields: Fields) -> Artifact:
        return Artifact(
            id=fields.text("artifactId") or "",
            name=fields.text("name"),
            description=fields.text("description"),
            parts=self._read_parts(fields, "parts"),
            extensions=fields.strings("extensions"),
            metadata=fields.struct("metadata"),
        )

    def read_answered_message(self, fields: Fields) -> Message:
        """Read a message in an answer. Without a role, it is the agent's."""
        role = _ROLES.get(_plain(fields.text("role") or "agent", "ROLE_"))
        if role is None:
            raise fields.error("role", "is not known")
        parts = self.parts if fields.has(self.parts) else "parts"
        return self._message(fields, role, self._read_parts(fields, parts))

    def read_page(self, fields: Fields) -> TaskPage:
        tasks = tuple(map(self.read_task, fields.children("tasks")))
        return TaskPage(
            tasks,
            fields.text("nextPageToken") or "",
            fields.integer("pageSize") or len(tasks),
            fields.integer("totalSize") or len(tasks),
        )

    def read_status_update(self, fields: Fields) -> StatusUpdate:
        task = fields.required("taskId")
        return StatusUpdate(
            task=task,
            context=fields.text("contextId") or task,
            status=self.read_status(fields.required_child("status")),
            final=fields.flag("final") or False,
            metadata=fields.struct("metadata"),
        )

    def read_artifact_update(self, fields: Fields) -> ArtifactUpdate:
        task = fields.required("taskId")
        return ArtifactUpdate(
            task=task,
            context=fields.text("contextId") or task,
            artifact=self.read_artifact(fields.required_child("artifact")),
            append=fields.flag("append") or False,
            last=fields.flag("lastChunk") or False,
            metadata=fields.struct("metadata"),
        )

    def _read_parts(self, fields: Fields, name: str) -> tuple[Part, ...]:
        return tuple(map(self._read_any_part, fields.children(name)))

    def _read_any_part(self, fields: Fields) -> Part:
        try:
            return self.read_part(fields)
        except A2AError:
            return Data(fields.json)


def _plain(word: str, prefix: str) -> str:
    """A state or a role in small letters, which is one spelling for all versions."""
    return word.removeprefix(prefix).lower().replace("_", "-")


def _time(fields: Fields) -> float | None:
    """The time of a status; None if it is invalid. Many agents omit the offset."""
    try:
        return fields.time("timestamp")
    except A2AError:
        return None


def _type_of(fields: Fields) -> type[StreamItem]:
    """The type of an object by its fields. Other versions may add fields."""
    if fields.has("status"):
        return Task if fields.has("id") else StatusUpdate
    if fields.has("artifact"):
        return ArtifactUpdate
    if fields.has("role") or fields.has("parts"):
        return Message
    raise fields.error("kind", "is neither a task, nor a message, nor an update")


_WRAPPERS: Mapping[type[StreamItem], str] = {
    Task: "task",
    Message: "message",
    StatusUpdate: "statusUpdate",
    ArtifactUpdate: "artifactUpdate",
}

_KINDS: Mapping[str, type[StreamItem]] = {
    "task": Task,
    "message": Message,
    "status-update": StatusUpdate,
    "artifact-update": ArtifactUpdate,
}
_READERS: Mapping[type[StreamItem], Callable[[ObjectCodec, Fields], StreamItem]] = {
    Task: ObjectCodec.read_task,
    Message: ObjectCodec.read_answered_message,
    StatusUpdate: ObjectCodec.read_status_update,
    ArtifactUpdate: ObjectCodec.read_artifact_update,
}
