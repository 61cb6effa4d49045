"""The form of a schema that most providers accept. The judges of `test_schema_dialects.py` try all forms."""

from __future__ import annotations

from typing import Any

import pytest

from stopgo.actors.models.messages.plain_schema import IN_WORDS, MAX_RULE, MAX_RULES, plain_schema

NOTHING = {"type": "object", "properties": {}}
ID = {"type": "string"}


def test_valid_schema_stays_and_gets_defaults() -> None:
    assert plain_schema({}, "d") == ("d", NOTHING)
    schema = {
        "type": "object",
        "properties": {"x": {"anyOf": [{"type": "string"}, {"$ref": "#/$defs/n"}]}, "y": {}},
        "required": ["x"],
        "additionalProperties": False,
        "$defs": {"n": {"type": ["integer", "null"], "exclusiveMinimum": 0, "default": {"type": "array"}}},
        "x-of-its-own": {"properties": []},
    }
    assert plain_schema({"$schema": "http://json-schema.org/draft-07/schema#", **schema}, "d") == (
        "d",
        schema,
    )


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        # A tagged union, as zod writes it.
        (
            {
                "oneOf": [
                    {"properties": {"kind": {"const": "a"}, "id": ID}, "required": ["kind", "id"]},
                    {"properties": {"kind": {"const": "b"}, "n": {"type": "number"}}, "required": ["kind"]},
                ]
            },
            {
                "properties": {"kind": {"enum": ["a", "b"]}, "id": ID, "n": {"type": "number"}},
                "required": ["kind"],
            },
        ),
        # huly-mcp#66: at least one of the arguments
        (
            {"properties": {"id": ID, "n": ID}, "anyOf": [{"required": ["id"]}, {"required": ["n"]}]},
            {"properties": {"id": ID, "n": ID}},
        ),
        # Alternatives of one argument
        (
            {"anyOf": [{"properties": {"id": ID}}, {"properties": {"id": {"type": "integer"}}}]},
            {"properties": {"id": {"anyOf": [ID, {"type": "integer"}]}}},
        ),
        ({"properties": {"id": ID}, "not": {"required": ["id"]}}, {"properties": {"id": ID}}),
        ({"properties": {"id": ID}, "enum": [{"id": "a"}]}, {"properties": {"id": ID}}),
    ],
)
def test_what_no_provider_accepts_at_the_top_is_declared_side_by_side(given: Any, shown: Any) -> None:
    description, found = plain_schema({"type": "object", **given}, "d")
    assert found == {"type": "object", **shown}
    assert description.startswith(f"d{IN_WORDS}all: ")


def test_parts_of_all_of_at_the_top_are_merged() -> None:
    base = {"type": "object", "properties": {"id": ID}, "required": ["id"]}
    schema = {"allOf": [{"$ref": "#/$defs/base"}, {"properties": {"n": {}}}], "$defs": {"base": base}}
    merged = {"type": "object", "properties": {"id": ID, "n": {}}, "required": ["id"]}
    assert plain_schema(schema, "d") == ("d", merged)


def test_root_that_is_a_reference_is_declared() -> None:
    # zod-to-json-schema with a name
    args = {"type": "object", "properties": {"id": ID}}
    assert plain_schema({"$ref": "#/definitions/Args", "definitions": {"Args": args}}, "d") == ("d", args)


def test_argument_that_a_provider_cannot_name_is_told_in_words() -> None:
    schema = {"properties": {"$top": {"type": "integer"}, "id": ID}, "required": ["$top", "id"]}
    description, shown = plain_schema(schema, "d")
    assert shown == {"type": "object", "properties": {"id": ID}, "required": ["id"]}
    assert description == f'd{IN_WORDS}$top: {{"schema": {{"type": "integer"}}}}'


def test_words_are_bounded() -> None:
    wrong = {f"n{n}": {"pattern": "(" * MAX_RULE} for n in range(9)}
    description, _ = plain_schema({"properties": {**wrong, "$top": {}}}, "")
    assert len(description) == len(IN_WORDS) + MAX_RULES
    assert description.startswith(f"{IN_WORDS}$top: ")


def test_every_array_gets_items() -> None:
    array, nullable = {"type": "array"}, {"type": ["array", "null"]}
    schema = {"properties": {"a": array, "b": {"type": "array", "items": nullable}}, "default": array}
    _, shown = plain_schema(schema, "")
    assert shown["properties"] == {
        "a": {**array, "items": {}},
        "b": {**array, "items": {**nullable, "items": {}}},
    }
    assert shown["default"] == array


def test_closed_tuple_has_a_greatest_number_of_items() -> None:
    pair = {"type": "array", "items": [ID, ID], "additionalItems": False}
    _, shown = plain_schema({"properties": {"a": pair}}, "")
    assert shown["properties"]["a"] == {"type": "array", "prefixItems": [ID, ID], "items": {}, "maxItems": 2}
