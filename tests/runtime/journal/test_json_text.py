from __future__ import annotations

import json
from datetime import date
from types import MappingProxyType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stopgo.runtime.journal import json_text

scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=[]))
)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
    max_leaves=10,
)


@given(values)
def test_every_json_value_comes_back_and_fits_in_utf_8(value: object) -> None:
    text = json_text.dump(value)
    assert json_text.load(text) == value
    assert json.loads(text.encode()) == value


@given(values, values)
def test_same_means_equal_as_json(one: object, other: object) -> None:
    texts = json_text.dump(one), json_text.dump(other)
    canonical = [json.dumps(each, sort_keys=True) for each in (one, other)]
    assert json_text.same(*texts) == (canonical[0] == canonical[1])
    assert json_text.same(texts[0], texts[0])


def test_the_order_of_keys_does_not_count() -> None:
    assert json_text.same('{"a":1,"b":{"c":2,"d":3}}', '{"b":{"d":3,"c":2},"a":1}')
    assert not json_text.same('{"a":1}', '{"a":true}')
    assert not json_text.same('{"a":1}', '{"a":1.0}')


def test_the_text_is_compact_and_readable() -> None:
    assert json_text.dump({"a": ["é", 1]}) == '{"a":["é",1]}'


def test_any_mapping_is_an_object() -> None:
    assert json_text.dump(MappingProxyType({"a": MappingProxyType({})})) == '{"a":{}}'


def test_numbers_and_nesting_have_no_bound_of_their_own() -> None:
    value: object = [10**40, -(2**70)]
    for _ in range(500):
        value = [value]
    assert json_text.load(json_text.dump(value)) == value


@pytest.mark.parametrize("value", [float("inf"), [None, float("nan")], object(), {1, 2}, date(2026, 1, 1)])
def test_what_is_not_json_is_refused(value: object) -> None:
    with pytest.raises((TypeError, ValueError), match="JSON"):
        json_text.dump({"value": value})


@given(st.text(st.characters(exclude_categories=[])))
def test_folded_text_can_be_stored(text: str) -> None:
    json_text.fold(text).encode()


@pytest.mark.parametrize("text", ["", "{", "{} {}", "1 2", '"a"b'])
def test_what_is_not_one_value_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"Expecting|more after"):
        json_text.load(text)
