"""The official SDK reads written items and answers strictly, and finds the same objects."""

from __future__ import annotations

import base64
from typing import Any, get_args

import attrs
import pytest
from a2a.compat.v0_3 import a2a_v0_3_pb2 as proto_03
from a2a.compat.v0_3 import conversions
from a2a.compat.v0_3 import types as types_03
from a2a.compat.v0_3.proto_utils import FromProto
from a2a.types import a2a_pb2 as kit
from google.protobuf.json_format import ParseDict
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from stopgo.actors.a2a.wire import json_rpc, v03_codec, v03_rest_codec, v1_codec
from stopgo.actors.a2a.wire.fields import Fields
from stopgo.actors.a2a.wire.task import (
    Answer,
    CancelTask,
    DeletePush,
    File,
    GetCard,
    GetPush,
    GetTask,
    ListPush,
    ListTasks,
    Message,
    Send,
    SetPush,
    State,
    Status,
    StatusUpdate,
    StreamItem,
    Task,
    TaskPage,
    Text,
)

from . import objects
from .objects import BARE_PUSH, PUSH, TASK, meant

PARTS = objects.parts(objects.OPTIONAL_NAMES)
PARTS_03 = objects.parts(st.none())
# The SDK decodes the bytes of a file twice in this binding.
PARTS_REST = objects.parts(st.none(), files=False)

ITEMS = objects.items(PARTS, objects.messages(PARTS))
ITEMS_03 = objects.items(PARTS_03, objects.messages(PARTS_03))
ITEMS_REST = objects.items(PARTS_REST, objects.messages(PARTS_REST, references=st.just(())))

HELLO = Message(id="m1", role="user", parts=(Text("hi"),))
REPLY = Message(id="m2", role="agent", parts=(Text("hello"),))
PAGE = TaskPage([TASK], "2", 1, 3)


@given(ITEMS)
def test_sdk_and_own_reader_read_items_of_1_0(item: StreamItem) -> None:
    written = v1_codec.write_item(item)
    assert ParseDict(written, kit.StreamResponse()) == meant(item)
    assert v1_codec.write_notification(item) == written
    expected = attrs.evolve(item, final=False) if isinstance(item, StatusUpdate) else item
    assert v1_codec.OBJECTS.read_item(Fields(written)) == expected


def result_03(model: type[BaseModel], result: Any) -> Any:
    """The object that the SDK reads from a result of JSON-RPC. The SDK would write the same JSON."""
    read = model.model_validate(json_rpc.write_result("7", result))
    assert read.model_dump(mode="json", by_alias=True, exclude_none=True).get("result") == result
    return read


def core(found: Any) -> Any:
    """The SDK's object of version 1.0 for its object of 0.3."""
    match found:
        case list():
            return [core(each) for each in found]
        case types_03.Task():
            return conversions.to_core_task(found)
        case types_03.Message():
            return conversions.to_core_message(found)
        case types_03.TaskStatusUpdateEvent():
            return conversions.to_core_task_status_update_event(found)
        case types_03.TaskPushNotificationConfig():
            return conversions.to_core_task_push_notification_config(found)
    return found


@given(ITEMS_03)
def test_sdk_and_own_reader_read_items_of_0_3(item: StreamItem) -> None:
    written = v03_codec.write_item(item)
    assert v03_codec.OBJECTS.read_item(Fields(written)) == item
    read = result_03(types_03.SendStreamingMessageSuccessResponse, written)
    assert conversions.to_core_stream_response(read) == meant(item)
    if isinstance(item, StatusUpdate):
        assert read.result.final is item.final
    if isinstance(item, Task):
        assert v03_codec.write_notification(item) == written


@pytest.mark.parametrize("state", get_args(State))
def test_states(state: State) -> None:
    update = StatusUpdate(task="t1", context="c1", status=Status(state))
    expected = meant(update)
    assert ParseDict(v1_codec.write_item(update), kit.StreamResponse()) == expected
    in_rpc = result_03(types_03.SendStreamingMessageSuccessResponse, v03_codec.write_item(update))
    assert conversions.to_core_stream_response(in_rpc) == expected
    over_http = ParseDict(v03_rest_codec.write_item(update), proto_03.StreamResponse())
    assert core(FromProto.task_status_update_event(over_http.status_update)) == expected.status_update


@given(ITEMS_REST)
def test_items_of_0_3_over_http(item: StreamItem) -> None:
    read = ParseDict(v03_rest_codec.write_item(item), proto_03.StreamResponse())
    result = FromProto.stream_response(read)
    response = types_03.SendStreamingMessageSuccessResponse(result=result)
    assert conversions.to_core_stream_response(response) == meant(item)
    if isinstance(item, StatusUpdate):
        assert read.status_update.final is item.final


def test_bytes_and_references_in_0_3_over_http() -> None:
    """Bytes are encoded once. References of a message have no field."""
    content = base64.b64encode(b"\xff\x00").decode()
    parts = (File(content, "image/png", "a.png"),)
    item = Message(id="m", role="agent", parts=parts, references=("t0",))
    read = ParseDict(v03_rest_codec.write_item(item), proto_03.StreamResponse())
    expected = proto_03.FilePart(file_with_bytes=b"\xff\x00", mime_type="image/png", name="a.png")
    assert read.msg.content[0].file == expected


@pytest.mark.parametrize(
    ("request_", "answer", "expected"),
    [
        (Send(message=HELLO), TASK, kit.SendMessageResponse(task=objects.task(TASK))),
        (Send(message=HELLO), REPLY, kit.SendMessageResponse(message=objects.message(REPLY))),
        (GetTask("t1"), TASK, objects.task(TASK)),
        (CancelTask("t1"), TASK, objects.task(TASK)),
        (
            ListTasks(),
            PAGE,
            kit.ListTasksResponse(tasks=[objects.task(TASK)], next_page_token="2", page_size=1, total_size=3),
        ),
        (SetPush(PUSH), PUSH, objects.push(PUSH)),
        (GetPush("t1", "p2"), BARE_PUSH, objects.push(BARE_PUSH)),
        (
            ListPush("t1"),
            [PUSH, BARE_PUSH],
            kit.ListTaskPushNotificationConfigsResponse(
                configs=[objects.push(PUSH), objects.push(BARE_PUSH)]
            ),
        ),
        (ListPush("t1"), [], kit.ListTaskPushNotificationConfigsResponse()),
        (GetCard(), {"name": "N"}, kit.AgentCard(name="N")),
    ],
)
def test_answers_of_1_0(request_: Any, answer: Answer, expected: Any) -> None:
    assert ParseDict(v1_codec.write_answer(request_, answer), type(expected)()) == expected


@pytest.mark.parametrize(
    ("request_", "answer", "model", "expected"),
    [
        (Send(message=HELLO), TASK, types_03.SendMessageSuccessResponse, objects.task(TASK)),
        (Send(message=HELLO), REPLY, types_03.SendMessageSuccessResponse, objects.message(REPLY)),
        (GetTask("t1"), TASK, types_03.GetTaskSuccessResponse, objects.task(TASK)),
        (CancelTask("t1"), TASK, types_03.CancelTaskSuccessResponse, objects.task(TASK)),
        (SetPush(PUSH), PUSH, types_03.SetTaskPushNotificationConfigSuccessResponse, objects.push(PUSH)),
        (
            GetPush("t1", None),
            BARE_PUSH,
            types_03.GetTaskPushNotificationConfigSuccessResponse,
            objects.push(BARE_PUSH),
        ),
        (
            ListPush("t1"),
            [PUSH, BARE_PUSH],
            types_03.ListTaskPushNotificationConfigSuccessResponse,
            [objects.push(PUSH), objects.push(BARE_PUSH)],
        ),
        (DeletePush("t1", "p1"), None, types_03.DeleteTaskPushNotificationConfigSuccessResponse, None),
    ],
)
def test_answers_of_0_3(request_: Any, answer: Answer, model: type[BaseModel], expected: Any) -> None:
    assert core(result_03(model, v03_codec.write_answer(request_, answer)).result) == expected


@pytest.mark.parametrize(
    ("request_", "answer", "kind", "expected"),
    [
        (Send(message=HELLO), TASK, proto_03.SendMessageResponse, objects.task(TASK)),
        (Send(message=HELLO), REPLY, proto_03.SendMessageResponse, objects.message(REPLY)),
        (GetTask("t1"), TASK, proto_03.Task, objects.task(TASK)),
        (SetPush(PUSH), PUSH, proto_03.TaskPushNotificationConfig, objects.push(PUSH)),
        (GetPush("t1", "p2"), BARE_PUSH, proto_03.TaskPushNotificationConfig, objects.push(BARE_PUSH)),
        (
            ListPush("t1"),
            [PUSH, BARE_PUSH],
            proto_03.ListTaskPushNotificationConfigResponse,
            [objects.push(PUSH), objects.push(BARE_PUSH)],
        ),
    ],
)
def test_answers_of_0_3_over_http(request_: Any, answer: Answer, kind: Any, expected: Any) -> None:
    read = ParseDict(v03_rest_codec.write_answer(request_, answer), kind())
    match read:
        case proto_03.SendMessageResponse():
            found: Any = FromProto.task_or_message(read)
        case proto_03.Task():
            found = FromProto.task(read)
        case proto_03.ListTaskPushNotificationConfigResponse():
            found = [FromProto.task_push_notification_config(config) for config in read.configs]
        case _:
            found = FromProto.task_push_notification_config(read)
    assert core(found) == expected


@pytest.mark.parametrize("codec", [v1_codec, v03_rest_codec])
def test_a_page_has_all_its_fields(codec: Any) -> None:
    written = {"tasks": [], "nextPageToken": "", "pageSize": 50, "totalSize": 0}
    assert codec.write_answer(ListTasks(), TaskPage([], "", 50, 0)) == written


@pytest.mark.parametrize(("codec", "nothing"), [(v1_codec, None), (v03_codec, None), (v03_rest_codec, {})])
def test_cards_and_nothing(codec: Any, nothing: object) -> None:
    assert codec.write_answer(GetCard(), {"name": "N"}) == {"name": "N"}
    assert codec.write_answer(DeletePush("t1", "p1"), None) == nothing
