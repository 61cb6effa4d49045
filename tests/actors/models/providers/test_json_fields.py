from __future__ import annotations

import json

import pytest

from stopgo.actors.models.codecs.json_fields import MAX_COUNT, Unclear, count, load_arguments
from stopgo.runtime.json_text import MAX_DEPTH

NONE: list[object] = [None, "", " \n", "null", " null ", '""', '"null"', "{}", '"{}"', {}, "{}{}"]
TOO_DEEP = f'{{"a": {"[" * MAX_DEPTH}{"]" * MAX_DEPTH}}}'


@pytest.mark.parametrize(
    ("raw", "arguments"),
    [
        # No arguments: Kilo-Org/cloud#4753, 1jehuang/jcode#225.
        *((none, {}) for none in NONE),
        *((one, {"a": [1]}) for one in ({"a": [1]}, '{"a": [1]}', '\n{"a": [1]}\n')),
        # The empty input with which Claude opens a call: BerriAI/litellm#4537, openai/openai-agents-js#712.
        *((opened, {"a": 1}) for opened in ('{}{"a": 1}', '{} {"a": 1}', '{}{}{"a": 1}', 'null{"a": 1}')),
        # Encoded twice: FoundationAgents/OpenManus#989, quarkiverse/quarkus-langchain4j#2642.
        *((twice, {"a": "b"}) for twice in (r'"{\"a\": \"b\"}"', r'"\"{\\\"a\\\": \\\"b\\\"}\""')),
        ('{"a": 1}{"a": 1}', {"a": 1}),
        ('{"a": 1, "a": 1}', {"a": 1}),
        ('{"a": "x\ny\tz"}', {"a": "x\ny\tz"}),
        (r'{"a": "\ud83d\ude42 \ud83d"}', {"a": "\U0001f642 \ufffd"}),
    ],
)
def test_arguments_with_one_meaning_are_read(raw: object, arguments: object) -> None:
    assert load_arguments(raw) == (arguments, None)


@pytest.mark.parametrize("raw", ["[1]", "3", [1], 3, True, False, "false", "[]", '"3"'])
def test_arguments_of_another_type_are_a_problem(raw: object) -> None:
    assert load_arguments(raw) == ({}, "the arguments are not a JSON object")


@pytest.mark.parametrize(
    ("raw", "problem"),
    [
        ('{"a": 1}{"a": 2}', "the arguments are more than one JSON object"),
        ('{"a": 1}{"a": true}', "the arguments are more than one JSON object"),
        ('{"a": 1}{}', "the arguments are more than one JSON object"),
        ('{"a": 1}{"b": 2}', "the arguments are more than one JSON object"),
        ('{"a": 1}null', "the arguments are not a JSON object"),
        ('{"a": 1, "a": 2}', "the name 'a' is there twice"),
        ('{"o": {"a": 1, "a": true}}', "the name 'a' is there twice"),
        (Unclear('{"a": 1}'), "may belong to different calls"),
        (r'"\"\\\"{}\\\"\""', "encoded too many times"),
    ],
)
def test_arguments_with_two_meanings_are_a_problem(raw: object, problem: str) -> None:
    arguments, said = load_arguments(raw)
    assert arguments == {}
    assert said is not None
    assert problem in said


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
