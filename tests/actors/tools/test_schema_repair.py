"""Schemas of servers become schemas of draft 2020-12. The `jsonschema` library is the oracle of the draft."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema.validators import Draft202012Validator

from stopgo.actors.arguments.schema_repair import MAX_DEPTH, repaired

TEXT = {"type": "string"}
NUMBER = {"type": "number"}


def inside(property: Any, **more: Any) -> dict[str, Any]:
    return {"type": "object", "properties": {"v": property}, **more}


@pytest.mark.parametrize(
    ("given", "right"),
    [
        # draft 2020-12, release notes: a list under `items` is `prefixItems`, `additionalItems` is `items`
        ({"items": [NUMBER, TEXT]}, {"prefixItems": [NUMBER, TEXT]}),
        ({"items": [NUMBER], "additionalItems": False}, {"prefixItems": [NUMBER], "items": False}),
        ({"items": [NUMBER], "additionalItems": TEXT}, {"prefixItems": [NUMBER], "items": TEXT}),
        ({"items": TEXT, "additionalItems": False}, {"items": TEXT}),
        ({"type": "array", "items": []}, {"type": "array"}),
        # draft-06, release notes: the exclusive limits are numbers
        ({"minimum": 0, "exclusiveMinimum": True}, {"exclusiveMinimum": 0}),
        ({"maximum": 9, "exclusiveMaximum": True}, {"exclusiveMaximum": 9}),
        ({"minimum": 0, "exclusiveMinimum": False}, {"minimum": 0}),
        ({"exclusiveMinimum": True}, {}),
        # draft 2019-09, release notes: `dependencies` is two keywords
        (
            {"dependencies": {"a": ["b"], "c": {"required": ["d"]}, "e": "f"}},
            {"dependentRequired": {"a": ["b"], "e": ["f"]}, "dependentSchemas": {"c": {"required": ["d"]}}},
        ),
        # draft-04, migration: `divisibleBy`, `extends`, types that are schemas
        ({"divisibleBy": 2}, {"multipleOf": 2}),
        ({"extends": TEXT}, {"allOf": [TEXT]}),
        ({"type": ["string", NUMBER]}, {"anyOf": [TEXT, NUMBER]}),
        # draft-04, 4.5.2: ids
        ({"id": "http://x/y", "$schema": "http://json-schema.org/draft-04/schema#", **TEXT}, TEXT),
        # OpenAPI 3.0.3, Schema Object
        ({**TEXT, "nullable": True}, {"type": ["string", "null"]}),
        ({**TEXT, "nullable": True, "enum": ["a"]}, {"type": ["string", "null"], "enum": ["a", None]}),
        ({**TEXT, "nullable": False}, TEXT),
        (
            {"nullable": True, "description": "d", "oneOf": [TEXT, NUMBER]},
            {"description": "d", "anyOf": [{"oneOf": [TEXT, NUMBER]}, {"type": "null"}]},
        ),
        ({"nullable": True, "const": 1}, {"enum": [1, None]}),
        # slips of generators
        ({"type": "STRING"}, TEXT),
        ({"type": "int"}, {"type": "integer"}),
        ({"type": ["bool", "none"]}, {"type": ["boolean", "null"]}),
        ({"type": "any", "description": "d"}, {"description": "d"}),
        ({"type": None, "description": None, "title": None, "format": None, "enum": None}, {}),
        ({**TEXT, "required": None}, TEXT),
        ({"type": "object", "properties": None, "required": "a"}, {"type": "object", "required": ["a"]}),
        ({"required": ["a", 3, "a", None]}, {"required": ["a"]}),
        ({"type": "string", "enum": ["a", None, "a"]}, {"type": "string", "enum": ["a"]}),
        ({"type": "integer", "enum": ["1", "2"]}, {"type": "integer", "enum": [1, 2]}),
        ({"type": "string", "enum": [1, True]}, {"type": "string", "enum": ["1", "true"]}),
        ({"const": None, "default": None}, {"const": None, "default": None}),
        (True, {}),
        (None, {}),
        (False, {"not": {}}),
        ("integer", {"type": "integer"}),
    ],
)
def test_older_keyword_keeps_its_meaning(given: Any, right: Any) -> None:
    found = repaired(inside(given))
    assert (found.schema, found.lost) == (inside(right), {})


@pytest.mark.parametrize(
    ("wrong", "left"),
    [
        ({**TEXT, "minLength": -1}, TEXT),
        ({**TEXT, "minLength": "x"}, TEXT),
        ({**TEXT, "pattern": "("}, TEXT),
        ({**TEXT, "enum": "a"}, TEXT),
        ({**TEXT, "enum": []}, TEXT),
        ({**TEXT, "enum": {"a": 1}}, TEXT),
        ({**TEXT, "enum": [{}]}, TEXT),
        ({"type": "weird", "title": "t"}, {"title": "t"}),
        ({"type": 7}, {}),
        ({**TEXT, "anyOf": []}, TEXT),
        ({**NUMBER, "multipleOf": 0}, NUMBER),
        ({"properties": []}, {"properties": {}}),
        ({"properties": [1]}, {"properties": {}}),
        ({"patternProperties": {"(": {}, "a": {}}}, {"patternProperties": {"a": {}}}),
        ({"$ref": "#/nowhere", "description": "d"}, {"description": "d"}),
        ({"$ref": "https://example.invalid/schema.json"}, {}),
        ({"$ref": 7, **TEXT}, TEXT),
        (7, {}),
        ("a text", {}),
        ([TEXT], {}),
    ],
)
def test_only_an_invalid_constraint_is_lost(wrong: Any, left: Any) -> None:
    found = repaired({"type": "object", "properties": {"v": wrong, "label": TEXT}, "required": ["label"]})
    assert found.schema == {
        "type": "object",
        "properties": {"v": left, "label": TEXT},
        "required": ["label"],
    }
    assert found.lost.keys() == (set() if wrong == {"properties": []} else {"v"})


def test_required_of_a_property_becomes_that_of_its_object() -> None:
    # draft-03, 5.7
    given = {"properties": {"a": {**TEXT, "required": True}, "b": {**TEXT, "required": False}}}
    assert repaired(given).schema == {"properties": {"a": TEXT, "b": TEXT}, "required": ["a"]}
    nested = inside(given, required=["v"])
    assert repaired(nested).schema["properties"]["v"]["required"] == ["a"]


@pytest.mark.parametrize(
    ("reference", "root"),
    [
        ("#/definitions/n", {"definitions": {"n": NUMBER}}),
        ("#/$defs/n", {"$defs": {"n": NUMBER}}),
        ("#/$defs/n", {"definitions": {"n": NUMBER}}),
        ("#/components/schemas/n", {"components": {"schemas": {"n": NUMBER}}}),
        ("#/properties/list/items", {}),
        ("#/properties/tuple/items/0", {}),
        ("#/definitions/a~1b%20c/n", {"definitions": {"a/b c": {"n": NUMBER}}}),
        ("#n", {"$defs": {"x": {"$anchor": "n", **NUMBER}}}),
        ("#n", {"definitions": {"x": {"id": "#n", **NUMBER}}}),
        ("n.json", {"$defs": {"x": {"$id": "n.json", **NUMBER}}}),
        ("http://x/y#/$defs/n", {"$id": "http://x/y", "$defs": {"n": NUMBER}}),
        ("#/definitions/m", {"definitions": {"m": {"$ref": "#/definitions/n"}, "n": NUMBER}}),
        ("#/$defs/n", {"properties": {"inner": {"$defs": {"n": NUMBER}}}}),
    ],
)
def test_every_reference_leads_to_a_definition_at_the_top(reference: str, root: dict[str, Any]) -> None:
    more = root.pop("properties", {})
    properties = {
        "v": {"$ref": reference},
        "list": {"items": NUMBER},
        "tuple": {"items": [NUMBER]},
        **more,
    }
    found = repaired({"properties": properties, **root})
    [name] = found.schema["$defs"]
    assert found.schema["properties"]["v"] == {"$ref": f"#/$defs/{name}"}
    assert (found.schema["$defs"][name], found.lost) == (NUMBER, {})


def test_references_to_itself_stay() -> None:
    tree = {"type": "object", "properties": {"next": {"$ref": "#"}, "loop": {"$ref": "#/$defs/a"}}}
    loop = {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}
    found = repaired({**tree, "$defs": loop})
    right = {"type": "object", "properties": {"next": {"$ref": "#/$defs/root"}, "loop": {}}}
    assert found.schema == {**right, "$defs": {"root": right}}
    assert repaired({"$ref": "#"}).schema == {}


def test_endless_schema_ends() -> None:
    deep: dict[str, Any] = {}
    for _ in range(100_000):
        deep = {"not": deep}
    found = repaired({"properties": {"a": deep, "b": TEXT}})
    assert found.schema["properties"]["b"] == TEXT
    assert json.dumps(found.schema).count("not") == MAX_DEPTH


def test_a_schema_accepts_nothing_below_its_bound() -> None:
    deep: dict[str, Any] = {"type": "integer"}
    for _ in range(MAX_DEPTH):
        deep = {"properties": {"a": deep}}
    value: Any = "x"
    for _ in range(MAX_DEPTH):
        value = {"a": value}
    assert not Draft202012Validator(repaired(deep).schema).is_valid(value)


KEYWORDS = sorted(
    {
        *Draft202012Validator.VALIDATORS,
        *("$anchor", "$comment", "$defs", "$dynamicAnchor", "$id", "$schema", "$vocabulary", "definitions"),
        *("deprecated", "contentEncoding", "contentMediaType", "contentSchema", "description", "examples"),
        *("readOnly", "title", "writeOnly", "nullable", "dependencies", "divisibleBy", "extends", "id"),
        *("additionalItems", "default"),
    }
)
_words = st.sampled_from(["string", "array", "object", "any", "a", "#a", "$top", "#", "#/$defs/a", "#/items"])
_plain = (
    st.none() | st.booleans() | st.integers(-2, 3) | st.floats(-1, 2) | _words | st.lists(_words, max_size=2)
)
odd_schemas = st.recursive(
    st.booleans() | st.fixed_dictionaries({"type": _words | st.lists(_words)}) | _plain,
    lambda inner: (
        st.dictionaries(st.sampled_from(KEYWORDS), inner | _plain, max_size=3)
        | st.dictionaries(_words, inner, max_size=2)
        | st.lists(inner, max_size=2)
    ),
    max_leaves=8,
)
"""Any keyword with any value."""


def is_valid(schema: object) -> bool:
    return bool(Draft202012Validator(Draft202012Validator.META_SCHEMA).is_valid(schema))


@given(st.dictionaries(st.sampled_from(KEYWORDS), odd_schemas, max_size=4))
def test_repaired_schema_is_valid_and_repaired_once(schema: Any) -> None:
    found = repaired(schema)
    assert is_valid(found.schema)
    again = repaired(found.schema)
    assert (again.schema, again.lost) == (found.schema, {})
