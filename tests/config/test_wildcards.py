from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stopgo.config.text.wildcards import is_named


@pytest.mark.parametrize(
    ("name", "pattern", "named"),
    [
        ("drop", "drop", True),
        ("drop", "Drop", False),
        ("drop", "d*", True),
        ("drop", "*", True),
        ("", "*", True),
        ("drop", "dr?p", True),
        ("drp", "dr?p", False),
        ("drop[all]", "drop[all]", True),
        ("dropa", "drop[all]", False),
        ("drop[all]", "drop[*", True),
        ("x", "[!a]", False),
        ("a-b", "[a-c]-b", False),
        ("]", "]", True),
        ("a\nb", "a*", True),
    ],
)
def test_stars_and_question_marks_alone_stand_for_others(name: str, pattern: str, named: bool) -> None:
    assert is_named(name, pattern) is named


@given(st.text())
def test_a_name_names_itself(name: str) -> None:
    assert is_named(name, name)
