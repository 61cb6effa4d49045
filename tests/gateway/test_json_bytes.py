from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stopgo.gateway.http.chunked_json import encode

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
    max_leaves=10,
)


@given(st.dictionaries(st.text(max_size=4), values, max_size=4))
def test_what_leaves_is_one_line_of_json(body: dict[str, object]) -> None:
    sent = encode(body)
    assert json.loads(sent) == body
    assert b"\n" not in sent


@pytest.mark.parametrize(
    ("body", "sent"),
    [
        ({"a": "é"}, '{"a":"é"}'.encode()),
        ({"a": 10**40}, b'{"a":1' + b"0" * 40 + b"}"),
        ({"a": "\ud800", "b": 2**64}, b'{"a":"?","b":18446744073709551616}'),
        ({"\udfff": "é"}, '{"?":"é"}'.encode()),
    ],
)
def test_no_string_and_no_number_fails_the_answer_it_is_in(body: dict[str, object], sent: bytes) -> None:
    assert encode(body) == sent
