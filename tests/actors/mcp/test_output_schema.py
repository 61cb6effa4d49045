from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from stopgo.actors.mcp.wire.output_schema import OutputSchemas
from stopgo.actors.tools.tool import Tool, ToolResult

NUMBER = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}


def outputs(schema: Mapping[str, Any] | None) -> OutputSchemas:
    outputs = OutputSchemas()
    outputs.set_tools([Tool("t", "", {"type": "object"}, "s", output_schema=schema)])
    return outputs


@pytest.mark.parametrize(
    ("structured", "said"),
    [
        ({"n": 1}, None),
        ({"n": "secret"}, "n: 'secret' is not of type 'integer'"),
        ({}, "'n' is a required property"),
        (None, "it has no structured content"),
        ([1], "[1] is not of type 'object'"),
    ],
)
def test_result_that_does_not_fit_gets_a_note(
    structured: Any, said: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    result = ToolResult("text", parts=({"type": "text", "text": "text"},), structured=structured)
    judged = outputs(NUMBER).checked("t", result)
    note = f"[Note: this result does not fit the output schema of its tool: {said}]\n" if said else ""
    assert judged.content == f"{note}text"
    assert (judged.is_error, judged.parts, judged.structured) == (False, result.parts, structured)
    assert ('a result of the tool "t" does not fit' in caplog.text) == bool(said)
    assert "secret" not in caplog.text


@pytest.mark.parametrize(
    "schema",
    [
        None,
        {"type": "nonsense"},
        {"$ref": "https://elsewhere.invalid/schema"},
    ],
)
def test_schema_that_cannot_be_applied_counts_as_none(schema: Mapping[str, Any] | None) -> None:
    result = ToolResult("text", structured={"n": 1})
    judge = outputs(schema)
    assert [judge.checked("t", result) for _ in range(2)] == [result, result]


@pytest.mark.parametrize("rule", [{"n": {"pattern": "(a|aa)+$"}}, {"all": {"uniqueItems": True}}], ids=str)
def test_result_whose_check_takes_too_long_gets_a_note_and_the_next_one_is_checked(
    rule: Mapping[str, Any],
) -> None:
    judge = outputs({"type": "object", "properties": {**rule, "m": {"type": "integer"}}})
    slow = ToolResult("text", structured={"n": "a" * 50 + "b", "all": list(range(1000))})
    assert judge.checked("t", slow).content.startswith("[Note: checking this result")
    assert "does not fit" in judge.checked("t", ToolResult("text", structured={"m": "x"})).content


def test_error_is_not_checked() -> None:
    failed = ToolResult("it failed", is_error=True)
    assert outputs(NUMBER).checked("t", failed) == failed
    assert outputs(NUMBER).checked("another", failed) == failed
