"""Which texts of models are shown while they come, and that each is shown once."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stopgo.gateway.cli.terminal.follower import StreamedText

BEGINS = "|"


def shown(steps: list[tuple[object, ...]]) -> str:
    """What is shown of `(key, attempt, piece)`, `(key, whole text)` and `()` for lost pieces."""
    texts, screen = StreamedText(), ""
    for step in steps:
        match step:
            case (str(key), int(attempt), str(text)):
                piece = texts.piece(key, attempt, text)
            case (str(key), str(text)):
                piece = texts.whole(key, text)
            case _:
                texts.lose()
                continue
        if piece is not None:
            screen += BEGINS * piece.begins + piece.text
    return screen


@pytest.mark.parametrize(
    ("steps", "screen"),
    [
        ([("a", "whole")], "|whole"),
        ([("a", "")], ""),
        ([("a", 1, "x"), ("a", 1, "y"), ("a", "xy")], "|xy"),
        ([("a", 1, "x"), ("a", "xyz")], "|xyz"),
        # The next attempt, or another model, begins anew.
        ([("a", 1, "x"), ("a", 2, "y"), ("a", 1, "late"), ("a", "yz")], "|x|yz"),
        # Another text comes at the same time: it is shown when it is whole.
        ([("a", 1, "x"), ("b", 1, "1"), ("a", 1, "y"), ("b", "12"), ("a", "xy")], "|xy|12"),
        # Its pieces are not shown from the middle.
        ([("a", 1, "x"), ("b", 1, "1"), ("a", "x"), ("b", 1, "2"), ("b", "12")], "|x|12"),
        # Pieces were lost.
        ([("a", 1, "x"), ("a", 1, "z"), ("a", "xyz")], "|xz|xyz"),
        ([("a", 1, "x"), (), ("a", 1, "z"), ("a", "xyz")], "|x|xyz"),
        # The attempt that counts told no pieces.
        ([("a", 1, "x"), ("a", "other")], "|x|other"),
    ],
)
def test_each_text_is_shown_once(steps: list[tuple[object, ...]], screen: str) -> None:
    assert shown(steps) == screen


@given(st.lists(st.tuples(st.sampled_from("abc"), st.text("xyz", min_size=1, max_size=3)), max_size=20))
def test_every_text_is_there_in_full(pieces: list[tuple[str, str]]) -> None:
    texts = {key: "".join(text for each, text in pieces if each == key) for key, _ in pieces}
    steps: list[tuple[object, ...]] = [(key, 1, text) for key, text in pieces]
    on_screen = shown([*steps, *texts.items()]).split(BEGINS)[1:]
    assert sorted(on_screen) == sorted(texts.values())
