"""The codec of A2A 0.3 for HTTP+JSON: the objects of its a2a.proto, under the paths `/v1/...`. Pure.

Its parts differ from those of JSON-RPC and of 1.0 (`file.fileWithUri`, `data.data`), and a message calls them
`content`. States and roles are those of 1.0, except TASK_STATE_CANCELLED. The two other codecs read and write
the rest. Push notifications are those of `v03_codec`.

Source: https://a2a-protocol.org/v0.3.0/specification, section 7, and the a2a.proto of that version.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, assert_never

import attrs

from .a2a_errors import A2AError
from .error_json import http_error
from .fields import Fields
from .object_codec import Json, ObjectCodec, filled
from .task import (
    Answer,
    ClientRequest,
    Data,
    File,
    Link,
    ListTasks,
    Message,
    Part,
    PushConfig,
    Request,
    Send,
    SetPush,
    StreamItem,
    Task,
    TaskPage,
    Text,
)
from .v03_codec import (
    data_in_object,
    file_fields,
    history_length,
    read_data,
    read_file,
    read_push,
    send_method,
    write_push,
)
from .v03_codec import read_request as read_common
from .v03_codec import write_request as write_common
from .v1_codec import OBJECTS as V1_OBJECTS
from .v1_codec import STATES


def _write_part(part: Part) -> Json:
    match part:
        case Text():
            content: Json = {"text": part.text}
        case File():
            content = {"file": {"fileWithBytes": part.content, **file_fields(part)}}
        case Link():
            content = {"file": {"fileWithUri": part.url, **file_fields(part)}}
        case Data():
            data, metadata = data_in_object(part)
            return {"data": {"data": data}, **filled(metadata=metadata)}
        case _:
            assert_never(part)
    return {**content, **filled(metadata=part.metadata)}


def _read_part(fields: Fields) -> Part:
    metadata = fields.struct("metadata")
    text, file, data = fields.string("text"), fields.child("file"), fields.child("data")
    if text is not None:
        return Text(text, metadata=metadata)
    if file is not None:
        return read_file(file, metadata, content="fileWithBytes", address="fileWithUri")
    if data is not None:
        return read_data(data, metadata) if data.has("data") else Data({}, metadata=metadata)
    raise fields.error("text", "is required, or file, or data")


OBJECTS = ObjectCodec(
    states={**STATES, "canceled": "TASK_STATE_CANCELLED"},
    roles=V1_OBJECTS.roles,
    write_part=_write_part,
    read_part=_read_part,
    parts="content",
    references=False,
    final=True,
)


def read_request(method: str, params: object) -> Request:
    """Read a request by the JSON-RPC name of its method; `tasks/list` exists only here. `params`: the fields
    of the body and the query, and those of the path under the names of JSON-RPC.

    Raises:
        A2AError: METHOD_NOT_FOUND or INVALID_PARAMS.
    """
    reader = _READERS.get(method)
    if reader is None:
        return read_common(method, params)
    return reader(Fields({} if params is None else params))


def _send(fields: Fields, *, stream: bool = False) -> Send:
    """Read a request to send. A `configuration` without `blocking` means false, because ProtoJSON omits
    false. The message may be called `request`, its name in the proto, which the official Python SDK sends."""
    options = fields.child_or_empty("configuration")
    push = options.child("pushNotification")
    return Send(
        message=OBJECTS.read_message(fields.child("request") or fields.required_child("message")),
        wait=options.flag("blocking") or not fields.has("configuration"),
        history_length=history_length(options),
        modes=options.strings("acceptedOutputModes"),
        push=None if push is None else read_push(push, ""),
        metadata=fields.struct("metadata"),
        stream=stream,
    )


def _set_push(fields: Fields) -> SetPush:
    """Read a push configuration: the whole request of the proto, which the official SDKs send, or its
    `config`."""
    task = fields.required("taskId")
    config = fields.child("config") or fields
    push = read_push(config.required_child("pushNotificationConfig"), task)
    if push.id:
        return SetPush(push)
    return SetPush(attrs.evolve(push, id=fields.text("configId") or ""))


_READERS: Mapping[str, Callable[[Fields], Request]] = {
    "message/send": _send,
    "message/stream": lambda fields: _send(fields, stream=True),
    "tasks/list": OBJECTS.read_list,
    "tasks/pushNotificationConfig/set": _set_push,
}


def write_request(request: ClientRequest) -> tuple[str, Json]:
    """The method of a request and its parameters, in the form of `read_request`."""
    if isinstance(request, Send):
        push = None if request.push is None else write_push(request.push)
        options = {"blocking": request.wait, **filled(pushNotification=push)}
        return send_method(request), OBJECTS.write_send(request, options)
    if isinstance(request, ListTasks):
        return "tasks/list", OBJECTS.write_list(request)
    return write_common(request)


def write_answer(request: Request, answer: Answer) -> Any:
    """The body of an answer."""
    match answer:
        case Task() if not isinstance(request, Send):
            return OBJECTS.task(answer)
        case Task() | Message():
            return OBJECTS.wrapped(answer)
        case TaskPage():
            return OBJECTS.page(answer)
        case PushConfig():
            name = f"tasks/{answer.task}/pushNotificationConfigs/{answer.id}"
            return {"name": name, "pushNotificationConfig": write_push(answer)}
        case Sequence():
            return {"configs": [write_answer(request, config) for config in answer]}
        case Mapping():
            return answer
        case None:
            return {}
        case _:
            assert_never(answer)


def write_item(item: StreamItem) -> Json:
    """An item of a stream."""
    return OBJECTS.wrapped(item)


def write_error(error: A2AError) -> Json:
    """The body of an error: that of 1.0, and beside it the fields that clients of 0.3 read: the message, the
    name (a2a-sdk) and the code of JSON-RPC (@a2a-js/sdk)."""
    words = error.reason.removesuffix("_ERROR").split("_")
    name = "".join(word.capitalize() for word in words)
    named = {"type": f"{name}Error", "code": error.kind.code, "message": str(error)}
    return {**http_error(error), **named}
