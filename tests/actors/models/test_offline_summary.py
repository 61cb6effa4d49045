from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stopgo.actors.models.messages.messages import ToolMessage
from stopgo.actors.models.offline.result_summary import summarise


def told(tool: str, content: Any, *, is_error: bool = False) -> str:
    text = content if isinstance(content, str) else json.dumps(content, indent=2)
    return summarise((ToolMessage("c", tool, text, is_error),))


ONE = {"id": "1763", "name": "test-1", "value": 10, "created_at": "x", "updated_at": "x"}


@pytest.mark.parametrize(
    ("tool", "content", "text"),
    [
        ("resources_add", ONE, "Added test-1 = 10 (id 1763)."),
        ("resources_get", ONE, "test-1 = 10 (id 1763)."),
        ("resources_list", {"resources": None, "count": 0}, "No resources."),
        ("resources_list", {"resources": [], "count": 0}, "No resources."),
        ("resources_list", {"resources": [ONE], "count": 1}, "1 resource:\n- test-1 = 10 (id 1763)"),
        (
            "resources_list",
            {"resources": [ONE, {"name": "b", "value": "x y"}], "count": 2},
            "2 resources:\n- test-1 = 10 (id 1763)\n- b = x y",
        ),
        ("resources_remove", {"removed_count": 1, "removed_ids": ["1763"]}, "Removed 1 resource."),
        ("resources_remove", {"removed_count": 3, "removed_ids": ["1", "2", "3"]}, "Removed 3 resources."),
        ("resources_remove", {"removed_count": 0, "removed_ids": None}, "Removed no resources."),
        (
            "list_folder",
            {"entries": [{"name": "a.txt", "type": "file", "size": 3}], "count": 1},
            "1 entry:\n- a.txt (type file, size 3)",
        ),
        (
            "grep",
            {"matches": ["a"], "truncated": True},
            '{\n  "matches": [\n    "a"\n  ],\n  "truncated": true\n}',
        ),
        ("list_directory", "[FILE] a\n[DIR] b", "[FILE] a\n[DIR] b"),
        ("anything", {"a": 1, "b": {"c": 2}}, json.dumps({"a": 1, "b": {"c": 2}}, indent=2)),
        ("anything", "[1, 2]", "[1, 2]"),
        ("anything", "7", "7"),
        ("list", {"entries": ["a", {"x": 1}, 3]}, '3 entries:\n- a\n- {"x": 1}\n- 3'),
    ],
)
def test_results_in_words(tool: str, content: Any, text: str) -> None:
    assert told(tool, content) == text


def test_long_list_is_cut() -> None:
    lines = told("list_files", {"files": [f"f{n}" for n in range(250)]}).splitlines()
    assert len(lines) == 102
    assert lines[-1] == "- and 150 more"


def test_error_names_the_tool() -> None:
    assert told("resources_remove", "invalid pattern: (", is_error=True) == (
        "resources_remove failed: invalid pattern: ("
    )


@pytest.mark.parametrize(
    ("content", "ending"),
    [
        ("Operation rejected by the user. Nothing was done.", ""),
        ("Operation rejected by the user. Nothing was done. Reason: not: today", " Reason: not: today"),
    ],
)
def test_rejection_is_reported_with_its_reason(content: str, ending: str) -> None:
    text = told("resources_add", content, is_error=True)
    assert text == f"resources_add was rejected: nothing was changed.{ending}"


def test_several_results_keep_their_order() -> None:
    results = (ToolMessage("1", "a", "one"), ToolMessage("2", "b", "two", is_error=True))
    assert summarise(results) == "one\nb failed: two"


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=10,
)
_OBJECTS = st.dictionaries(st.sampled_from(["name", "value", "id", "count", "x_count", "items"]), _JSON)


@given(st.text(max_size=20), _OBJECTS | _JSON, st.booleans())
def test_every_result_gets_a_text(tool: str, data: Any, is_error: bool) -> None:
    assert told(tool, data, is_error=is_error) or data == ""


def test_json_nested_too_deeply_is_quoted() -> None:
    assert told("x", "[" * 100_000) == "[" * 100_000
