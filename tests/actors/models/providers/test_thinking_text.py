"""Reasoning in the text of a reply is no part of the answer."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stopgo.actors.models.providers.thinking_text import ShownText, answer_in

MARKED = [
    # deep-searcher#215: the whole block in the text.
    ("<think>It is not sales.</think>\n\nrefund", "refund"),
    ("\n<think>\n\n</think>\n\nHello", "Hello"),
    ("<think>a</think><think>b</think>c", "c"),
    ("<thinking>a</thinking>b", "b"),
    ("<reasoning>a <b> c</reasoning>d", "d"),
    ("[THINK]a[/THINK]b", "b"),
    ("◁think▷a◁/think▷b", "b"),
    ("<think>cut off", ""),
    # gpt-oss behind servers without a parser for its format (OpenAI, "Harmony response format").
    (
        "<|channel|>analysis<|message|>hm<|end|><|start|>assistant<|channel|>final<|message|>yes<|return|>",
        "yes",
    ),
    ("<|channel|>analysis<|message|>hm", ""),
]
LONE = [
    # LocalAI#4761: only the closing tag.
    ("Not sales, then.\n</think>\n\nrefund", "refund"),
    ("Not sales.</think>\nrefund", "refund"),
    ("Not sales.\n</think> refund", "refund"),
]
PLAIN = [
    "Hello",
    "",
    "<b>bold</b>",
    "a < b",
    "The tag <think> opens, and </think> closes it.",
    "It ends with </think>",
    "Write\n<think>\nsomething\n</think>\nhere.",
    "```\n</think>\n```\nis a tag",
    "I <think> so",
]


@pytest.mark.parametrize(("text", "answer"), [*MARKED, *LONE, *((text, text) for text in PLAIN)])
def test_answer_is_the_text_without_its_reasoning(text: str, answer: str) -> None:
    assert answer_in(text) == answer


@pytest.mark.parametrize(("text", "answer"), [*MARKED[:8], *((text, text) for text in PLAIN)])
@given(st.data())
def test_stream_shows_the_answer_and_no_reasoning(text: str, answer: str, data: st.DataObject) -> None:
    shown, at, seen = ShownText(), 0, ""
    while at < len(text):
        step = data.draw(st.integers(1, len(text)))
        seen += shown.add(text[at : at + step])
        at += step
    # What may still be the beginning of a tag is not shown; the stored answer has it.
    assert answer.startswith(seen)
    assert len(answer) - len(seen) < len("<seed:think>")
