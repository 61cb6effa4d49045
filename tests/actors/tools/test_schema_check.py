"""Checks that take longer than this process can spare."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from stopgo.actors.arguments import schema_process
from stopgo.actors.arguments.json_schema import Checker, Uncheckable
from stopgo.actors.arguments.schema_check import find_mistakes
from tests.waiting import LIMIT


@pytest.fixture(autouse=True)
def no_hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy machine may take long to start a process."""
    monkeypatch.setattr(schema_process, "PATIENCE", LIMIT)


async def test_more_than_is_done_here_is_done_elsewhere() -> None:
    many = Checker({"properties": {"v": {"items": {"type": "integer"}}}})
    assert await find_mistakes({"v": [1] * 12_000}, many) == []
    assert await find_mistakes({"v": [1] * 12_000 + ["x"]}, many) == ["v.12000: 'x' is not of type 'integer'"]


async def test_deeply_nested_arguments_are_uncheckable() -> None:
    deep: dict[str, Any] = {}
    for _ in range(100_000):
        deep = {"next": deep}
    with pytest.raises(Uncheckable):
        await find_mistakes({"v": deep}, Checker({"patternProperties": {"x": {}}}))


@pytest.mark.parametrize("program", ["/bin/false", "/nobody/has/this"])
async def test_a_process_that_fails_is_an_answer(monkeypatch: pytest.MonkeyPatch, program: str) -> None:
    monkeypatch.setattr(sys, "executable", program)
    with pytest.raises(Uncheckable, match="the process that checks it"):
        await find_mistakes({"v": 1}, Checker({"patternProperties": {"x": {}}}))
