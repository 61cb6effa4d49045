"""The codec of A2A 0.3 for JSON-RPC. Pure.

Objects and parts have a `kind`; states and roles are lowercase words (`working`, `user`); the last update of
a stream has `final: true`. No method lists tasks.

Source: https://a2a-protocol.org/v0.3.0/specification, sections 6 (objects) and 7 (methods).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, assert_never, get_args

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

IN_OBJECT = "data_part_compat"
"""The key in a part's metadata that marks data wrapped as `{"value": data}`. Version 0.3 allows only objects
as data; the official SDKs send the other data of 1.0 in this way."""


def _write_part(part: Part) -> Json:
    match part:
        case Text():
            content: Json = {"kind": "text", "text": part.text}
        case File():
            content = {"kind": "file", "file": {"bytes": part.content, **file_fields(part)}}
        case Link():
            content = {"kind": "file", "file": {"uri": part.url, **file_fields(part)}}
        case Data():
            data, metadata = data_in_object(part)
            return {"kind": "data", "data": data, **filled(metadata=metadata)}
        case _:
            assert_never(part)
    return {**content, **filled(metadata=part.metadata)}


def file_fields(part: File | Link) -> Json:
    """Return the optional fields of a file, which do not depend on the form of its content."""
    return filled(mimeType=part.media_type, name=part.filename)


def data_in_object(part: Data) -> tuple[Mapping[str, Any], Mapping[str, Any] | None]:
    """Return the data of a part, wrapped if it is not an object (`IN_OBJECT`), and the metadata."""
    if isinstance(part.data, Mapping):
        return part.data, part.metadata
    return {"value": part.data}, {**(part.metadata or {}), IN_OBJECT: True}


def data_from_object(data: Mapping[str, Any], metadata: Mapping[str, Any] | None) -> Data:
    """Undo `data_in_object`."""
    if not metadata or metadata.get(IN_OBJECT) is not True or "value" not in data:
        return Data(data, metadata=metadata)
    rest = {name: value for name, value in metadata.items() if name != IN_OBJECT}
    return Data(data["value"], metadata=rest or None)


def read_data(fields: Fields, metadata: Mapping[str, Any] | None) -> Data:
    """Read the field `data`: an object, as specified, or a list, which some clients send."""
    data = fields.value("data")
    match data:
        case None:
            raise fields.error("data", "is required")
        case Mapping():
            return data_from_object(data, metadata)
        case list():
            return Data(data, metadata=metadata)
    raise fields.error("data", "must be an object or a list")


def _read_part(fields: Fields) -> Part:
    metadata = fields.struct("metadata")
    kind = fields.text("kind") or next(filter(fields.has, ("text", "file", "data")), None)
    match kind:
        case "text":
            text = fields.string("text")
            if text is None:
                raise fields.error("text", "is required")
            return Text(text, metadata=metadata)
        case "file":
            return read_file(fields.required_child("file"), metadata, content="bytes", address="uri")
        case "data":
            return read_data(fields, metadata)
    raise fields.error("kind", "must be one of text, file, data")


def read_file(fields: Fields, metadata: Mapping[str, Any] | None, *, content: str, address: str) -> Part:
    """Read a file, which has one of the two fields named by `content` and `address`."""
    about: Json = {
        "media_type": fields.text("mimeType"),
        "filename": fields.text("name"),
        "metadata": metadata,
    }
    found = fields.base64(content)
    if found is not None:
        return File(found, **about)
    # Some clients name the field `url`, as version 1.0 does.
    url = None if fields.has(address) else fields.text("url")
    return Link(url or fields.required(address), **about)


OBJECTS = ObjectCodec(
    states={state: state for state in get_args(State)},
    roles={"user": "user", "agent": "agent"},
    write_part=_write_part,
    read_part=_read_part,
    kinds=True,
    final=True,
)


# ------------------------------------------------------------------------- requests


def read_request(method: str, params: object) -> Request:
    """Read the parameters of a method.

    `configuration.blocking` is true if absent: the specification gives no default, and clients that send no
    configuration expect to wait for the end of the task. A `historyLength` of 0 means all messages, as in the
    protobuf definition of this version.

    Raises:
        A2AError: METHOD_NOT_FOUND or INVALID_PARAMS.
    """
    reader = _READERS.get(method)
    if reader is None:
        raise A2AError("METHOD_NOT_FOUND", "Method not found")
    return reader(Fields({} if params is None else params))


def _send(fields: Fields, *, stream: bool = False) -> Send:
    options = fields.child_or_empty("configuration")
    push = options.child("pushNotificationConfig")
    return Send(
        message=OBJECTS.read_message(fields.required_child("message")),
        wait=options.flag("blocking") is not False,
        history_length=history_length(options),
        modes=options.strings("acceptedOutputModes"),
        push=None if push is None else read_push(push, ""),
        metadata=fields.struct("metadata"),
        stream=stream,
    )


def history_length(fields: Fields) -> int | None:
    return fields.integer("historyLength") or None


def read_push(fields: Fields, task: str) -> PushConfig:
    """Read the push configuration of `task`. Of its authentication schemes, only the first is used."""
    authentication = fields.child_or_empty("authentication")
    return PushConfig(
        task=task,
        id=fields.text("id") or "",
        url=fields.required("url"),
        token=fields.text("token"),
        scheme=next(iter(authentication.strings("schemes")), None),
        credentials=authentication.text("credentials"),
    )


def _set_push(fields: Fields) -> SetPush:
    task = fields.required("taskId")
    return SetPush(read_push(fields.required_child("pushNotificationConfig"), task))


_READERS: Mapping[str, Callable[[Fields], Request]] = {
    "message/send": _send,
    "message/stream": lambda fields: _send(fields, stream=True),
    "tasks/get": lambda fields: GetTask(fields.required("id"), history_length(fields)),
    "tasks/cancel": lambda fields: CancelTask(fields.required("id")),
    "tasks/resubscribe": lambda fields: Subscribe(fields.required("id")),
    "tasks/pushNotificationConfig/set": _set_push,
    "tasks/pushNotificationConfig/get": lambda fields: GetPush(
        fields.required("id"), fields.text("pushNotificationConfigId")
    ),
    "tasks/pushNotificationConfig/list": lambda fields: ListPush(fields.required("id")),
    "tasks/pushNotificationConfig/delete": lambda fields: DeletePush(
        fields.required("id"), fields.required("pushNotificationConfigId")
    ),
    "agent/getAuthenticatedExtendedCard": lambda _: GetCard(),
}

METHODS = frozenset(_READERS)


def write_request(request: ClientRequest) -> tuple[str, Json]:
    """Return the method and the parameters of a request, in the form that `read_request` reads.

    Raises:
        ValueError: the request is `ListTasks`, for which version 0.3 has no method.
    """
    match request:
        case Send():
            push = None if request.push is None else write_push(request.push)
            options = {"blocking": request.wait, **filled(pushNotificationConfig=push)}
            return send_method(request), OBJECTS.write_send(request, options)
        case GetTask():
            return "tasks/get", {"id": request.id, **given(historyLength=request.history_length)}
        case ListTasks():
            raise ValueError("version 0.3 has no method that lists tasks")
        case CancelTask():
            return "tasks/cancel", {"id": request.id}
        case Subscribe():
            return "tasks/resubscribe", {"id": request.id}
        case _:
            assert_never(request)


def send_method(send: Send) -> str:
    return "message/stream" if send.stream else "message/send"


# -------------------------------------------------------------------------- answers


def write_answer(request: Request, answer: Answer) -> Any:
    """Return the result of a request. In this version its form does not depend on the request."""
    match answer:
        case Task() | Message():
            return OBJECTS.item(answer)
        case TaskPage():
            return OBJECTS.page(answer)
        case PushConfig():
            return {"taskId": answer.task, "pushNotificationConfig": write_push(answer)}
        case Sequence():
            return [write_answer(request, config) for config in answer]
        case None | Mapping():
            return answer
        case _:
            assert_never(answer)


def write_item(item: StreamItem) -> Json:
    """Return an item of a stream as JSON."""
    return OBJECTS.item(item)


def write_notification(task: Task) -> Json:
    """Return the body of a push notification in both bindings: the whole task (section 9.5)."""
    return OBJECTS.task(task)


def write_push(config: PushConfig) -> Json:
    authentication: Json | None = None
    if config.scheme:
        authentication = {"schemes": [config.scheme], **filled(credentials=config.credentials)}
    return {
        "url": config.url,
        **filled(id=config.id, token=config.token, authentication=authentication),
    }
