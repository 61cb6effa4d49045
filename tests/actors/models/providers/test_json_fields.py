from __future__ import annotations

import json

import pytest

from stopgo.actors.models.providers.json_fields import MAX_COUNT, count, load_arguments
from stopgo.runtime.json_text import MAX_DEPTH

TOO_DEEP = f'{{"a": {"[" * MAX_DEPTH}{"]" * MAX_DEPTH}}}'


@pytest.mark.parametrize(
    ("raw", "arguments"),
    [(None, {}), ("", {}), ("{}", {}), ({}, {}), ({"a": [1]}, {"a": [1]}), ('{"a": [1]}', {"a": [1]})],
)
def test_arguments_are_an_object_its_text_or_absent(raw: object, arguments: object) -> None:
    assert load_arguments(raw) == (arguments, None)


@pytest.mark.parametrize("raw", ["[1]", '"{}"', "3", [1], 3, True])
def test_arguments_of_another_type_are_a_problem(raw: object) -> None:
    assert load_arguments(raw) == ({}, "the arguments are not a JSON object")


@pytest.mark.parametrize(
    "raw", ['{"a": 1', '{"a": NaN}', "{'a': 1}", json.dumps({"a": "x" * 500})[:-1], TOO_DEEP]
)
def test_malformed_arguments_are_shown_to_the_model(raw: str) -> None:
    arguments, problem = load_arguments(raw)
    assert arguments == {}
    assert problem is not None
    assert problem.startswith("the arguments are not valid JSON (")
    assert raw[:100] in problem
    assert len(problem) < 300


@pytest.mark.parametrize("value", [None, True, "5", 1.5, -1, MAX_COUNT + 1, 10**400])
def test_a_count_of_the_wrong_type_or_size_is_zero(value: object) -> None:
    assert (count(value), count(5)) == (0, 5)
