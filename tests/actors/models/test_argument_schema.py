from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stopgo.actors.models.messages.argument_schema import accepted_types, parse_number, properties, required

INTEGER = frozenset({"integer"})
NUMBER = frozenset({"number"})
EITHER = frozenset({"integer", "string"})


@pytest.mark.parametrize(
    ("schema", "types"),
    [
        ({}, set()),
        ({"type": "string"}, {"string"}),
        ({"type": ["integer", "string"]}, {"integer", "string"}),
        ({"anyOf": [{"type": "integer"}, {"type": "string"}]}, {"integer", "string"}),
        ({"oneOf": [{"type": "null"}, {"anyOf": [{"type": "number"}]}]}, {"null", "number"}),
        ({"type": 7, "anyOf": "nonsense"}, set()),
        ({"type": [None, "string"], "oneOf": [3]}, {"string"}),
    ],
)
def test_accepted_types(schema: dict[str, Any], types: set[str]) -> None:
    assert accepted_types(schema) == types


@pytest.mark.parametrize(
    ("text", "types", "number"),
    [
        ("10", INTEGER, 10),
        ("-3", INTEGER, -3),
        ("007", INTEGER, 7),
        ("1.5", INTEGER, None),
        ("ten", INTEGER, None),
        ("", INTEGER, None),
        ("٣", INTEGER, None),
        ("10", NUMBER, 10),
        ("1.5", NUMBER, 1.5),
        ("1e3", NUMBER, 1000.0),
        ("1e999", NUMBER, None),
        ("nan", NUMBER, None),
        ("10", EITHER, 10),
        ("007", EITHER, None),
        ("+5", EITHER, None),
        ("-0", EITHER, None),
        ("1.5", EITHER, None),
        ("1.5", frozenset({"number", "string"}), 1.5),
        ("1e3", frozenset({"number", "string"}), None),
        ("10", frozenset({"string"}), None),
        ("10", frozenset(), None),
        ("9" * 5000, INTEGER, None),
    ],
)
def test_parse_number(text: str, types: frozenset[str], number: float | None) -> None:
    parsed = parse_number(text, types)
    assert parsed == number
    assert type(parsed) is type(number)


@given(st.integers(min_value=-(10**290), max_value=10**290))
def test_integers_keep_their_value(number: int) -> None:
    for types in (INTEGER, EITHER, NUMBER):
        assert parse_number(str(number), types) == number


@given(st.text())
def test_text_that_python_prints_otherwise_stays_text(text: str) -> None:
    number = parse_number(text, frozenset({"integer", "number", "string"}))
    assert number is None or str(number) == text


_JUNK = st.recursive(
    st.none() | st.integers() | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["type", "anyOf", "oneOf", "properties", "required", "x"]), inner, max_size=3
        )
    ),
)


@given(st.dictionaries(st.sampled_from(["type", "anyOf", "properties", "required"]), _JUNK))
def test_malformed_schemas_are_accepted(schema: dict[str, Any]) -> None:
    accepted_types(schema)
    assert all(isinstance(name, str) for name in required(schema))
    for each in properties(schema).values():
        accepted_types(each)
