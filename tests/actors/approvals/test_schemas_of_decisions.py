"""What people change or answer is held to the schema they were shown."""

from __future__ import annotations

from typing import Any

import psutil
import pytest

from stopgo.actors.approvals.elicitation_approval import check_answer
from stopgo.actors.approvals.tool_approval import check_edit
from stopgo.actors.arguments import schema_process
from stopgo.actors.common.errors import AgentError
from tests.waiting import LIMIT

NAME: dict[str, Any] = {
    "type": "object",
    "properties": {"name": {"type": "string", "pattern": "^(?:[a-z]|-)+$"}},
    "patternProperties": {"^x-": {"type": "integer"}},
}


@pytest.fixture(autouse=True)
def no_hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy machine may take long to start a process."""
    monkeypatch.setattr(schema_process, "PATIENCE", LIMIT)


async def test_a_schema_with_patterns_of_names_is_applied() -> None:
    await check_edit({"name": "web-one", "x-n": 1}, NAME)
    with pytest.raises(AgentError, match="do not fit") as caught:
        await check_edit({"name": "A \ud800", "x-n": "b"}, NAME)
    assert caught.value.code == "invalid_arguments"
    assert len(caught.value.details["errors"]) == 2
    assert caught.value.hint


async def test_endless_pattern_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schema_process, "PATIENCE", 1.0)
    schema = {"properties": {"v": {"items": {"pattern": "^(?:a|aa)+$"}}}}
    with pytest.raises(AgentError, match="took longer") as caught:
        await check_edit({"v": ["a" * 60 + "!"]}, schema)
    assert caught.value.code == "invalid_arguments"
    assert caught.value.hint
    assert psutil.Process().children() == []


ENDLESS: dict[str, Any] = {
    "allOf": [{"$ref": "#/$defs/a"}],
    "$defs": {"a": {"not": {"$ref": "#/$defs/a"}}},
}


async def test_an_edit_that_cannot_be_checked_is_refused() -> None:
    with pytest.raises(AgentError, match="cannot be checked") as caught:
        await check_edit({"name": "x"}, ENDLESS)
    assert caught.value.code == "invalid_arguments"
    assert caught.value.hint


async def test_an_answer_that_cannot_be_checked_is_refused() -> None:
    with pytest.raises(AgentError, match="cannot be checked") as caught:
        await check_answer({"name": "x"}, ENDLESS)
    assert caught.value.code == "invalid_arguments"
    assert caught.value.hint
