from __future__ import annotations

from typing import Any

import pytest

from stopgo.actors.tools.pictures import Picture
from stopgo.gateway.agui.run_input import MAX_ID, MAX_RESUMED, ResumeEntry, UserMessage, parse_run_input
from stopgo.gateway.http.errors import RequestError

PNG = "iVBORw0KGgoA"
PICTURE = Picture("image/png", PNG)
IMAGE = "[image: image/png, 9 bytes]"


def user(content: Any, id: Any = "m") -> dict[str, Any]:
    return {"id": id, "role": "user", "content": content}


def body(*messages: Any, **more: Any) -> dict[str, Any]:
    return {"threadId": "t", "runId": "r", "messages": list(messages), **more}


def resumed(interrupt: Any = "i", status: Any = "resolved", **more: Any) -> dict[str, Any]:
    return {"interruptId": interrupt, "status": status, **more}


@pytest.mark.parametrize(
    ("messages", "expected"),
    [
        ([user("hi")], UserMessage("m", "hi")),
        ([user("one", "1"), {"role": "assistant", "id": "a"}, user("two", "2")], UserMessage("2", "two")),
        ([user("hi"), {"role": "tool", "id": "x", "content": [1]}], UserMessage("m", "hi")),
        ([user([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}])], UserMessage("m", "a\nb")),
        ([user("x" * 9, "m" * MAX_ID)], UserMessage("m" * MAX_ID, "x" * 9)),
        ([{"role": "new kind"}, user("hi")], UserMessage("m", "hi")),
        # docs.ag-ui.com, "Multimodal Inputs", and the proposal "Multi-modal Messages" for `binary`.
        *(
            ([user([{"type": "text", "text": "a"}, part])], UserMessage("m", f"a\n{IMAGE}", (PICTURE,)))
            for part in (
                {"type": "image", "source": {"type": "data", "value": PNG, "mimeType": "image/png"}},
                {"type": "image", "source": {"type": "url", "value": f"data:image/png;base64,{PNG}"}},
                {"type": "image", "mimeType": "image/png", "data": PNG},
                {"type": "binary", "mimeType": "image/png", "data": PNG, "id": "x", "url": None},
            )
        ),
        (
            [user([{"type": "document", "source": {"type": "url", "value": "http://a/b.pdf"}}])],
            UserMessage("m", "File at http://a/b.pdf"),
        ),
        (
            [user([{"type": "binary", "mimeType": "text/csv", "data": "aGk=", "filename": "a.csv"}])],
            UserMessage("m", "a.csv:\nhi"),
        ),
    ],
)
def test_the_last_message_of_the_user_counts(messages: list[Any], expected: UserMessage) -> None:
    found = parse_run_input(body(*messages, tools=3, state=4, context=5, forwardedProps=6, new=7))
    assert (found.thread, found.run, found.message) == ("t", "r", expected)


def test_a_resume_counts_in_place_of_messages() -> None:
    entries = [resumed("a", payload={"approved": True}), resumed("b", "cancelled", metadata={})]
    found = parse_run_input(body(user([{"type": "image"}]), resume=entries))
    assert found.message is None
    assert found.resume == (ResumeEntry("a", "resolved", {"approved": True}), ResumeEntry("b", "cancelled"))


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({}, "threadId"),
        (body(user("hi"), threadId=""), "threadId"),
        (body(user("hi"), threadId="x" * (MAX_ID + 1)), "threadId"),
        (body(user("hi"), runId=None), "runId"),
        (body(user("hi"), parentRunId=1), "parentRunId"),
        (body(messages={}), "messages"),
        (body("hi"), "messages[0]"),
        (body(user("hi", None)), "messages[0].id"),
        (body(user(3)), "messages[0].content"),
        (body(user([{"type": "image", "source": {}}])), "messages[0].content[0]"),
        (body(user(["hi"])), "messages[0].content[0]"),
        (body(user([{"type": "image", "source": 3}])), "messages[0].content[0].source"),
        (body(user([{"type": "binary", "mimeType": "image/png", "id": "x"}])), "messages[0].content[0]"),
        (body(user([{"type": "text"}])), "messages[0].content[0].text"),
        (body(resume={}), "resume"),
        (body(resume=[1]), "resume[0]"),
        (body(resume=[resumed(1)]), "resume[0].interruptId"),
        (body(resume=[resumed("a"), resumed("b", "perhaps")]), "resume[1].status"),
        (body(resume=[resumed(), resumed()]), "resume"),
        (body(resume=[resumed(str(number)) for number in range(MAX_RESUMED + 1)]), "resume"),
    ],
    ids=str,
)
def test_invalid_input_names_its_field(wrong: dict[str, Any], field: str) -> None:
    with pytest.raises(RequestError) as caught:
        parse_run_input(wrong)
    assert (caught.value.status, caught.value.code) == (400, "invalid_request_body")
    assert caught.value.details["field"] == field
    assert caught.value.hint


def test_file_of_no_use_is_named() -> None:
    with pytest.raises(RequestError) as caught:
        parse_run_input(body(user([{"type": "binary", "mimeType": "audio/wav", "data": PNG[:4]}])))
    assert (caught.value.status, caught.value.code) == (422, "unusable_file")
    assert caught.value.details["field"] == "messages[0].content[0]"


@pytest.mark.parametrize("messages", [[], [user("  ")], [{"id": "a", "role": "assistant", "content": "hi"}]])
def test_without_a_message_there_is_nothing_to_do(messages: list[Any]) -> None:
    with pytest.raises(RequestError) as caught:
        parse_run_input(body(*messages))
    assert (caught.value.status, caught.value.code) == (400, "message_required")
    assert caught.value.hint
