from __future__ import annotations

import json
import types

import pytest

from stopgo.actors.common.wire_json import MOST, count, dump, load, load_arguments
from stopgo.runtime.journal.json_text import MAX_DEPTH

HALF = "\ud83d"


def test_half_of_a_pair_never_leaves_and_never_comes_in() -> None:
    assert dump({"a": f"x{HALF}"}) == '{"a":"x\ufffd"}'.encode()
    assert load(rb'{"a": "x\ud83d", "b": "\ud83d\ude00"}') == {"a": "x\ufffd", "b": "😀"}


def test_what_is_written_is_compact_and_readable() -> None:
    assert dump({"a": "é", "b": types.MappingProxyType({"c": 1})}) == '{"a":"é","b":{"c":1}}'.encode()


@pytest.mark.parametrize("value", [float("nan"), float("inf"), object()])
def test_what_is_not_json_is_not_written(value: object) -> None:
    with pytest.raises((TypeError, ValueError)):
        dump({"a": value})


@pytest.mark.parametrize("raw", ["", "{", "NaN", "-Infinity", "1e999", "[" * 100_000, "9" * 5_000, b"\xff"])
def test_what_is_not_json_is_not_read(raw: str | bytes) -> None:
    with pytest.raises(ValueError):
        load(raw)


def test_what_others_could_not_write_down_again_is_not_read() -> None:
    assert load("[" * MAX_DEPTH + "]" * MAX_DEPTH)
    assert load(json.dumps([{}] * 2 * MAX_DEPTH))
    deeper = "[" * (MAX_DEPTH + 1) + "]" * (MAX_DEPTH + 1)
    with pytest.raises(ValueError, match="nested too deeply"):
        load(deeper)
    arguments, problem = load_arguments(f'{{"a": {deeper}}}')
    assert (arguments, problem and problem[:40]) == ({}, "the arguments are not valid JSON (nested")


@pytest.mark.parametrize("raw", [None, "", "{}", {}])
def test_no_arguments(raw: object) -> None:
    assert load_arguments(raw) == ({}, None)


@pytest.mark.parametrize("raw", [{"a": [1]}, '{"a": [1]}'])
def test_arguments_as_an_object_or_its_text(raw: object) -> None:
    assert load_arguments(raw) == ({"a": [1]}, None)


@pytest.mark.parametrize("raw", ["[1]", '"{}"', "3", [1], 3, True])
def test_arguments_that_are_no_object(raw: object) -> None:
    assert load_arguments(raw) == ({}, "the arguments are not a JSON object")


@pytest.mark.parametrize("raw", ['{"a": 1', '{"a": NaN}', "{'a': 1}", json.dumps({"a": "x" * 500})[:-1]])
def test_malformed_arguments_are_shown_to_the_model(raw: str) -> None:
    arguments, problem = load_arguments(raw)
    assert arguments == {}
    assert problem is not None
    assert problem.startswith("the arguments are not valid JSON (")
    assert raw[:100] in problem
    assert len(problem) < 300


@pytest.mark.parametrize("value", [None, True, "5", 1.5, -1, MOST + 1, 10**400])
def test_what_counts_nothing_is_nothing(value: object) -> None:
    assert (count(value), count(5)) == (0, 5)
