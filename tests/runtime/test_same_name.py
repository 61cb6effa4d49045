from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stopgo.runtime.same_name import is_same_name


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("maria@example.com", "Maria@Example.COM", True),
        ("rené", "rene\u0301", True),  # one letter, or two characters
        ("\uff2d\uff21\uff32\uff29\uff21", "maria", True),  # full width
        ("straße", "STRASSE", True),
        ("\ufb01ona", "Fiona", True),  # a ligature
        ("maria", "mariana", False),
        ("maria@example.com", "maria@example.org", False),
        ("rene", "rené", False),
        ("maria", "mari\u0430", False),  # the last letter is Cyrillic: other letters are other names
    ],
)
def test_names_that_people_take_for_the_same(one: str, other: str, same: bool) -> None:
    """The Unicode Standard, section 3.13, D146."""
    assert is_same_name(one, other) is is_same_name(other, one) is same


@given(st.text())
def test_case_makes_no_other_name(name: str) -> None:
    assert is_same_name(name, name.casefold())
