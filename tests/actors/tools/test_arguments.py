"""The arguments of calls before anybody looks at them."""

from __future__ import annotations

import logging
import sys
from typing import Any

import attrs
import pytest

from stopgo.actors.arguments import arguments as arguments_module
from stopgo.actors.arguments import schema_process
from stopgo.actors.arguments.arguments import CheckedArguments, Unfit
from stopgo.actors.arguments.json_schema import Checker
from stopgo.actors.tools.tool import Tool


def tool(schema: dict[str, Any], name: str = "t") -> Tool:
    return Tool(name, "", schema, "s")


COUNT = tool({"properties": {"n": {"type": "integer"}, "s": {"type": "string"}}, "required": ["n"]})


async def test_valid_arguments_pass_and_near_ones_are_converted() -> None:
    given = {"n": 1}
    assert await CheckedArguments().fit(COUNT, given) is given
    assert await CheckedArguments().fit(COUNT, {"n": "1", "s": 2}) == {"n": 1, "s": "2"}


async def test_mistakes_are_those_of_the_converted_arguments() -> None:
    fit = await CheckedArguments().fit(COUNT, {"n": "one", "s": 2})
    assert fit == Unfit(("n: 'one' is not of type 'integer'",))
    assert await CheckedArguments().fit(COUNT, {}) == Unfit(("'n' is a required property",))


async def test_that_no_arguments_fit_is_found_out_once_for_each_tool(monkeypatch: pytest.MonkeyPatch) -> None:
    checked: list[Any] = []
    mistakes = Checker.mistakes

    def counted(checker: Checker, value: Any, work: Any) -> list[str]:
        checked.append(value)
        return mistakes(checker, value, work)

    monkeypatch.setattr(Checker, "mistakes", counted)
    arguments, optional = CheckedArguments(), tool({"properties": {"n": {"type": "integer"}}})
    for _ in range(3):
        assert await arguments.fit(optional, {}) == {}
    assert isinstance(await arguments.fit(optional, {"n": "one"}), Unfit)
    assert await arguments.fit(COUNT, {"n": 1}) == {"n": 1}
    assert isinstance(await arguments.fit(COUNT, {}), Unfit)
    assert isinstance(await arguments.fit(COUNT, {}), Unfit)
    assert checked == [{}, {"n": "one"}, {"n": 1}, {}, {}]


async def test_a_broken_part_of_a_schema_is_named_once_and_the_rest_is_checked(
    caplog: pytest.LogCaptureFixture,
) -> None:
    arguments = CheckedArguments()
    schema = {"patternProperties": {"(": {}}, "properties": {"n": {"enum": "a", "minLength": 2}}}
    for _ in range(2):
        assert await arguments.fit(tool(schema), {"n": "12"}) == {"n": "12"}
        assert isinstance(await arguments.fit(tool(schema), {"n": "1"}), Unfit)
    [record] = caplog.records
    assert record.levelno == logging.WARNING
    assert (
        '"t" of server "s" are invalid and are not checked: patternProperties, n.enum' in record.getMessage()
    )
    await arguments.fit(tool(schema, "other"), {"n": "12"})
    assert len(caplog.records) == 2


async def test_a_schema_without_end_lets_all_pass_with_one_warning(caplog: pytest.LogCaptureFixture) -> None:
    arguments = CheckedArguments()
    endless = tool({"allOf": [{"$ref": "#"}], "properties": {"n": {}}})
    for n in ("1", "2"):
        assert await arguments.fit(endless, {"n": n}) == {"n": n}
    [record] = caplog.records
    assert '"t" of server "s" are not checked' in record.getMessage()


SLOW = tool({"properties": {"v": {"pattern": "^(?:a|aa)+$"}, "n": {"type": "integer"}}})


async def test_arguments_whose_check_takes_too_long_are_refused_and_the_next_ones_checked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(schema_process, "PATIENCE", 1.0)
    arguments = CheckedArguments()
    for _ in range(2):
        unfit = await arguments.fit(SLOW, {"v": "a" * 60 + "!"})
        assert isinstance(unfit, Unfit)
        assert "took longer than 1 s" in unfit.mistakes[0]
        assert isinstance(await arguments.fit(SLOW, {"v": "aa", "n": "x"}), Unfit)
        assert await arguments.fit(SLOW, {"v": "aa", "n": 1}) == {"v": "aa", "n": 1}


ENDLESS = {"not": {"$ref": "#/$defs/endless"}}
FAR = {"$defs": {"endless": ENDLESS}, "properties": {"p": {"pattern": "^/safe/"}, "v": ENDLESS}}


@pytest.mark.parametrize(
    ("schema", "given"),
    [
        # A value that the schema cannot be applied to must not hide a mistake elsewhere.
        (
            {"properties": {"v": {"multipleOf": 0.1}, "p": {"pattern": "^/safe/"}}},
            {"v": 10**400, "p": "/etc"},
        ),
        (FAR, {"v": 1, "p": "/etc"}),
    ],
    ids=["number", "part without end"],
)
async def test_arguments_that_cannot_be_checked_are_refused(
    schema: dict[str, Any], given: dict[str, Any]
) -> None:
    unfit = await CheckedArguments().fit(tool(schema), given)
    assert isinstance(unfit, Unfit)
    assert "cannot be checked" in unfit.mistakes[0]


async def test_a_process_that_fails_refuses_the_arguments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/bin/false")
    by_pattern = tool({"patternProperties": {"x": {}}})
    assert isinstance(await CheckedArguments().fit(by_pattern, {"v": 1}), Unfit)


async def test_schemas_are_made_ready_once_and_so_many_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[dict[str, Any]] = []

    def make(schema: dict[str, Any]) -> Checker:
        made.append(schema)
        return Checker(schema)

    monkeypatch.setattr(arguments_module, "Checker", make)
    monkeypatch.setattr(arguments_module, "KEPT", 2)
    arguments = CheckedArguments()
    for name in "aabbaacabb":
        await arguments.fit(attrs.evolve(COUNT, own_name=name), {"n": 1})
    assert len(made) == 4  # a, b, c; and b once more, for c took its place
