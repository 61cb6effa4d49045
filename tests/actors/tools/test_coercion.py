"""Values brought to the types a schema asks for: only where one thing can be meant, and never what fits."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stopgo.actors.arguments.arguments import MAX_DIGITS, coerce
from stopgo.actors.arguments.json_schema import Checker, Work


def brought(value: Any, schema: Any, **more: Any) -> Any:
    return coerce({"v": value}, {"properties": {"v": schema}, **more})["v"]


def same(one: Any, other: Any) -> bool:
    """Equal, to the type."""
    return json.dumps(one) == json.dumps(other)


@pytest.mark.parametrize(
    ("value", "type", "expected"),
    [
        (5, "string", "5"),
        (-5, "string", "-5"),
        (3.0, "string", "3"),
        (1e21, "string", "1000000000000000000000"),
        (1.5, "string", "1.5"),
        (0.1, "string", "0.1"),
        (True, "string", "true"),
        (False, "string", "false"),
        ("5", "integer", 5),
        ("-12", "integer", -12),
        ("5", "number", 5),
        ("5.5", "number", 5.5),
        ("1e3", "number", 1000.0),
        ("true", "boolean", True),
        ("False", "boolean", False),
        (5, ["string", "null"], "5"),
        ("5", ["integer", "null"], 5),
        # Texts of lists and objects: anthropics/claude-code#73137, openclaw#96922.
        ('["a", "b"]', "array", ["a", "b"]),
        ('{"x": 1}', "object", {"x": 1}),
        (" [1]\n", ["array", "null"], [1]),
        ("null", ["array", "null"], None),
    ],
)
def test_unambiguous_values_are_converted(value: Any, type: Any, expected: Any) -> None:
    assert same(brought(value, {"type": type}), expected)


def test_text_of_an_object_is_parsed_behind_a_reference() -> None:
    # As Pydantic 1 writes a field whose type is a model.
    schema = {
        "properties": {"v": {"allOf": [{"$ref": "#/definitions/V"}], "description": "d"}},
        "definitions": {"V": {"type": "object", "properties": {"n": {"type": "integer"}}}},
    }
    assert coerce({"v": '{"n": "5"}'}, schema) == {"v": {"n": 5}}


def test_text_of_a_list_has_its_items_converted() -> None:
    schema = {"type": "array", "items": {"type": "object", "properties": {"n": {"type": "integer"}}}}
    assert brought('[{"n": "5"}, {"n": null}]', schema) == [{"n": 5}, {}]


# Models write null for what they leave out (LibreChat#11905, NeMo-Agent-Toolkit#1269).
@pytest.mark.parametrize(
    ("schema", "required", "is_left_out"),
    [
        ({"type": "string"}, [], True),
        ({"anyOf": [{"type": "string"}, {"type": "integer"}]}, ["w"], True),
        ({"type": "string"}, None, True),
        ({"type": "string"}, ["v"], False),
        ({"type": ["string", "null"]}, [], False),
        ({"anyOf": [{"type": "string"}, {"type": "null"}]}, [], False),
        ({"anyOf": [{"type": "string"}, {"enum": [1, None]}]}, [], False),
        ({"const": None}, [], False),
        ({}, [], False),
        ({"enum": ["a", "b"]}, [], True),
        ({"enum": ["a", None]}, [], False),
        ({"const": "a"}, [], True),
        ({"type": "string", "nullable": True}, [], False),
        ({"allOf": [{"type": "object"}]}, [], True),
    ],
)
def test_null_of_an_optional_argument_is_left_out(schema: Any, required: Any, is_left_out: bool) -> None:
    found = coerce({"v": None, "w": 1}, {"properties": {"v": schema}, "required": required})
    assert found == ({"w": 1} if is_left_out else {"v": None, "w": 1})


@pytest.mark.parametrize(
    ("value", "type"),
    [
        ("5", "string"),
        (5, "number"),
        (5.0, "integer"),
        ('["a"]', "string"),
        ('["a"]', ["array", "string"]),
        ('["a"', "array"),
        ('{"x": 1}', "array"),
        ("[NaN]", "array"),
        ('"[1]"', "array"),
        ("a, b", "array"),
        ([1], "string"),
        ({"a": 1}, "string"),
        ("5.0", "integer"),
        ("five", "integer"),
        ("05", "integer"),
        ("+5", "integer"),
        (" 5", "integer"),
        ("٥", "integer"),
        ("", "integer"),
        ("", "boolean"),
        ("yes", "boolean"),
        (1, "boolean"),
        (True, "integer"),
        ("1e999", "number"),
        ("NaN", "number"),
        (float("inf"), "string"),
        (10 ** (MAX_DIGITS + 1), "string"),
        ("9" * (MAX_DIGITS + 1), "integer"),
        ("null", ["integer", "null"]),
        (5, ["string", "integer"]),
        ("5", 7),
        ("5", [7]),
        ("5", "no such type"),
    ],
)
def test_valid_and_ambiguous_values_are_not_converted(value: Any, type: Any) -> None:
    assert brought(value, {"type": type}) is value


def test_inside_objects_lists_references_and_alternatives() -> None:
    row = {"type": "object", "properties": {"n": {"type": "integer"}}}
    assert brought([{"n": "1"}, {"n": 2}], {"items": {"$ref": "#/$defs/row"}}, **{"$defs": {"row": row}}) == [
        {"n": 1},
        {"n": 2},
    ]
    assert brought({"a": 1}, {"additionalProperties": {"type": "string"}}) == {"a": "1"}
    assert brought(["1", 2], {"prefixItems": [{"type": "integer"}], "items": {"type": "string"}}) == [1, "2"]
    assert brought("5", {"anyOf": [{"type": "integer"}, {"type": "null"}]}) == 5
    assert brought({"n": "5"}, {"oneOf": [row, {"type": "null"}]}) == {"n": 5}
    assert brought({"n": "5"}, {"anyOf": [row, {"type": "object"}]}) == {"n": "5"}  # which of them?
    assert brought("5", {"$ref": "#/$defs/a~1b"}, **{"$defs": {"a/b": {"type": "integer"}}}) == 5


@pytest.mark.parametrize(
    "schema",
    [
        True,
        False,
        None,
        [],
        {"$ref": "#/properties/v"},
        {"$ref": "#/nowhere"},
        {"$ref": "https://example.com/x"},
        {"$ref": 7},
        {"anyOf": [{"$ref": "#/properties/v"}, 3]},
        {"properties": 3, "items": 3},
    ],
    ids=str,
)
def test_a_broken_schema_changes_nothing(schema: Any) -> None:
    for value in ("5", 5, ["5"], {"a": "5"}):
        assert brought(value, schema) == value


def test_no_end_is_no_crash() -> None:
    deep: dict[str, Any] = {"n": "5"}
    for _ in range(100_000):
        deep = {"v": deep}
    assert coerce(deep, {"properties": {"v": {"$ref": "#"}}}) is deep


# ------------------------------------------------------------------- properties

_SCALARS = st.sampled_from(["string", "integer", "number", "boolean", "null"])


def _nested(inner: st.SearchStrategy[dict[str, Any]]) -> st.SearchStrategy[dict[str, Any]]:
    names = st.sampled_from(["a", "b", "c"])
    return st.one_of(
        st.builds(lambda items: {"type": "array", "items": items}, inner),
        st.builds(lambda known: {"type": "object", "properties": known}, st.dictionaries(names, inner)),
        st.builds(lambda other: {"type": "object", "additionalProperties": other}, inner),
        st.builds(lambda each: {"anyOf": each}, st.lists(inner, min_size=1, max_size=3)),
    )


DEFS = {
    "n": {"type": "integer"},
    "o": {"properties": {"a": {"$ref": "#/$defs/n"}, "b": {"$ref": "#/$defs/o"}}},
}
SCHEMAS = st.recursive(
    st.builds(lambda type: {"type": type}, _SCALARS)
    | st.sampled_from([{"$ref": "#/$defs/n"}, {"$ref": "#/$defs/o"}]),
    _nested,
    max_leaves=8,
)
_FINITE = st.floats(allow_nan=False, allow_infinity=False)
VALUES = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(),
        _FINITE,
        st.sampled_from(["5", "5.5", "true", "x", ""]),
    ),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner),
    max_leaves=8,
)


@given(schema=SCHEMAS, value=VALUES)
def test_coercion_keeps_valid_values_and_is_idempotent(schema: dict[str, Any], value: Any) -> None:
    root, arguments = {"properties": {"v": schema}, "$defs": DEFS}, {"v": value}
    before = copy.deepcopy(arguments)
    result = coerce(arguments, root)
    assert same(arguments, before)
    assert same(coerce(result, root), result)
    if not Checker(root).mistakes(arguments, Work()):
        assert same(result, arguments)


@given(value=st.one_of(st.booleans(), st.integers(), _FINITE))
def test_there_and_back(value: Any) -> None:
    kind = "boolean" if isinstance(value, bool) else "number"
    text = brought(value, {"type": "string"})
    assert isinstance(text, str)
    assert brought(text, {"type": kind}) == value
