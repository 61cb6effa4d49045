from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stopgo.runtime.journal import cursor
from stopgo.runtime.journal.errors import BadCursor


@given(st.integers(0, 2**63 - 1))
def test_a_cursor_is_read_as_it_was_written(number: int) -> None:
    written = cursor.write("streams", number)
    assert cursor.read("streams", written) == number
    with pytest.raises(BadCursor):
        cursor.read("questions", written)


@given(st.text())
def test_any_other_text_is_refused(text: str) -> None:
    with contextlib.suppress(BadCursor):
        assert cursor.write("streams", cursor.read("streams", text)) == text


@pytest.mark.parametrize("number", [-1, 2**63])
def test_numbers_no_item_can_have_are_refused(number: int) -> None:
    with pytest.raises(BadCursor):
        cursor.read("streams", cursor.write("streams", number))
