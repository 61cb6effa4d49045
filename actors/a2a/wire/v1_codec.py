"""The codec of A2A 1.0, for JSON-RPC and HTTP+JSON. Pure.

All JSON is the ProtoJSON of a2a.proto. Objects have no `kind`: a part is named by its content field (`text`,
`raw`, `url`, `data`), and an item of a stream or an answer to a message by the object around it. States and
roles are enum names (`TASK_STATE_WORKING`, `ROLE_USER`).

Source: version 1.0.1 of the specification, sections 4 (objects), 9.4 (JSON-RPC), 11 (HTTP+JSON), and its
a2a.proto.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, assert_never

from .a2a_errors import A2AError
from .fields import Fields
from .object_codec import Json, ObjectCodec, filled, given
from .task import (
    Answer,
    CancelTask,
    ClientRequest,
    Data,
    DeletePush,
    File,
    GetCard,
    GetPush,
    GetTask,
    Link,
    ListPush,
    ListTasks,
    Message,
    Part,
    PushConfig,
    Request,
    Send,
    SetPush,
    State,
    StreamItem,
    Subscribe,
    Task,
    TaskPage,
    Text,
)

STATES: Mapping[State, str] = {
    "submitted": "TASK_STATE_SUBMITTED",
    "working": "TASK_STATE_WORKING",
    "input-required": "TASK_STATE_INPUT_REQUIRED",
    "auth-required": "TASK_STATE_AUTH_REQUIRED",
    "completed": "TASK_STATE_COMPLETED",
    "failed": "TASK_STATE_FAILED",
    "canceled": "TASK_STATE_CANCELED",
    "rejected": "TASK_STATE_REJECTED",
}


def _write_part(part: Part) -> Json:
    match part:
        case Text(text=content):
            content_of = {"text": content}
        case File(content=content):
            content_of = {"raw": content}
        case Link(url=content):
            content_of = {"url": content}
        case Data(data=content):
            content_of = {"data": content}
        case _:
            assert_never(part)
    return {
        **content_of,
        **filled(mediaType=part.media_type, filename=part.filename, metadata=part.metadata),
    }


def _read_part(fields: Fields) -> Part:
    """Read a part. Null is a valid `data` unless another field has the content; some clients send all
    fields."""
    text, url, raw = fields.string("text"), fields.string("url"), fields.base64("raw")
    given = [name for name in ("text", "raw", "url", "data") if fields.value(name) is not None]
    if len(given) > 1:
        raise fields.error(given[1], f"must not stand beside {given[0]}")
    if not given and not fields.has("data"):
        raise fields.error("text", "is required, or raw, url or data")
    about: Json = {
        "media_type": fields.text("mediaType"),
        "filename": fields.text("filename"),
        "metadata": fields.struct("metadata"),
    }
    if text is not None:
        return Text(text, **about)
    if raw is not None:
        return File(raw, **about)
    if url is not None:
        return Link(url, **about)
    return Data(fields.value("data"), **about)


OBJECTS = ObjectCodec(
    states=STATES,
    roles={"user": "ROLE_USER", "agent": "ROLE_AGENT"},
    write_part=_write_part,
    read_part=_read_part,
)


# ------------------------------------------------------------------------- requests


def read_request(method: str, params: object) -> Request:
    """Read the parameters of a method of JSON-RPC. HTTP+JSON has the same fields: `params` then has those of
    the body, the query and the path together.

    Raises:
        A2AError: METHOD_NOT_FOUND or INVALID_PARAMS.
    """
    reader = _READERS.get(method)
    if reader is None:
        raise A2AError("METHOD_NOT_FOUND", "Method not found")
    return reader(Fields({} if params is None else params))


def _send(fields: Fields, *, stream: bool = False) -> Send:
    options = fields.child_or_empty("configuration")
    push = options.child("taskPushNotificationConfig")
    return Send(
        message=OBJECTS.read_message(fields.required_child("message")),
        wait=not options.flag("returnImmediately"),
        history_length=options.integer("historyLength"),
        modes=options.strings("acceptedOutputModes"),
        push=None if push is None else _read_push(push, ""),
        metadata=fields.struct("metadata"),
        stream=stream,
    )


def _read_push(fields: Fields, task: str) -> PushConfig:
    authentication = fields.child_or_empty("authentication")
    return PushConfig(
        task=task,
        id=fields.text("id") or "",
        url=fields.required("url"),
        token=fields.text("token"),
        scheme=authentication.text("scheme"),
        credentials=authentication.text("credentials"),
    )


_READERS: Mapping[str, Callable[[Fields], Request]] = {
    "SendMessage": _send,
    "SendStreamingMessage": lambda fields: _send(fields, stream=True),
    "GetTask": lambda fields: GetTask(fields.required("id"), fields.integer("historyLength")),
    "ListTasks": OBJECTS.read_list,
    "CancelTask": lambda fields: CancelTask(fields.required("id")),
    "SubscribeToTask": lambda fields: Subscribe(fields.required("id")),
    "CreateTaskPushNotificationConfig": lambda fields: SetPush(_read_push(fields, fields.required("taskId"))),
    "GetTaskPushNotificationConfig": lambda fields: GetPush(fields.required("taskId"), fields.required("id")),
    "ListTaskPushNotificationConfigs": lambda fields: ListPush(fields.required("taskId")),
    "DeleteTaskPushNotificationConfig": lambda fields: DeletePush(
        fields.required("taskId"), fields.required("id")
    ),
    "GetExtendedAgentCard": lambda _: GetCard(),
}

METHODS = frozenset(_READERS)


def write_request(request: ClientRequest) -> tuple[str, Json]:
    """The method of a request and its parameters, in the form of `read_request`."""
    match request:
        case Send():
            push = None if request.push is None else _write_push(request.push)
            options = filled(returnImmediately=not request.wait, taskPushNotificationConfig=push)
            method = "SendStreamingMessage" if request.stream else "SendMessage"
            return method, OBJECTS.write_send(request, options)
        case GetTask():
            return "GetTask", {"id": request.id, **given(historyLength=request.history_length)}
        case ListTasks():
            return "ListTasks", OBJECTS.write_list(request)
        case CancelTask():
            return "CancelTask", {"id": request.id}
        case Subscribe():
            return "SubscribeToTask", {"id": request.id}
        case _:
            assert_never(request)


# -------------------------------------------------------------------------- answers


def write_answer(request: Request, answer: Answer) -> Any:
    """The result of a request. None becomes null in JSON-RPC and an empty object in HTTP+JSON."""
    match answer:
        case Task() if not isinstance(request, Send):
            return OBJECTS.task(answer)
        case Task() | Message():
            return OBJECTS.wrapped(answer)
        case TaskPage():
            return OBJECTS.page(answer)
        case PushConfig():
            return _write_push(answer)
        case Sequence():
            return {"configs": [_write_push(config) for config in answer]}
        case None | Mapping():
            return answer
        case _:
            assert_never(answer)


def write_item(item: StreamItem) -> Json:
    """An item of a stream (section 3.2.3)."""
    return OBJECTS.wrapped(item)


def write_notification(item: StreamItem) -> Json:
    """The body of a push notification (section 4.3.3)."""
    return OBJECTS.wrapped(item)


def _write_push(config: PushConfig) -> Json:
    authentication = filled(scheme=config.scheme, credentials=config.credentials)
    return {
        "url": config.url,
        **filled(id=config.id, taskId=config.task, token=config.token, authentication=authentication),
    }
