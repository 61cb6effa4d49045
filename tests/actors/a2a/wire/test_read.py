"""Requests of clients, first of all of the official SDK, are read as the right objects."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, TypeAlias

import attrs
import pytest
from a2a.compat.v0_3 import a2a_v0_3_pb2 as proto_03
from a2a.compat.v0_3 import conversions
from a2a.compat.v0_3.proto_utils import ToProto
from a2a.types import a2a_pb2 as kit
from google.protobuf.json_format import MessageToDict
from hypothesis import strategies as st

from stopgo.actors.a2a.wire import json_rpc, v03_codec, v03_rest_codec, v1_codec
from stopgo.actors.a2a.wire.object_codec import ObjectCodec
from stopgo.actors.a2a.wire.task import (
    CancelTask,
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
    Subscribe,
    Text,
)

from . import objects
from .objects import BARE_PUSH, PUSH

Params: TypeAlias = Mapping[str, Any]

MESSAGE = Message(
    id="m1",
    role="user",
    parts=(Text("hi"), Data({"a": [1, {"b": None}]}), Data(7), Link("https://c/f", "text/plain", "f")),
    task="t1",
    context="c1",
    extensions=("urn:x",),
    metadata={"k": "v"},
)
SAID = kit.SendMessageRequest(message=objects.message(MESSAGE))
CONFIGURED = kit.SendMessageRequest(
    message=objects.message(MESSAGE),
    configuration=kit.SendMessageConfiguration(
        return_immediately=True,
        history_length=3,
        accepted_output_modes=["text/plain"],
        task_push_notification_config=objects.push(PUSH),
    ),
    metadata={"k": "v"},
)
EMPTY_CONFIGURATION = kit.SendMessageRequest(
    message=objects.message(MESSAGE), configuration=kit.SendMessageConfiguration()
)
CONFIGURED_SEND = Send(
    message=MESSAGE,
    wait=False,
    history_length=3,
    modes=("text/plain",),
    push=PushConfig(task="", id="p1", url="https://c/hook", token="tk", scheme="Bearer", credentials="z"),
    metadata={"k": "v"},
)
OF_PUSH = {"task_id": "t1", "id": "p1"}

# The method of 1.0, its request in the SDK, and the expected object.
REQUESTS: list[tuple[str, Any, Request]] = [
    ("SendMessage", SAID, Send(message=MESSAGE)),
    ("SendMessage", EMPTY_CONFIGURATION, Send(message=MESSAGE)),
    ("SendMessage", CONFIGURED, CONFIGURED_SEND),
    ("SendStreamingMessage", SAID, Send(message=MESSAGE, stream=True)),
    ("GetTask", kit.GetTaskRequest(id="t1"), GetTask("t1")),
    ("GetTask", kit.GetTaskRequest(id="t1", history_length=2), GetTask("t1", 2)),
    ("CancelTask", kit.CancelTaskRequest(id="t1"), CancelTask("t1")),
    ("SubscribeToTask", kit.SubscribeToTaskRequest(id="t1"), Subscribe("t1")),
    ("CreateTaskPushNotificationConfig", objects.push(PUSH), SetPush(PUSH)),
    ("CreateTaskPushNotificationConfig", objects.push(BARE_PUSH), SetPush(BARE_PUSH)),
    (
        "GetTaskPushNotificationConfig",
        kit.GetTaskPushNotificationConfigRequest(**OF_PUSH),
        GetPush("t1", "p1"),
    ),
    (
        "ListTaskPushNotificationConfigs",
        kit.ListTaskPushNotificationConfigsRequest(task_id="t1"),
        ListPush("t1"),
    ),
    (
        "DeleteTaskPushNotificationConfig",
        kit.DeleteTaskPushNotificationConfigRequest(**OF_PUSH),
        DeletePush("t1", "p1"),
    ),
    ("GetExtendedAgentCard", kit.GetExtendedAgentCardRequest(), GetCard()),
]
# Version 0.3 has no method for these in JSON-RPC.
LISTS: list[tuple[str, Any, Request]] = [
    ("ListTasks", kit.ListTasksRequest(), ListTasks()),
    (
        "ListTasks",
        kit.ListTasksRequest(
            context_id="c1",
            status=kit.TASK_STATE_WORKING,
            page_size=2,
            page_token="4",
            history_length=0,
            include_artifacts=True,
            status_timestamp_after=datetime(2026, 11, 21, 20, 34, 7, 625000, UTC),
        ),
        ListTasks(
            context="c1",
            state="working",
            since=1795293247.625,
            page_size=2,
            page_token="4",
            history_length=0,
            artifacts=True,
        ),
    ),
]

Convert: TypeAlias = Callable[..., Any]
METHODS_03: Mapping[str, tuple[str, Convert]] = {
    "SendMessage": ("message/send", conversions.to_compat_send_message_request),
    "SendStreamingMessage": ("message/stream", conversions.to_compat_send_message_request),
    "GetTask": ("tasks/get", conversions.to_compat_get_task_request),
    "CancelTask": ("tasks/cancel", conversions.to_compat_cancel_task_request),
    "SubscribeToTask": ("tasks/resubscribe", conversions.to_compat_subscribe_to_task_request),
    "CreateTaskPushNotificationConfig": (
        "tasks/pushNotificationConfig/set",
        conversions.to_compat_create_task_push_notification_config_request,
    ),
    "GetTaskPushNotificationConfig": (
        "tasks/pushNotificationConfig/get",
        conversions.to_compat_get_task_push_notification_config_request,
    ),
    "ListTaskPushNotificationConfigs": (
        "tasks/pushNotificationConfig/list",
        conversions.to_compat_list_task_push_notification_config_request,
    ),
    "DeleteTaskPushNotificationConfig": (
        "tasks/pushNotificationConfig/delete",
        conversions.to_compat_delete_task_push_notification_config_request,
    ),
    "GetExtendedAgentCard": (
        "agent/getAuthenticatedExtendedCard",
        conversions.to_compat_get_extended_agent_card_request,
    ),
}


def as_query(params: Params) -> Params:
    """As the query of a URL has it: all texts."""
    return {name: str(value).lower() if value is True else str(value) for name, value in params.items()}


@pytest.mark.parametrize(("method", "request_", "expected"), REQUESTS + LISTS)
@pytest.mark.parametrize("snake", [False, True], ids=["camel", "snake"])
def test_requests_of_1_0(method: str, request_: Any, expected: Request, snake: bool) -> None:
    params = MessageToDict(request_, preserving_proto_field_name=snake)
    assert v1_codec.read_request(method, params) == expected
    if method in ("ListTasks", "GetTask"):
        assert v1_codec.read_request(method, as_query(params)) == expected


@pytest.mark.parametrize(("method", "request_", "expected"), REQUESTS)
def test_requests_of_0_3(method: str, request_: Any, expected: Request) -> None:
    method, convert = METHODS_03[method]
    written = convert(request_, 1).model_dump(mode="json", by_alias=True, exclude_none=True)
    call = json_rpc.read_call({**written, "method": method})
    assert v03_codec.read_request(call.method, call.params) == expected


def over_http(method: str, request_: Any) -> Params:
    """The body that the SDK sends in version 0.3, with the parameters of path and query."""
    params = METHODS_03[method][1](request_, 1).params
    match method:
        case "SendMessage" | "SendStreamingMessage":
            body: Any = proto_03.SendMessageRequest(
                request=ToProto.message(params.message),
                configuration=ToProto.message_send_configuration(params.configuration),
                metadata=ToProto.metadata(params.metadata),
            )
            path: Params = {}
        case _:
            config = params.push_notification_config
            body = proto_03.CreateTaskPushNotificationConfigRequest(
                parent="tasks/t1", config_id=config.id, config=ToProto.task_push_notification_config(params)
            )
            path = {"taskId": "t1"}
    return {**MessageToDict(body, preserving_proto_field_name=True), **path}


@pytest.mark.parametrize(
    ("method", "request_", "expected"),
    [row for row in REQUESTS if row[0].startswith(("Send", "Create"))],
)
def test_requests_of_0_3_over_http(method: str, request_: Any, expected: Request) -> None:
    params = over_http(method, request_)
    if request_ is SAID:
        # Without a configuration, the SDK sends an empty one, which has no `blocking`.
        assert isinstance(expected, Send)
        expected = attrs.evolve(expected, wait=False)
    assert v03_rest_codec.read_request(METHODS_03[method][0], params) == expected


@pytest.mark.parametrize(("_", "request_", "expected"), LISTS)
def test_lists_of_0_3_over_http(_: str, request_: Any, expected: Request) -> None:
    assert v03_rest_codec.read_request("tasks/list", as_query(MessageToDict(request_))) == expected


# -------------------------------------------------------------------- requests that the SDK never sends


@pytest.mark.parametrize(
    ("codec", "method", "params", "expected"),
    [
        (v1_codec, "GetExtendedAgentCard", None, GetCard()),
        (v1_codec, "GetTask", {"id": "t", "historyLength": 0}, GetTask("t", 0)),
        (v1_codec, "GetTask", {"id": "t", "historyLength": 3.0}, GetTask("t", 3)),
        (v1_codec, "GetTask", {"id": "t", "historyLength": None, "x": 1}, GetTask("t")),
        (v1_codec, "ListTasks", {"status": "TASK_STATE_UNSPECIFIED"}, ListTasks()),
        (v1_codec, "ListTasks", {"includeArtifacts": "false"}, ListTasks()),
        (v03_codec, "tasks/get", {"id": "t", "historyLength": 0}, GetTask("t")),
        (v03_codec, "tasks/pushNotificationConfig/get", {"id": "t"}, GetPush("t", None)),
        (v03_rest_codec, "tasks/get", {"id": "t", "historyLength": "3"}, GetTask("t", 3)),
        (
            v03_rest_codec,
            "tasks/pushNotificationConfig/set",
            {"taskId": "t1", "configId": "p2", "pushNotificationConfig": {"url": "https://c/hook"}},
            SetPush(BARE_PUSH),
        ),
    ],
)
def test_odd_requests(codec: Any, method: str, params: Any, expected: Request) -> None:
    assert codec.read_request(method, params) == expected


def read_send(codec: Any, parts: Sequence[Params], **params: Any) -> Send:
    """A request to send these parts, as the codec reads it."""
    spelt: ObjectCodec = codec.OBJECTS
    message = {"messageId": "m1", "role": spelt.roles["user"], spelt.parts: parts}
    send = codec.read_request(
        "SendMessage" if codec is v1_codec else "message/send", {"message": message, **params}
    )
    assert isinstance(send, Send)
    return send


@pytest.mark.parametrize(
    ("codec", "configuration", "wait"),
    [
        (v1_codec, None, True),
        (v1_codec, {}, True),
        (v1_codec, {"returnImmediately": False}, True),
        (v1_codec, {"returnImmediately": True}, False),
        (v03_codec, None, True),
        (v03_codec, {}, True),
        (v03_codec, {"blocking": True}, True),
        (v03_codec, {"blocking": False}, False),
        (v03_rest_codec, None, True),
        (v03_rest_codec, {}, False),
        (v03_rest_codec, {"blocking": True}, True),
        (v03_rest_codec, {"blocking": False}, False),
    ],
)
def test_when_a_send_waits(codec: Any, configuration: Params | None, wait: bool) -> None:
    given = {} if configuration is None else {"configuration": configuration}
    assert read_send(codec, [{"text": "hi"}], **given).wait is wait


IN_OBJECT = {"data_part_compat": True}


@pytest.mark.parametrize(
    ("codec", "part", "expected"),
    [
        (v1_codec, {"data": None}, Data(None)),
        (v1_codec, {"text": "", "data": None, "url": None}, Text("")),
        (v1_codec, {"raw": "_-8"}, File("/+8=")),
        (v1_codec, {"raw": "", "mediaType": "", "filename": "f"}, File("", None, "f")),
        (v03_codec, {"kind": "text", "text": ""}, Text("")),
        (v03_codec, {"kind": "file", "file": {"bytes": "aGk", "name": "f"}}, File("aGk=", None, "f")),
        (v03_codec, {"kind": "file", "file": {"uri": "https://c"}}, Link("https://c")),
        (v03_codec, {"kind": "file", "file": {"url": "https://c"}}, Link("https://c")),
        (v03_codec, {"data": {"value": 1}}, Data({"value": 1})),
        (v03_codec, {"data": {"a": 1}, "metadata": IN_OBJECT}, Data({"a": 1}, metadata=IN_OBJECT)),
        (v03_codec, {"data": {"value": 1}, "metadata": IN_OBJECT}, Data(1)),
        (v03_codec, {"data": {"value": 1}, "metadata": {**IN_OBJECT, "a": 2}}, Data(1, metadata={"a": 2})),
        (v03_codec, {"kind": "data", "data": [1]}, Data([1])),
        (v03_rest_codec, {"data": {"data": [1]}}, Data([1])),
        (v03_rest_codec, {"data": {}}, Data({})),
        (v03_rest_codec, {"file": {"fileWithBytes": "aGk="}}, File("aGk=")),
        (v03_rest_codec, {"file": {"fileWithUri": "https://c"}}, Link("https://c")),
    ],
)
def test_odd_parts(codec: Any, part: Params, expected: Part) -> None:
    assert read_send(codec, [part]).message.parts == (expected,)


# --------------------------------------------------------- messages for the tests of written requests

MESSAGES = objects.messages(objects.parts(objects.OPTIONAL_NAMES), roles=["user"])
MESSAGES_03 = objects.messages(objects.parts(st.none()), roles=["user"])
MESSAGES_REST = objects.messages(objects.parts(st.none()), roles=["user"], references=st.just(()))
