"""Answers and items of streams are read in every version, also with common mistakes of agents."""

from __future__ import annotations

from typing import Any

import attrs
import pytest
from a2a.compat.v0_3 import conversions
from hypothesis import given
from hypothesis import strategies as st

from stopgo.actors.a2a.wire import older_codec, v03_codec, v03_rest_codec, v1_codec
from stopgo.actors.a2a.wire.a2a_errors import A2AError
from stopgo.actors.a2a.wire.fields import Fields
from stopgo.actors.a2a.wire.object_codec import ObjectCodec
from stopgo.actors.a2a.wire.task import (
    Artifact,
    ArtifactUpdate,
    Data,
    File,
    ListTasks,
    Message,
    Send,
    Status,
    StatusUpdate,
    StreamItem,
    Task,
    TaskPage,
    Text,
)

from . import objects
from .objects import TASK

V1, V03, REST = v1_codec.OBJECTS, v03_codec.OBJECTS, v03_rest_codec.OBJECTS
PARTS, PARTS_03 = objects.parts(objects.OPTIONAL_NAMES), objects.parts(st.none())
ITEMS = objects.items(PARTS, objects.messages(PARTS))
ITEMS_REST = objects.items(PARTS_03, objects.messages(PARTS_03, references=st.just(())))


def read(codec: ObjectCodec, value: object) -> StreamItem:
    return codec.read_item(Fields(value, "result"))


@given(ITEMS_REST)
def test_written_items_of_0_3_over_http_are_read_back(item: StreamItem) -> None:
    assert read(REST, v03_rest_codec.write_item(item)) == item


@given(ITEMS)
def test_items_that_the_sdk_converts_to_0_3_are_read(item: StreamItem) -> None:
    """The SDK has its own forms for what 0.3 lacks, such as media types of texts."""
    written = conversions.to_compat_stream_response(objects.meant(item)).result
    found = read(V03, written.model_dump(mode="json", by_alias=True, exclude_none=True))
    assert type(found) is type(item)
    assert found.context == item.context


@pytest.mark.parametrize("codec", [V1, V03, REST])
@pytest.mark.parametrize("page", [TaskPage((), "", 0, 0), TaskPage((TASK, TASK), "n", 7, 9)])
def test_written_page_is_read_back(codec: ObjectCodec, page: TaskPage) -> None:
    assert codec.read_page(Fields(codec.page(page))) == page


def test_page_without_sizes_gets_the_number_of_tasks() -> None:
    assert V1.read_page(Fields({"tasks": [V1.task(TASK)]})) == TaskPage((TASK,), "", 1, 1)


BARE = Task(id="t", context="t", status=Status("working"))
SAID = Message(id="", role="agent", parts=(Text("hi"),))
WORKING = {"state": "TASK_STATE_WORKING"}
UPDATE = {"taskId": "t", "status": WORKING}


def with_status(**status: Any) -> dict[str, Any]:
    return {"task": {"id": "t", "status": {"state": "TASK_STATE_WORKING", **status}}}


@pytest.mark.parametrize("codec", [V1, V03, REST])
@pytest.mark.parametrize(
    ("value", "expected"),
    [
        # The type: by its kind, by the object around it, by its fields.
        ({"kind": "task", "id": "t", "status": WORKING, "message": {"x": 1}}, BARE),
        ({"task": {"id": "t", "status": WORKING}, "message": None, "status": "new"}, BARE),
        ({"id": "t", "status": WORKING, "artifact": {"x": 1}}, BARE),
        (UPDATE, StatusUpdate(task="t", context="t", status=Status("working"))),
        (
            {"status_update": {**UPDATE, "task_id": "t"}},
            StatusUpdate(task="t", context="t", status=BARE.status),
        ),
        ({"role": "agent", "parts": [{"text": "hi"}]}, SAID),
        ({"parts": [{"text": "hi"}]}, SAID),
        ({"message": {"parts": [{"text": "hi"}], "role": "ROLE_USER"}}, attrs.evolve(SAID, role="user")),
        (
            {"taskId": "t", "artifact": {"parts": [{"text": "hi"}]}},
            ArtifactUpdate(task="t", context="t", artifact=Artifact(id="", parts=(Text("hi"),)), last=False),
        ),
        # Nothing but the state is needed.
        (with_status(state="working"), BARE),
        (with_status(state="TASK_STATE_WORKING", message=None, timestamp=None), BARE),
        (with_status(timestamp="2026-11-21T20:34:07.625643"), BARE),
        (with_status(timestamp=1795293247), BARE),
        (
            with_status(timestamp="1970-01-01T00:00:00.5Z", message={"parts": [{"text": "hi"}], "x": {}}),
            attrs.evolve(BARE, status=Status("working", 0.5, SAID)),
        ),
        (
            with_status(message={}),
            attrs.evolve(BARE, status=Status("working", None, attrs.evolve(SAID, parts=()))),
        ),
        ({"task": {"id": "t", "status": WORKING, "history": None, "artifacts": [], "kind": "x"}}, BARE),
    ],
)
def test_incomplete_items_are_read(codec: ObjectCodec, value: Any, expected: StreamItem) -> None:
    assert read(codec, value) == expected


@pytest.mark.parametrize("codec", [V1, V03, REST])
@pytest.mark.parametrize(
    ("word", "state"),
    [
        ("TASK_STATE_CANCELLED", "canceled"),
        ("TASK_STATE_CANCELED", "canceled"),
        ("auth-required", "auth-required"),
    ],
)
def test_states_are_read_in_any_spelling(codec: ObjectCodec, word: str, state: str) -> None:
    found = read(codec, with_status(state=word))
    assert isinstance(found, Task)
    assert found.status.state == state


@pytest.mark.parametrize(
    ("codec", "part", "expected"),
    [
        (V1, {"text": "a", "url": "b"}, Data({"text": "a", "url": "b"})),
        (V1, {"raw": "%"}, Data({"raw": "%"})),
        (V1, {}, Data({})),
        (V1, {"raw": "_-8"}, File("/+8=")),
        (V03, {"kind": "audio", "text": "a"}, Data({"kind": "audio", "text": "a"})),
        (V03, {"kind": "text", "text": 7}, Data({"kind": "text", "text": 7})),
        (V03, {"type": "text", "text": "a"}, Text("a")),
        (REST, {"image": {}}, Data({"image": {}})),
    ],
)
def test_parts_of_unknown_kind_become_data(codec: ObjectCodec, part: Any, expected: Any) -> None:
    message = codec.read_answered_message(Fields({"parts": [{"text": "hi"}, part]}))
    assert message.parts == (Text("hi"), expected)
    assert codec.read_artifact(Fields({"parts": [part]})).parts == (expected,)


@pytest.mark.parametrize("codec", [V1, V03, REST])
@pytest.mark.parametrize(
    ("value", "mistake"),
    [
        ([], "result: must be an object"),
        ({}, "result.kind: is neither a task, nor a message, nor an update"),
        ({"kind": "news", "id": "t", "status": WORKING}, "result.kind: must be one of task, message,"),
        ({"task": "t"}, "result.task: must be an object"),
        ({"task": {"status": WORKING}}, "result.task.id: is required"),
        ({"task": {"id": "t"}}, "result.task.status: is required"),
        ({"task": {"id": 7, "status": WORKING}}, "result.task.id: must be a string"),
        ({"task": {"id": "t", "status": {}}}, "result.task.status.state: is required"),
        (with_status(state="TASK_STATE_UNSPECIFIED"), "result.task.status.state: is not known"),
        (with_status(state="unknown"), "result.task.status.state: is not known"),
        (with_status(message="hi"), "result.task.status.message: must be an object"),
        (with_status(message={"role": "ROLE_UNSPECIFIED"}), "result.task.status.message.role: is not known"),
        ({"status": WORKING}, "result.taskId: is required"),
        ({"taskId": "t", "artifact": None}, "result.artifact: is required"),
        ({"message": {"parts": "hi"}}, "result.message.parts: must be a list"),
        ({"message": {"parts": ["hi"]}}, r"result.message.parts\[0\]: must be an object"),
    ],
)
def test_invalid_items_are_refused(codec: ObjectCodec, value: Any, mistake: str) -> None:
    with pytest.raises(A2AError, match=mistake) as raised:
        read(codec, value)
    assert raised.value.reason == "INVALID_PARAMS"


# ------------------------------------------------------------------------ the older dialect


def older(result: object) -> StreamItem:
    return read(V03, older_codec.as_v03(result))


OLD = {"id": "t", "status": {"state": "input-required", "message": "Approve?"}}
ASKED = attrs.evolve(SAID, parts=(Text("Approve?"),))
DONE = Artifact(id="", parts=(Text("done"),))
FAILED = {"state": "failed"}


@pytest.mark.parametrize(
    ("result", "expected"),
    [
        (OLD, Task(id="t", context="t", status=Status("input-required", None, ASKED))),
        (
            {
                "id": "t",
                "contextId": "c",
                "status": {"state": "completed", "message": ""},
                "artifact": {"parts": [{"type": "text", "text": "done"}]},
            },
            Task(id="t", context="c", status=Status("completed"), artifacts=(DONE,)),
        ),
        ({"id": "t", "status": FAILED, "artifact": None}, attrs.evolve(BARE, status=Status("failed"))),
        (v03_codec.write_item(TASK), TASK),
        ({"kind": "message", "parts": [{"type": "text", "text": "hi"}]}, SAID),
    ],
)
def test_answers_of_the_older_dialect(result: object, expected: StreamItem) -> None:
    assert older(result) == expected


@pytest.mark.parametrize("result", [None, [], "x", {}, {"status": "completed"}, {"id": "t", "status": []}])
def test_invalid_answers_of_the_older_dialect_are_refused(result: object) -> None:
    with pytest.raises(A2AError):
        older(result)


def test_written_answer_of_the_older_dialect_is_read_back() -> None:
    found = older(older_codec.write_answer(Send(message=SAID), TASK))
    status = Status("input-required", TASK.status.at, ASKED)
    last = Artifact(id="", parts=TASK.artifacts[-1].parts)
    assert found == attrs.evolve(TASK, status=status, artifacts=(last,), history=())


def test_versions_before_1_0_have_no_list_of_tasks() -> None:
    for write in (v03_codec.write_request, older_codec.write_request):
        with pytest.raises(ValueError, match="no method that lists tasks"):
            write(ListTasks())
