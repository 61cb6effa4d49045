"""Written requests: the official SDK and our own server read the same requests."""

from __future__ import annotations

from typing import Any

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

from stopgo.actors.a2a.wire import older_codec, v03_codec, v03_rest_codec, v1_codec
from stopgo.actors.a2a.wire.task import (
    CancelTask,
    ClientRequest,
    Data,
    File,
    GetTask,
    Link,
    ListTasks,
    Message,
    PushConfig,
    Send,
    Subscribe,
    Text,
)

from . import objects
from .test_read import (
    CONFIGURED_SEND,
    LISTS,
    MESSAGES,
    MESSAGES_03,
    MESSAGES_REST,
    METHODS_03,
    REQUESTS,
    SAID,
)

OURS = [row for row in REQUESTS if isinstance(row[2], ClientRequest)]
STREAMED = types_03.SendStreamingMessageRequest
LENGTHS = st.none() | st.integers(1, 2**31 - 1)
PUSHES = st.none() | st.builds(
    PushConfig,
    task=st.just(""),
    id=objects.NAMES,
    url=objects.NAMES,
    token=objects.OPTIONAL_NAMES,
    scheme=objects.NAMES,
    credentials=objects.OPTIONAL_NAMES,
)


def without_task(meant: Any) -> Any:
    """Where a message is sent, the address for its notifications names no task."""
    found = type(meant)()
    found.CopyFrom(meant)
    if found.configuration.HasField("task_push_notification_config"):
        found.configuration.task_push_notification_config.ClearField("task_id")
    return found


def requests(messages: st.SearchStrategy[Message], *, lists: bool = True) -> st.SearchStrategy[ClientRequest]:
    return st.one_of(
        st.builds(
            Send,
            message=messages,
            wait=st.booleans(),
            history_length=LENGTHS,
            modes=objects.NAME_LISTS,
            push=PUSHES,
            metadata=objects.METADATA,
            stream=st.booleans(),
        ),
        st.builds(GetTask, objects.NAMES, LENGTHS),
        st.builds(CancelTask, objects.NAMES),
        st.builds(Subscribe, objects.NAMES),
        *([LISTED] if lists else []),
    )


LISTED = st.builds(
    ListTasks,
    context=objects.OPTIONAL_NAMES,
    state=st.none() | st.sampled_from(list(v1_codec.STATES)),
    since=st.none() | objects.TIMES,
    page_size=st.integers(1, 100),
    page_token=st.text(max_size=3),
    history_length=LENGTHS,
    artifacts=st.booleans(),
)


@given(requests(MESSAGES))
def test_written_requests_of_1_0_are_read_back(request_: ClientRequest) -> None:
    assert v1_codec.read_request(*v1_codec.write_request(request_)) == request_


@given(requests(MESSAGES_03, lists=False))
def test_written_requests_of_0_3_are_read_back(request_: ClientRequest) -> None:
    assert v03_codec.read_request(*v03_codec.write_request(request_)) == request_


@given(requests(MESSAGES_REST))
def test_written_requests_of_0_3_over_http_are_read_back(request_: ClientRequest) -> None:
    assert v03_rest_codec.read_request(*v03_rest_codec.write_request(request_)) == request_


def test_history_length_zero_is_written() -> None:
    request_ = GetTask("t", 0)
    assert v1_codec.write_request(request_) == ("GetTask", {"id": "t", "historyLength": 0})
    assert v1_codec.read_request(*v1_codec.write_request(request_)) == request_
    assert v03_codec.write_request(request_) == ("tasks/get", {"id": "t", "historyLength": 0})
    send = Send(message=SPOKEN, history_length=0)
    assert v1_codec.read_request(*v1_codec.write_request(send)) == send


@pytest.mark.parametrize(
    ("method", "meant", "request_"), [row for row in OURS + LISTS if row[1].ListFields()]
)
def test_sdk_reads_requests_of_1_0(method: str, meant: Any, request_: ClientRequest) -> None:
    written, params = v1_codec.write_request(request_)
    assert written == method
    read = ParseDict(params, type(meant)())
    if isinstance(request_, Send):
        # An empty configuration says no more than none.
        meant = without_task(meant) if request_.push else type(meant)(message=meant.message)
    assert read == meant


@pytest.mark.parametrize(("method", "meant", "request_"), OURS)
def test_sdk_reads_requests_of_0_3(method: str, meant: Any, request_: ClientRequest) -> None:
    name, convert = METHODS_03[method]
    written, params = v03_codec.write_request(request_)
    assert written == name
    model: Any = STREAMED if method == "SendStreamingMessage" else type(convert(meant, 1))
    read = model.model_validate({"jsonrpc": "2.0", "id": 1, "method": written, "params": params})
    assert read.model_dump(mode="json", by_alias=True, exclude_none=True)["params"] == params
    match request_:
        case Send():
            core = conversions.to_core_send_message_request(read)
            assert core.message == meant.message
            assert core.metadata == meant.metadata
            assert core.configuration.return_immediately is not request_.wait
            if request_.push:
                assert core.configuration == without_task(meant).configuration
        case GetTask():
            assert conversions.to_core_get_task_request(read) == meant
        case _:
            assert read.params.id == meant.id


@pytest.mark.parametrize("request_", [Send(message=CONFIGURED_SEND.message, stream=True), CONFIGURED_SEND])
def test_sdk_reads_requests_of_0_3_over_http(request_: Send) -> None:
    method, params = v03_rest_codec.write_request(request_)
    assert method == ("message/stream" if request_.stream else "message/send")
    read = ParseDict(params, proto_03.SendMessageRequest())
    assert conversions.to_core_message(FromProto.message(read.request)) == SAID.message
    configuration = FromProto.message_send_configuration(read.configuration)
    expected = kit.SendMessageConfiguration(return_immediately=not request_.wait)
    if request_.push:
        expected.history_length = 3
        expected.accepted_output_modes.append("text/plain")
        expected.task_push_notification_config.CopyFrom(objects.push(request_.push))
    assert conversions.to_core_send_message_configuration(configuration) == expected


# ------------------------------------------------------------------------ the older dialect

SPOKEN = Message(
    id="m1",
    role="user",
    parts=(Text("hi"), Data({"é": 1}), Link("https://c"), File("aGk=", None, "f.png")),
    task="t1",
    context="c1",
)


def test_a_message_in_the_older_dialect() -> None:
    texts = ["hi", '{"é": 1}', "https://c", "f.png"]
    written = older_codec.write_request(Send(message=SPOKEN))
    assert written == (
        "message/send",
        {
            "taskId": "t1",
            "message": {
                "messageId": "m1",
                "role": "user",
                "contextId": "c1",
                "parts": [{"type": "text", "text": text} for text in texts],
            },
            "configuration": {"blocking": True},
        },
    )
    assert older_codec.is_older(*written)
    assert older_codec.read_request(*written, message_id="new") == Send(
        message=attrs.evolve(SPOKEN, parts=tuple(map(Text, texts)))
    )


@given(MESSAGES_03, st.booleans())
def test_written_messages_of_the_older_dialect_are_read_back(message: Message, wait: bool) -> None:
    message = attrs.evolve(message, parts=tuple(Text(str(number)) for number, _ in enumerate(message.parts)))
    written = older_codec.write_request(Send(message=message, wait=wait))
    assert older_codec.is_older(*written)
    assert older_codec.read_request(*written, message_id="new") == Send(message=message, wait=wait)


def test_all_else_in_the_older_dialect() -> None:
    assert older_codec.write_request(GetTask("t")) == ("tasks/get", {"id": "t"})
    assert older_codec.write_request(CancelTask("t")) == ("tasks/cancel", {"id": "t"})
    for request_ in (Subscribe("t"), Send(message=SPOKEN, stream=True)):
        with pytest.raises(ValueError, match="no streams"):
            older_codec.write_request(request_)
