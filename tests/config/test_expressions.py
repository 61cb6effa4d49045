"""The end of a text in expressions."""

from __future__ import annotations

import pytest
import regex

from stopgo.config.text.expressions import end_of_text


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("^ls$", r"^ls\Z"),
        ("^(?:a$|b)$", r"^(?:a\Z|b)\Z"),
        (r"^\$5$", r"^\$5\Z"),
        (r"^[$]x[^$]$", r"^[$]x[^$]\Z"),
        (r"^[]$]$", r"^[]$]\Z"),
        (r"^[\]$]$", r"^[\]$]\Z"),
        (r"\\\\$", r"\\\\\Z"),
        ("(?m)^x$", "(?m)^x$"),
        ("(?im:x$)", "(?im:x$)"),
        ("(?i)x$", r"(?i)x\Z"),
        ("x(?=$)", r"x(?=\Z)"),
        ("x", "x"),
        ("[", "["),
    ],
)
def test_dollar_sign_is_the_end_of_the_text(written: str, read: str) -> None:
    assert end_of_text(written) == read
    assert end_of_text(read) == read


def test_line_break_at_the_end_is_no_end() -> None:
    assert regex.search("^ls$", "ls\n"), "Python's dollar sign, re in the library reference"
    assert not regex.search(end_of_text("^ls$"), "ls\n")
    assert regex.search(end_of_text("^ls$"), "ls")
