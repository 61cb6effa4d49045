"""The line of a failure that a person needs first."""

from __future__ import annotations

import pytest

from tests.tiers.failures import HANGS, MOST, first_difference, last_lines

LISTS = """
    def test_x():
>       assert [1, 2] == [1, 3]
E       assert [1, 2] == [1, 3]
E         At index 1 diff: 2 != 3
E         Use -v to get more diff

tests/test_x.py:3: AssertionError
"""
TEXTS = """
>       assert "a\\nb" == "a\\nc"
E       AssertionError: assert 'a\\nb' == 'a\\nc'
E           a
E         - c
E         + b
"""
GROUP = """
  + Exception Group Traceback (most recent call last):
  |   File "x.py", line 3, in main
  |     async with open_nursery() as nursery:
  | ExceptionGroup: Exceptions from Trio nursery (1 sub-exception)
  +-+---------------- 1 ----------------
    | Traceback (most recent call last):
    | RuntimeError: no more
    +------------------------------------
"""


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (LISTS, "assert [1, 2] == [1, 3] | At index 1 diff: 2 != 3"),
        (TEXTS, r"AssertionError: assert 'a\nb' == 'a\nc' | - c"),
        (GROUP, "RuntimeError: no more"),
        ("E   EOFError: x\n\ntests/x.py:3: EOFError", "EOFError: x"),
        ("worker 'gw0' crashed while running 'tests/x.py::test_x'", HANGS),
        ("", ""),
        ("E " + "x" * 1000, "x" * MOST),
    ],
)
def test_the_first_difference(text: str, line: str) -> None:
    assert first_difference(text) == line


def test_the_last_lines_are_those_with_words() -> None:
    assert last_lines("one\n\ntwo\n  \nthree\n\n", 2) == ["two", "three"]
