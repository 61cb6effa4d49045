"""A tool's schema, applied: what is wrong and where, in a bounded amount of work, whatever the schema is."""

from __future__ import annotations

import math
import socket
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import pytest

from stopgo.actors.arguments.json_schema import (
    MAX_MISTAKE,
    MAX_MISTAKES,
    Checker,
    TooMuchWork,
    Uncheckable,
    Work,
)

PERSON = {
    "type": "object",
    "properties": {"name": {"type": "string", "minLength": 1}, "age": {"type": "integer"}},
    "required": ["name"],
    "additionalProperties": False,
}


TEXT = {"type": "string"}


def mistakes(arguments: dict[str, Any], schema: dict[str, Any]) -> list[str]:
    return Checker(schema).mistakes(arguments, Work())


def test_arguments_that_fit() -> None:
    assert mistakes({"name": "a", "age": 3}, PERSON) == []
    assert mistakes({}, {}) == []
    assert mistakes({"anything": [1]}, {"type": "object"}) == []


def test_every_mistake_has_its_position() -> None:
    found = mistakes({"name": "", "age": "x", "more": 1}, PERSON)
    assert len(found) == 3
    assert "age: 'x' is not of type 'integer'" in found
    inner = {"properties": {"rows": {"items": PERSON}}}
    assert mistakes({"rows": [{"name": "a"}, {}]}, inner) == ["rows.1: 'name' is a required property"]


@pytest.mark.parametrize(
    ("value", "quoted"),
    [(True, "true"), (None, "null"), ({"a": [None]}, '{"a": [null]}'), ([False], "[false]")],
)
def test_mistakes_quote_values_as_sent(value: Any, quoted: str) -> None:
    mistake = f"{quoted} is not of type 'string'"
    assert mistakes({"v": value}, {"properties": {"v": {"type": "string"}}}) == [f"v: {mistake}"]
    [found] = mistakes({"v": value}, {"properties": {"v": {"anyOf": [{"type": "string"}]}}})
    assert found.endswith(f"({mistake})")


def test_mistake_says_why_each_alternative_fails() -> None:
    maybe = {"properties": {"n": {"anyOf": [{"type": "integer"}, {"type": "null"}]}}}
    [found] = mistakes({"n": "x"}, maybe)
    assert found.endswith("('x' is not of type 'integer'; 'x' is not of type 'null')")


@pytest.mark.parametrize(
    ("schema", "good", "bad"),
    [
        # 2020-12 and nothing older.
        ({"prefixItems": [{"type": "string"}], "items": False}, ["a"], ["a", "b"]),
        ({"dependentRequired": {"a": ["b"]}}, {"a": 1, "b": 2}, {"a": 1}),
        ({"$ref": "#/$defs/n"}, 1, "x"),
        ({"unevaluatedProperties": False, "properties": {"a": True}}, {"a": 1}, {"b": 1}),
        ({"const": 1}, 1, 2),
        ({"pattern": "^[a-z]+$"}, "abc", "A"),
        ({"pattern": "^[a-z]+$"}, 5, "5"),
        ({"pattern": r"^\p{Lu}"}, "Äpfel", "apfel"),
        ({"uniqueItems": True}, [{"a": 1}, {"a": 2}], [{"a": 1}, {"a": 1}]),
    ],
)
def test_schemas_are_2020_12(schema: Any, good: Any, bad: Any) -> None:
    outer = {"type": "object", "properties": {"v": schema}, "$defs": {"n": {"type": "integer"}}}
    assert mistakes({"v": good}, outer) == []
    assert mistakes({"v": bad}, outer) != []


def test_a_schema_of_an_older_draft_is_read_as_it_says() -> None:
    pair = {"items": [{"type": "string"}, {"type": "integer"}], "additionalItems": False}
    schema = {"$schema": "http://json-schema.org/draft-07/schema#", "properties": {"v": pair}}
    assert mistakes({"v": ["a", 1]}, schema) == []
    assert mistakes({"v": ["a", "b"]}, schema) == ["v.1: 'b' is not of type 'integer'"]
    assert mistakes({"v": 1}, {"$schema": "urn:unheard-of", "properties": {"v": {"type": "string"}}}) != []
    above = {"properties": {"v": {"minimum": 0, "exclusiveMinimum": True}, "w": {"nullable": True, **TEXT}}}
    assert mistakes({"v": 1, "w": None}, above) == []
    assert len(mistakes({"v": 0, "w": 1}, above)) == 2


def test_a_schema_that_refers_to_itself() -> None:
    tree = {
        "$defs": {"t": {"type": "object", "properties": {"next": {"$ref": "#/$defs/t"}}}},
        "$ref": "#/$defs/t",
    }
    assert mistakes({"next": {"next": {}}}, tree) == []
    assert mistakes({"next": {"next": 3}}, tree) == ["next.next: 3 is not of type 'object'"]


@pytest.mark.parametrize(
    "broken",
    [
        {"type": "no such type"},
        {"type": 7},
        {"$ref": "#/$defs/missing"},
        {"$ref": "https://example.invalid/schema.json"},
        {"pattern": "("},
        {"minLength": "x"},
        {"properties": []},
        3,
        {"$ref": 7},
        {"$ref": "#/properties/name"},
        {"$schema": 7},
        {"$schema": "http://[bad"},
        {"$id": "http://[bad", "$ref": "x"},
        {"$id": 7},
        {"$dynamicRef": "#nowhere"},
        {"$schema": "http://json-schema.org/draft-03/schema#", "type": "mine"},
    ],
    ids=str,
)
def test_a_broken_part_is_not_checked_and_the_rest_is(broken: Any) -> None:
    schema = {"properties": {"name": broken, "age": {"type": "integer"}}}
    assert mistakes({"name": "x", "age": 3}, schema) == []
    assert mistakes({"name": "x", "age": "y"}, schema) == ["age: 'y' is not of type 'integer'"]


@pytest.mark.parametrize(
    "schema",
    [
        {"unevaluatedProperties": False, "properties": {"name": {"$ref": "#"}}, "allOf": [{"$ref": "#"}]},
        {"allOf": [{"$ref": "#/$defs/a"}], "$defs": {"a": {"not": {"$ref": "#/$defs/a"}}}},
    ],
    ids=str,
)
def test_a_schema_without_end_is_an_answer_not_a_crash(schema: dict[str, Any]) -> None:
    with pytest.raises(Uncheckable):
        mistakes({"name": "x"}, schema)


def test_uncheckable_schema_does_not_quote_the_value() -> None:
    schema = {"properties": {"name": {"const": "x", "multipleOf": 1e-320}, "n": {"multipleOf": 0.1}}}
    with pytest.raises(Uncheckable, match=r"^it cannot be applied: .*$") as caught:
        mistakes({"name": "secret", "n": 10**400}, schema)
    assert "secret" not in str(caught.value)


def test_arguments_without_end_are_an_answer_not_a_crash() -> None:
    deep: dict[str, Any] = {}
    for _ in range(100_000):
        deep = {"next": deep}
    nested = {"properties": {"next": {"$ref": "#"}}}
    with pytest.raises(Uncheckable):
        mistakes(deep, nested)
    with pytest.raises(Uncheckable):
        mistakes({"name": "x"}, {"properties": {"name": {"const": deep}, "deep": deep}})


def test_a_number_that_no_float_can_hold_is_an_answer_not_a_crash() -> None:
    with pytest.raises(Uncheckable):
        mistakes({"n": 10**400}, {"properties": {"n": {"multipleOf": 0.1}}})


def test_a_reference_to_elsewhere_is_not_followed() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setblocking(False)
        port = server.getsockname()[1]
        assert mistakes({}, {"$ref": f"http://127.0.0.1:{port}/schema.json"}) == []
        with pytest.raises(BlockingIOError):
            server.accept()


def test_reported_mistakes_are_bounded() -> None:
    schema = {"additionalProperties": {"anyOf": [{"type": "integer"}, {"enum": ["y" * 10_000]}]}}
    found = mistakes({str(n): "x" * 10_000 for n in range(100)}, schema)
    assert len(found) == MAX_MISTAKES
    assert max(map(len, found)) == MAX_MISTAKE


DRAFT = {"$schema": "https://json-schema.org/draft/2020-12/schema"}


def doubling(levels: int, more: Mapping[str, Any] = MappingProxyType({})) -> dict[str, Any]:
    """Two to the power of `levels` paths lead to the same place."""
    defs: dict[str, Any] = {
        f"d{n}": {**more, "allOf": [{"$ref": f"#/$defs/d{n + 1}"}, {"$ref": f"#/$defs/d{n + 1}"}]}
        for n in range(levels)
    }
    return {"$ref": "#/$defs/d0", "$defs": {**defs, f"d{levels}": {"type": "object"}}}


SLOW: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "alternatives": (doubling(18), {"v": 1}),
    "alternatives, each of which names its draft": (doubling(18, DRAFT), {"v": 1}),
    "pattern": ({"properties": {"v": {"pattern": "^(?:a|aa)+$"}}}, {"v": "a" * 36 + "!"}),
    "many patterns, none of which is slow": (
        {"properties": {"v": {"items": {"not": {"pattern": "^(?:a|aa)+$"}}}}},
        {"v": ["a" * 18 + "!"] * 3000},
    ),
    "names": ({"patternProperties": {"^(a+)+$": {"type": "integer"}}}, {"a" * 22 + "!": 1}),
    "each with each": (
        {"properties": {"v": {"uniqueItems": True}}},
        {"v": [{"n": n} for n in range(2000)]},
    ),
    "a list of choices for each": (
        {"properties": {"v": {"items": {"enum": list(range(50_000))}}}},
        {"v": [-1] * 1000},
    ),
    "large choices": (
        {"properties": {"v": {"enum": [[*range(300), n] for n in range(100)]}}},
        {"v": [*range(300), -1]},
    ),
    "many": ({"properties": {"v": {"items": {"type": "integer"}}}}, {"v": [1] * 1_000_000}),
    "large": ({"properties": {f"p{n}": {"type": "string", "minLength": n} for n in range(2000)}}, {}),
}


@pytest.mark.parametrize("case", SLOW)
def test_validation_stops_after_too_many_steps(case: str) -> None:
    schema, arguments = SLOW[case]
    with pytest.raises(TooMuchWork):
        mistakes(arguments, schema)


def test_with_all_the_work_it_takes_it_is_done() -> None:
    for case in ("many", "large"):
        schema, arguments = SLOW[case]
        arguments = {name: each[:4_000] for name, each in arguments.items()}
        assert Checker(schema).mistakes(arguments, Work(math.inf, None)) == []


def test_a_property_that_is_called_pattern_is_none() -> None:
    schema = {"properties": {"pattern": {"type": "string"}, "uniqueItems": {"type": "boolean"}}}
    assert mistakes({"pattern": "(", "uniqueItems": True}, schema) == []


@pytest.mark.parametrize(
    "schema",
    [
        {"properties": {"n": {"pattern": "^a$"}}},
        {"propertyNames": {"pattern": "^[nx]$"}, "properties": {"n": {"const": "a"}}},
        {"patternProperties": {"^n$": {"const": "a"}}, "additionalProperties": False},
        {"allOf": [{"patternProperties": {"^n$": {"const": "a"}}}], "unevaluatedProperties": False},
    ],
    ids=str,
)
def test_end_of_a_pattern_is_the_end_of_the_text(schema: dict[str, Any]) -> None:
    # JSON Schema 2020-12, 6.4: expressions of ECMA-262, where `$` does not match before a line break.
    def found(value: dict[str, Any]) -> list[str]:
        return Checker(schema).mistakes(value, Work(math.inf, None))

    assert found({"n": "a"}) == []
    assert found({"n": "a\n"})
    assert found({"n\n": "a"}) or "pattern" in schema.get("properties", {}).get("n", {})
