"""The dialect older than 0.3: its marks, requests and answers."""

from __future__ import annotations

from typing import Any

import attrs
import pytest

from stopgo.actors.a2a.wire import v03_codec
from stopgo.actors.a2a.wire.a2a_errors import A2AError
from stopgo.actors.a2a.wire.older_codec import is_older, read_request, write_answer
from stopgo.actors.a2a.wire.task import (
    Answer,
    Artifact,
    Data,
    File,
    Link,
    Message,
    Part,
    Send,
    State,
    Status,
    Task,
    TaskPage,
    Text,
)

SEND = "message/send"
OLD_PART = {"type": "text", "text": "hi"}
PART = {"kind": "text", "text": "hi"}
HELLO = Message(id="new", role="user", parts=(Text("hi"),))


@pytest.mark.parametrize(
    ("marked", "method", "params"),
    [
        (True, SEND, {"message": {"role": "user", "parts": [OLD_PART]}}),
        (True, SEND, {"message": {"parts": [PART, OLD_PART]}}),
        (True, SEND, {"message": {"parts": [PART]}, "taskId": "t1"}),
        (True, SEND, {"message": None, "taskId": 7}),
        # A missing messageId is no mark: 0.3 refuses it.
        (False, SEND, {"message": {"role": "user", "parts": [PART]}}),
        (False, SEND, {"message": {"parts": [PART], "taskId": "t1"}, "taskId": None}),
        (False, SEND, {"message": {"parts": [{**PART, "type": "text"}]}}),
        (False, SEND, {"message": {"parts": OLD_PART}}),
        (False, SEND, {"message": [OLD_PART]}),
        (False, SEND, {"parts": [OLD_PART]}),
        (False, SEND, None),
        (False, SEND, ["taskId"]),
        (False, "message/stream", {"message": {"parts": [OLD_PART]}, "taskId": "t1"}),
        (False, "tasks/pushNotificationConfig/set", {"taskId": "t1"}),
    ],
)
def test_the_marks(marked: bool, method: str, params: Any) -> None:
    assert is_older(method, params) is marked


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"message": {"role": "user", "parts": [OLD_PART]}}, HELLO),
        ({"message": {"parts": [OLD_PART]}, "taskId": "t1"}, {"task": "t1"}),
        ({"message": {"parts": [PART], "taskId": "t2"}, "taskId": "t1"}, {"task": "t2"}),
        (
            {"message": {"messageId": "m1", "contextId": "c", "parts": [OLD_PART]}},
            {"id": "m1", "context": "c"},
        ),
        ({"message": {"messageId": None, "role": None, "parts": [OLD_PART]}}, HELLO),
        (
            {
                "message": {
                    "parts": [
                        OLD_PART,
                        {"type": "data", "data": {"a": 1}},
                        {"kind": "file", "file": {"uri": "u"}},
                    ]
                }
            },
            {"parts": (Text("hi"), Data({"a": 1}), Link("u"))},
        ),
    ],
)
def test_requests(params: Any, message: Any) -> None:
    expected = message if isinstance(message, Message) else attrs.evolve(HELLO, **message)
    assert read_request(SEND, params, message_id="new") == Send(message=expected)


@pytest.mark.parametrize(
    ("params", "field", "mistake"),
    [
        ({"taskId": "t1"}, "message", "is required"),
        ({"taskId": "t1", "message": "approved"}, "message", "must be an object"),
        ({"taskId": 7, "message": {"parts": [PART]}}, "message.taskId", "must be a string"),
        ({"taskId": "t1", "message": {}}, "message.parts", "must hold at least one part"),
        ({"taskId": "t1", "message": {"parts": "approved"}}, "message.parts", "must be a list"),
        ({"message": {"role": "agent", "parts": [OLD_PART]}}, "message.role", "must be user"),
        ({"message": {"parts": [{"type": "text"}]}}, "message.parts[0].text", "is required"),
        (
            {"message": {"parts": [{"type": "unsupported_type"}]}},
            "message.parts[0].kind",
            "must be one of text, file, data",
        ),
        ({"message": {"parts": [{"type": 7}]}}, "message.parts[0].kind", "must be a string"),
    ],
)
def test_refusals(params: Any, field: str, mistake: str) -> None:
    with pytest.raises(A2AError) as raised:
        read_request(SEND, params, message_id="new")
    assert raised.value.reason == "INVALID_PARAMS"
    assert raised.value.violations == ((field, mistake),)


def test_message_without_mark_needs_an_id() -> None:
    with pytest.raises(A2AError, match="messageId: is required"):
        v03_codec.read_request(SEND, {"message": {"role": "user", "parts": [PART]}})


# --------------------------------------------------------------------------------- answers


def said(*parts: Part) -> Message:
    return Message(id="m2", role="agent", parts=parts)


def written(state: str, message: str | None = None, **more: Any) -> Any:
    status = {"state": state} if message is None else {"state": state, "message": message}
    return {"kind": "task", "id": "t1", "contextId": "c1", "status": status, **more}


def a_task(
    state: State, message: Message | None = None, *artifacts: Artifact, at: float | None = None
) -> Task:
    return Task(
        id="t1", context="c1", status=Status(state, at, message), artifacts=artifacts, history=(HELLO,)
    )


FIRST = Artifact(id="a1", parts=(Text("first"),))
LAST = Artifact(id="a2", parts=(Text("the"), Data({"a": 1}), Text("last")))
FILES = Artifact(
    id="a3", parts=(File("aGk=", None, "f.png"), File("aGk="), Link("https://c"), Data({"é": 1}))
)


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (a_task("submitted"), written("submitted")),
        (a_task("working"), written("submitted")),
        (a_task("canceled"), written("failed")),
        (a_task("rejected", said(Text("no"))), written("failed", "no")),
        (a_task("failed", said(Text("a"), Data(1), Text("b"))), written("failed", "a\nb")),
        (a_task("input-required", said(Data({"id": "a1"}))), written("input-required", '{"id": "a1"}')),
        (a_task("auth-required", said(Text(""))), written("auth-required")),
        (
            a_task("completed", None, FIRST, LAST),
            written(
                "completed",
                artifact={"parts": [{"type": "text", "text": "the"}, {"type": "text", "text": "last"}]},
            ),
        ),
        (
            a_task("completed", None, FILES),
            written(
                "completed",
                artifact={
                    "parts": [
                        {"type": "text", "text": text} for text in ("f.png", "file", "https://c", '{"é": 1}')
                    ]
                },
            ),
        ),
        (
            a_task("working", at=0.5),
            {
                **written("submitted"),
                "status": {"state": "submitted", "timestamp": "1970-01-01T00:00:00.500Z"},
            },
        ),
        (
            Message(id="m2", role="agent", parts=(Text("hello"),), task="t1", context="c1"),
            written("completed", "hello"),
        ),
        (
            Message(id="m2", role="agent", parts=(Text("hello"),)),
            {**written("completed", "hello"), "id": "m2", "contextId": "m2"},
        ),
        # The agent reports the question of another task.
        (
            Message(id="m2", role="agent", parts=(Text("wait"),), context="c1", references=("t1", "t2")),
            written("input-required", "wait"),
        ),
    ],
)
def test_answers(answer: Answer, expected: Any) -> None:
    assert write_answer(Send(message=HELLO), answer) == expected


def test_answers_of_other_types_are_refused() -> None:
    with pytest.raises(AssertionError):
        write_answer(Send(message=HELLO), TaskPage([], "", 50, 0))
