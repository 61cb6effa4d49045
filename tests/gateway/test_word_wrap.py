"""Lines are broken between words, and nothing of a text is lost."""

from __future__ import annotations

import pyte
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stopgo.gateway.cli.terminal.word_wrap import WordWrap, wrapped

TEXTS = st.text(st.sampled_from("ab1 \n漢\u0301"), max_size=60)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("one two three", "one two\nthree"),
        ("one two  three", "one two\nthree"),
        ("12345678 x", "12345678\nx"),
        ("1234567 x", "1234567\nx"),
        ("a 123456789012 b", "a\n123456789012 b"),  # the terminal breaks it after 8
        ("漢漢 漢漢", "漢漢\n漢漢"),
        ("  two three", "  two\nthree"),
        ("a\n\nb", "a\n\nb"),
        ("", ""),
    ],
)
def test_lines_are_broken_between_words(text: str, shown: str) -> None:
    assert wrapped(text, 8) == shown


@given(TEXTS, st.integers(2, 12))
def test_only_spaces_are_replaced(text: str, width: int) -> None:
    assert wrapped(text, width).split() == text.split()


def on_screen(pieces: list[str], width: int) -> tuple[list[str], WordWrap]:
    screen = pyte.Screen(width, 80)
    stream, wrap = pyte.Stream(screen), WordWrap(width)
    for piece in pieces:
        stream.feed(wrap.write(piece).replace("\n", "\r\n"))
    return [line.rstrip() for line in screen.display], wrap


@given(st.lists(st.text(st.sampled_from("ab1 \n"), max_size=8), max_size=12), st.integers(2, 12))
def test_streamed_text_has_the_same_lines_in_any_pieces(pieces: list[str], width: int) -> None:
    text = "".join(pieces)
    lines, _ = on_screen(pieces, width)
    assert lines == on_screen([text], width)[0]
    assert "".join(lines).replace(" ", "") == "".join(text.split())
    words = [word for word in text.split() if len(word) <= width]
    on_lines = [word for line in lines for word in line.split()]
    assert all(word in on_lines for word in words)


@given(TEXTS, st.integers(2, 12))
def test_the_row_of_the_cursor_is_known(text: str, width: int) -> None:
    screen = pyte.Screen(width, 80)
    wrap = WordWrap(width)
    pyte.Stream(screen).feed(wrap.write(text.replace("漢", "x").replace("\u0301", "")).replace("\n", "\r\n"))
    assert screen.cursor.y == wrap.row
