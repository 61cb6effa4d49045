"""Schemas that every provider accepts. The `jsonschema` library is the oracle of the draft."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema.validators import Draft202012Validator

from stopgo.actors.models.plain_schema import IN_WORDS, plain_schema

NOTHING = {"type": "object", "properties": {}}
OF_ANTHROPIC = re.compile("[a-zA-Z0-9_.-]{1,64}")


def test_valid_schema_stays_and_gets_defaults() -> None:
    assert plain_schema({}, "d") == ("d", NOTHING)
    schema = {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "type": "object",
        "properties": {"x": {"anyOf": [{"type": "string"}, {"$ref": "#/$defs/n"}]}, "y": True},
        "required": ["x"],
        "additionalProperties": False,
        "$defs": {"n": {"type": ["integer", "null"], "exclusiveMinimum": 0, "default": {"type": "array"}}},
        "x-of-its-own": {"properties": []},
    }
    assert plain_schema(schema, "d") == ("d", schema)


@pytest.mark.parametrize("keyword", ["oneOf", "anyOf", "allOf", "enum", "not"])
def test_forbidden_top_level_keywords_go_to_the_description(keyword: str) -> None:
    rest = {"type": "object", "properties": {"id": {"type": "string"}}}
    schema = {**rest, keyword: [{"required": ["id"]}]}
    assert plain_schema(schema, "d") == (f"d{IN_WORDS}{json.dumps(schema)}", rest)


@pytest.mark.parametrize(
    "schema",
    [
        {"properties": []},
        {"properties": None},
        {"properties": {"filter[name]": {}}},
        {"properties": {"$top": {}}},
        {"properties": {"x" * 65: {}}},
        {"properties": {"n": {"type": "integer", "minimum": 0, "exclusiveMinimum": True}}},
        {"properties": {"n": {"type": "any"}}},
        {"properties": {"n": {"type": "string", "required": True}}},
        {"properties": {"n": {"type": "array", "items": [{"type": "string"}]}}},
        {"properties": {"n": {"items": {"anyOf": []}}}},
        {"properties": {"n": "a text"}},
    ],
)
def test_invalid_schemas_go_to_the_description(schema: dict[str, Any]) -> None:
    assert plain_schema(schema, "d") == (f"d{IN_WORDS}{json.dumps(schema)}", NOTHING)


def test_every_array_gets_items() -> None:
    array, nullable = {"type": "array"}, {"type": ["array", "null"]}
    schema = {"properties": {"a": array, "b": {"type": "array", "items": nullable}}, "default": array}
    _, shown = plain_schema(schema, "")
    assert shown["properties"] == {
        "a": {**array, "items": {}},
        "b": {**array, "items": {**nullable, "items": {}}},
    }
    assert shown["default"] == array


KEYWORDS = [
    *Draft202012Validator.VALIDATORS,
    *("$anchor", "$comment", "$defs", "$dynamicAnchor", "$id", "$schema", "$vocabulary", "definitions"),
    *("deprecated", "contentEncoding", "contentMediaType", "contentSchema", "description", "examples"),
    *("readOnly", "title", "writeOnly"),
]
_words = st.sampled_from(["string", "array", "object", "any", "a", "#a", "$top"])
_plain = (
    st.none() | st.booleans() | st.integers(-2, 3) | st.floats(-1, 2) | _words | st.lists(_words, max_size=2)
)
_schemas = st.recursive(
    st.booleans() | st.fixed_dictionaries({"type": _words | st.lists(_words)}) | _plain,
    lambda inner: (
        st.dictionaries(st.sampled_from(KEYWORDS), inner | _plain, max_size=3)
        | st.dictionaries(_words, inner, max_size=2)
        | st.lists(inner, max_size=2)
    ),
    max_leaves=8,
)


def is_valid(schema: object) -> bool:
    return bool(Draft202012Validator(Draft202012Validator.META_SCHEMA).is_valid(schema))


@given(st.dictionaries(st.sampled_from(KEYWORDS), _schemas, max_size=4))
def test_plain_schema_is_valid_and_loses_nothing(schema: Any) -> None:
    schema.pop("type", None)
    description, shown = plain_schema(schema, "d")
    refused = schema.keys() & {"oneOf", "anyOf", "allOf", "enum", "not"}
    assert is_valid(shown)
    assert not shown.keys() & {"oneOf", "anyOf", "allOf", "enum", "not"}
    assert all(OF_ANTHROPIC.fullmatch(name) for name in shown["properties"])
    fine = is_valid(schema) and all(OF_ANTHROPIC.fullmatch(name) for name in schema.get("properties", ()))
    assert (description == "d") == (fine and not refused)
