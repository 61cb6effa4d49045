"""What a person reads is what is sent."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stopgo.actors.approvals.description import call_text, describe, describe_elicitation
from stopgo.gateway.cli.terminal.terminal import printable
from stopgo.gateway.log_lines import in_one_line
from stopgo.runtime.visible_text import is_hidden, visible

# Public reports of texts hidden from people: variation selectors as bytes (uber/ADR#45), fillers and joiners
# (ECC#1982: U+3164, U+034F, U+FFA0), tags, marks of direction.
HIDDEN = (
    "\x00\x1b\x7f\x9b\xad\u034f\u061c\u115f\u1160\u17b4\u180b\u180e\u200b\u200d\u2028\u202e\u2066\u2800\u3164"
    "\ufe00\ufe0f\ufeff\uffa0\ufff0\ufff9\ud800\U0001bca0\U0001d173\U000e0001\U000e0041\U000e0100\U000e01ef"
)


@pytest.mark.parametrize("surface", [printable, in_one_line, lambda text: call_text(text, {text: text})])
def test_hidden_characters_are_escaped_on_each_surface(surface: object) -> None:
    for each in HIDDEN:
        shown = surface(f"acc{each}ount")  # type: ignore[operator]
        assert each not in shown
        assert "\\" in shown


def test_hidden_characters_are_escaped_in_questions() -> None:
    for each in HIDDEN:
        name = f"acc{each}ount"
        assert each not in describe(name, {name: name})
        assert each not in describe_elicitation(name, name, None)


@pytest.mark.parametrize("text", ["Grüße\n漢字\tעברית", "❤️ ⚠︎ ‼️ ©️", "1️⃣", "a\u00a0b", "हिन्दी", "👍🏽"])
def test_ordinary_text_stays(text: str) -> None:
    assert visible(text) == text


@pytest.mark.parametrize(
    ("text", "shown"),
    [("1\ufe0f00", r"1\ufe0f00"), ("❤\ufe0f\ufe0f", "❤\ufe0f\\ufe0f"), ("a\ufe0e", r"a\ufe0e")],
)
def test_selector_that_chooses_no_form_is_escaped(text: str, shown: str) -> None:
    assert visible(text) == shown


@given(st.text())
def test_nothing_hidden_is_left_in_any_text(text: str) -> None:
    shown = visible(text)
    assert not any(is_hidden(shown, at) for at in range(len(shown)) if shown[at] not in "\n\t")
