"""Reasoning in the text of a reply, which is not part of the answer. Pure.

Servers of open models mark reasoning by tags if they do not know the model's own format. The rules:

1. A text that begins with a start tag is reasoning up to its end tag; further blocks may follow at once. If
   there is no end tag, all of it is reasoning, because the reply was cut off.
2. An end tag without a start tag ends reasoning, too, if its line goes on with nothing, or begins with it:
   some templates write the start tag into the prompt.
3. In the format of gpt-oss ("harmony"), the answer is what follows the last channel `final`.
4. A tag anywhere else is text, for instance in an answer about tags.

While a stream arrives, reasoning by rules 1 and 3 is not shown; by rule 2, it is known only at its end.
"""

from __future__ import annotations

import re

import attrs

_TAGS = (
    ("<think>", "</think>"),  # DeepSeek, Qwen, most others
    ("<thinking>", "</thinking>"),
    ("<thought>", "</thought>"),
    ("<reasoning>", "</reasoning>"),
    ("<reason>", "</reason>"),
    ("<seed:think>", "</seed:think>"),
    ("[THINK]", "[/THINK]"),  # Mistral
    ("◁think▷", "◁/think▷"),  # Kimi
)
_FINAL = "<|channel|>final<|message|>"
_HARMONY = (
    "<|channel|>analysis<|message|>",
    "<|channel|>commentary<|message|>",
    "<|start|>assistant<|channel|>",
)
_STARTS = (*(start for start, _ in _TAGS), *_HARMONY)
_SPECIAL = re.compile(r"<\|(?:end|return|start)\|>.*\Z", re.DOTALL)
_LONE_END = re.compile(
    rf"(?:{'|'.join(re.escape(end) for _, end in _TAGS)})[ \t]*(?:\n|\Z)"
    rf"|\n[ \t]*(?:{'|'.join(re.escape(end) for _, end in _TAGS)})"
)


def answer_in(text: str) -> str:
    """The text without its reasoning."""
    rest = _after_marked(text)
    if rest is not None:
        return _SPECIAL.sub("", rest).strip() if _is_harmony(text) else rest
    end = _LONE_END.search(text)
    if end is None:
        return text
    before, answer = text[: end.start()], text[end.end() :].lstrip()
    is_quoted = before.count("```") % 2 == 1 or any(start in before for start, _ in _TAGS)
    return answer if answer and not is_quoted else text


def _after_marked(text: str) -> str | None:
    """What follows the reasoning by rules 1 and 3; None if the text does not begin with any."""
    if _is_harmony(text):
        return text.rpartition(_FINAL)[2] if _FINAL in text else ""
    rest, is_marked = text.lstrip(), False
    while (tags := next((tags for tags in _TAGS if rest.startswith(tags[0])), None)) is not None:
        is_marked = True
        rest = rest.partition(tags[1])[2].lstrip()
    return rest if is_marked else None


def _is_harmony(text: str) -> bool:
    return text.lstrip().startswith(_HARMONY)


@attrs.define(eq=False)
class ShownText:
    """What of a text can be shown while it arrives."""

    _text: str = ""
    _held: bool = True
    """Whether the text may still begin with reasoning."""

    def add(self, piece: str) -> str:
        """Add a piece, and return what can be shown from now on."""
        if not self._held:
            return piece
        self._text += piece
        rest = _after_marked(self._text)
        if rest is None:
            rest = self._text
        begun = rest.lstrip()
        if not begun or any(start.startswith(begun) for start in _STARTS):
            return ""
        self._held = False
        return rest
