"""Tasks of other agents as questions and results."""

from __future__ import annotations

import base64
import json
from operator import mul
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stopgo.actors.a2a.remote_state import (
    LONGEST_NAME,
    LONGEST_TEXT,
    MOST_ARGUMENTS,
    MOST_ITEMS,
    answered,
    delegated,
    items_of,
)
from stopgo.actors.a2a.wire.task import (
    TERMINAL,
    Artifact,
    Data,
    File,
    Link,
    Message,
    Part,
    State,
    Status,
    Task,
    Text,
)
from stopgo.actors.tools.delegation import RemoteItem

MOST = 10_000


def said(*parts: Part, id: str = "m") -> Message:
    return Message(id=id, role="agent", parts=parts)


def task(state: State, *parts: Part, artifacts: tuple[Part, ...] = (), **more: Any) -> Task:
    message = said(*parts) if parts else None
    made = (Artifact(id="a", parts=artifacts),) if artifacts else ()
    return Task(id="t", context="c", status=Status(state, message=message), artifacts=made, **more)


def pending(*items: Any) -> Data:
    return Data({"pending": list(items)})


FULL = {
    "id": "i",
    "kind": "tool",
    "tool": "rm",
    "arguments": {"path": "/x"},
    "description": "Remove?",
    "input_schema": {"type": "object"},
    "path": ["c", "d"],
}


@pytest.mark.parametrize(
    ("parts", "items"),
    [
        (
            (Text("Two."), pending(FULL, {"id": "j"})),
            [
                RemoteItem(
                    message="m",
                    id="i",
                    kind="tool",
                    tool="rm",
                    arguments={"path": "/x"},
                    description="Remove?",
                    schema={"type": "object"},
                    agents=("c", "d"),
                ),
                RemoteItem(message="m", id="j", description="Two."),
            ],
        ),
        ((pending({"id": "i"}, {"id": "i", "tool": "other"}),), [RemoteItem(message="m", id="i")]),
        ((Text("May I?"), Text("Now?")), [RemoteItem(message="m", description="May I?\nNow?")]),
        ((Data({"form": 1}),), [RemoteItem(message="m", description='{"form": 1}')]),
        (
            (Text("Buy?"), Data({"cost": 5}), Data(6), Link("https://x.test", filename=None)),
            [RemoteItem(message="m", description='Buy?\n{"cost": 5}\n6\n[file at https://x.test]')],
        ),
        (
            (Text("May I?"), pending(7, {"id": 7}, {"id": ""}, None)),
            [RemoteItem(message="m", description='May I?\n{"pending": [7, {"id": 7}, {"id": ""}, null]}')],
        ),
        ((Text("Go on?"), pending({"id": "i"})), [RemoteItem(message="m", id="i", description="Go on?")]),
        (
            (pending({"id": "i", "kind": 5, "tool": [], "arguments": "x", "input_schema": 1, "path": {}}),),
            [RemoteItem(message="m", id="i", unshown="it cannot be shown whole (tool, arguments)")],
        ),
    ],
    ids=[
        "items",
        "an item twice",
        "words",
        "data of another shape",
        "words beside other parts",
        "items without names",
        "an item without words",
        "wrong types",
    ],
)
def test_the_questions_of_a_task(parts: tuple[Part, ...], items: list[RemoteItem]) -> None:
    assert list(items_of(task("input-required", *parts))) == items


def test_question_without_text_is_a_question() -> None:
    [item] = items_of(task("input-required"))
    assert (item.id, item.message) == (None, "")


def test_questions_are_bounded() -> None:
    many = [{**FULL, "id": f"i{number}"} for number in range(MOST_ITEMS + 1)]
    assert len(items_of(task("input-required", pending(*many)))) == MOST_ITEMS


DEEP = json.loads("[" * 60 + "1" + "]" * 60)


@pytest.mark.parametrize(
    ("changes", "unshown"),
    [
        ({"arguments": {"x": "y" * (MOST_ARGUMENTS - 20)}}, ""),
        ({"arguments": {"x": "y" * MOST_ARGUMENTS}}, "arguments"),
        ({"arguments": {"x": DEEP}}, "arguments"),
        ({"description": "z" * 60_000, "kind": ""}, ""),
        ({"description": "z" * (LONGEST_TEXT + 1)}, "description"),
        ({"tool": "r" * (LONGEST_NAME + 1)}, "tool"),
        ({"input_schema": {"x": "y" * MOST_ARGUMENTS}}, ""),  # only edits are checked with it
        ({"input_schema": {"x": "y" * MOST_ARGUMENTS}, "kind": "elicitation"}, "form"),
    ],
)
def test_question_that_cannot_be_shown_whole_says_so(changes: dict[str, Any], unshown: str) -> None:
    [item] = items_of(task("input-required", pending({**FULL, **changes})))
    assert item.unshown == (f"it cannot be shown whole ({unshown})" if unshown else "")
    if not unshown:
        assert item.arguments == changes.get("arguments", FULL["arguments"])
        assert item.description == changes.get("description", FULL["description"])
    assert len(json.dumps(attrs.asdict(item))) < 3 * LONGEST_TEXT


@pytest.mark.parametrize(
    ("found", "content", "is_error"),
    [
        (task("completed", artifacts=(Text("5"), Text("6"))), "5\n6", False),
        (task("completed", Text("bye"), artifacts=(Text("5"),)), "5", False),
        (task("completed", Text("all is well")), "all is well", False),
        (task("completed", history=(said(Text("first")), said(Text("last")))), "last", False),
        (task("completed"), "(empty answer)", False),
        (task("failed", Text("no disk"), artifacts=(Text("half"),)), "no disk\nhalf", True),
        (task("failed"), "The task is failed.", True),
        (task("canceled"), "The task is canceled.", True),
        (task("rejected", Text("not mine")), "The agent's task is rejected: not mine", True),
    ],
)
def test_the_result_of_a_task(found: Task, content: str, is_error: bool) -> None:
    end = delegated(found, MOST)
    assert (end.result.content, end.result.is_error, end.rejected) == (content, is_error, False)


THOUGHT = Text("It may be 4.", metadata={"adk_thought": True})
"""As ADK sends it (google/adk-python#4686)."""


@pytest.mark.parametrize(
    ("found", "content"),
    [
        (task("completed", artifacts=(THOUGHT, Text("5"))), "5"),
        (task("completed", THOUGHT, Text("5")), "5"),
        (task("completed", Text("5"), artifacts=(THOUGHT,)), "5"),
        (task("completed", THOUGHT), "It may be 4."),  # google/adk-python#3819
        (task("completed", history=(said(THOUGHT, Text("5")),)), "5"),
        (task("failed", THOUGHT, Text("no disk")), "no disk"),
        (task("completed", Text("5"), artifacts=(Text(""),)), "5"),
        (task("completed", Text(" "), history=(said(Text("5")),)), "5"),
    ],
)
def test_reasoning_and_empty_parts_are_no_answer(found: Task, content: str) -> None:
    assert delegated(found, MOST).result.content == content


@pytest.mark.parametrize(
    ("metadata", "content"),
    [
        ({"kagent_thought": True}, "5"),
        ({"thought": True}, "5"),  # trpc-group/trpc-agent-go#2058
        ({"type": "thinking", "thinking_id": "t"}, "5"),  # pydantic/fasta2a
        ({"adk_thought": False}, "Hm.\n5"),
        ({"adk_thought": "no"}, "Hm.\n5"),
        ({"type": "text"}, "Hm.\n5"),
        (None, "Hm.\n5"),
    ],
)
def test_marks_of_reasoning(metadata: dict[str, Any] | None, content: str) -> None:
    assert answered(said(Text("Hm.", metadata=metadata), Text("5")), MOST).result.content == content


def test_question_is_asked_without_the_reasoning_about_it() -> None:
    [item] = items_of(task("input-required", THOUGHT, Text("May I?")))
    assert item.description == "May I?"


def test_a_rejection_there_is_told() -> None:
    assert delegated(task("completed", artifacts=(Text("no"),), metadata={"rejected": True}), MOST).rejected


@pytest.mark.parametrize(
    "metadata",
    [
        None,
        {},
        {"approved": False},
        {"rejected ": True},
        *(
            {"rejected": value}
            for value in (False, None, 0, 1, 1.0, "true", "false", "no", [], [True], {"a": 1})
        ),
    ],
    ids=json.dumps,
)
def test_only_true_is_a_rejection(metadata: dict[str, Any] | None) -> None:
    for state in TERMINAL:
        assert delegated(task(state, metadata=metadata), MOST).rejected is False


def test_files_and_data_are_in_the_result() -> None:
    blob = base64.b64encode(b"\x00\x01").decode()
    parts = (
        Text("see"),
        Text("# t", "text/markdown", "t.md"),
        File(blob, "image/png", "p.png"),
        Link("https://x.example/f", None, "f"),
        Data({"n": 5}),
    )
    result = delegated(task("completed", artifacts=parts), MOST).result
    assert result.content == "see\n# t\n[file p.png, image/png]\n[file at https://x.example/f]"
    assert [block["type"] for block in result.parts] == [
        "text",
        "resource",
        "resource",
        "resource_link",
        "text",
    ]
    assert result.parts[2]["resource"] == {"uri": "file:///p.png", "blob": blob, "mimeType": "image/png"}
    assert result.structured == {"n": 5}
    again = delegated(task("completed", artifacts=(Text(result.content), *parts[2:])), MOST).result
    assert again.content == result.content, "one more agent in between says nothing more"
    assert delegated(task("completed", artifacts=(Data({"n": 5}),)), MOST).result.content == '{"n": 5}'


@pytest.mark.parametrize(
    "part", [Text("x" * 2 * MOST), File("eHh4" * MOST, "a/b", "f"), Data(["x" * 2 * MOST])]
)
def test_parts_over_the_limit_are_cut_with_a_note(part: Part) -> None:
    result = answered(said(Text("before"), part, Text("after")), MOST).result
    assert len(json.dumps([result.content, result.parts])) < 4 * MOST
    assert "before" in result.content
    assert "[cut here" in result.content or "[left out" in result.content


TEXTS = st.builds(mul, st.text(max_size=3), st.integers(0, 40))
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=6,
)
NAMES = st.sampled_from([*FULL, "pending", "approvals"])
PARTS = st.lists(
    st.builds(Text, TEXTS)
    | st.builds(Data, JSON)
    | st.builds(
        lambda items: pending(*items), st.lists(st.dictionaries(NAMES, JSON, max_size=4) | JSON, max_size=3)
    )
    | st.builds(File, TEXTS, TEXTS, TEXTS)
    | st.builds(Link, TEXTS, TEXTS, TEXTS),
    max_size=4,
)


@given(parts=PARTS, artifacts=PARTS, state=st.sampled_from(sorted(TERMINAL)), most=st.integers(0, 500))
def test_any_task_gives_bounded_questions_and_results(
    parts: list[Part], artifacts: list[Part], state: State, most: int
) -> None:
    items = items_of(task("input-required", *parts))
    assert 1 <= len(items) <= MOST_ITEMS
    assert len({item.name for item in items}) == len(items)
    result = delegated(task(state, *parts, artifacts=tuple(artifacts)), most).result
    assert result.is_error is (state != "completed")
    assert len(json.dumps(list(result.parts))) <= most + 2 * len(result.parts) + 2
