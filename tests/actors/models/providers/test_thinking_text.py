"""Reasoning in the text of a reply is no part of the answer."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stopgo.actors.models.codecs.thinking_text import ShownText, answer_in

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
    ("<THINK>a</Think>b", "b"),
    ("<mm:think>a</mm:think>b", "b"),  # hermes-agent#8878
    ("<|channel>thought\na<channel|>b", "b"),  # the chat template of Gemma 4
    ("<|channel>thought\n<channel|>b", "b"),
    ("<|START_THINKING|>a<|END_THINKING|>b", "b"),
    # gpt-oss behind a server that leaves its special tokens out.
    ("analysisWe need to say yes.assistantfinalyes", "yes"),
    ("<|channel|>final<|message|>yes", "yes"),
    ("<|start|>assistant<|channel|>analysis<|message|>a<|channel|>final <|constrain|>JSON<|message|>b", "b"),
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
    ("Not sales.</think>refund", "refund"),
    # imp#793: Qwen 3.6 thinks again after its first block.
    ("<think>Sales?</think>\nWait.\n</think>\n\nrefund", "refund"),
    # OpenTranscribe#439: Gemma 4 with a parser that takes the first token only.
    ("The user asks.\n1. Scan.\n<channel|>I do not know.", "I do not know."),
    # The prompt has the beginning of the first channel.
    ("It is yes.<|end|><|start|>assistant<|channel|>final<|message|>yes", "yes"),
    # Hunyuan, GLM-4.1V-Thinking and Command A mark the answer, too.
    ("<think>a</think>\n<answer>\nyes\n</answer>", "yes"),
    ("<|START_THINKING|>a<|END_THINKING|><|START_RESPONSE|>yes<|END_RESPONSE|>", "yes"),
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
    "analysisWe do not write so",
    "analysis of the data",
    "<answer>yes</answer>",
    "<thinkers> are people",
    "Harmony writes `<|start|>assistant<|channel|>final<|message|>yes`.",
    "The end tag (</think>) is enough.",
    "Use `</think>` here.",
]


@pytest.mark.parametrize(("text", "answer"), [*MARKED, *LONE, *((text, text) for text in PLAIN)])
def test_answer_is_the_text_without_its_reasoning(text: str, answer: str) -> None:
    assert answer_in(text) == answer


# What follows `<|return|>` is known only when it comes, and `analysis` comes in one piece.
@pytest.mark.parametrize(
    ("text", "answer"),
    [
        (text, answer)
        for text, answer in [*MARKED, *((text, text) for text in PLAIN)]
        if "return" not in text and not text.startswith("analysisWe")
    ],
)
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


def test_stream_shows_the_answer_of_a_server_without_special_tokens() -> None:
    shown = ShownText()
    pieces = ["analysis", "We need", " yes.assist", "antfinal", "y", "es"]
    assert [shown.add(piece) for piece in pieces] == ["", "", "", "", "y", "es"]


def test_long_reasoning_is_read_in_linear_time() -> None:
    shown = ShownText()
    assert shown.add("<think>") == ""
    for _ in range(200_000):
        assert shown.add("word ") == ""
    assert len(shown._text) < 100
    assert shown.add("</think>yes") == "yes"
