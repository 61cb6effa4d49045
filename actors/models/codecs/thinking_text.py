"""Reasoning in the text of a reply, which is not part of the answer. Pure.

Servers mark reasoning by tags if they do not know the model's own format. The rules:

1. A text that begins with a start tag is reasoning up to its end tag; further blocks may follow at once. If
   there is no end tag, all of it is reasoning, because the reply was cut off.
2. An end tag without a start tag ends reasoning, too, because some templates write the start tag into the
   prompt. Its line goes on with nothing, or begins with it, or there is no blank around it. The last one
   counts: some models think again.
3. In the format of gpt-oss ("harmony"), the answer is what follows the last channel `final`. Some servers
   leave out its special tokens, so that their words stand together: `assistantfinal`.
4. A tag anywhere else is text, for instance in an answer about tags.
5. An answer after reasoning may have tags of its own, which are left out.

While a stream arrives, reasoning by rules 1 and 3 is not shown; by rule 2, it is known only at its end.
"""

from __future__ import annotations

import re

import attrs

_TAGS = (
    ("<think>", "</think>"),  # DeepSeek, Qwen, most others
    ("<thinking>", "</thinking>"),
    ("<thought>", "</thought>"),
    ("<thoughts>", "</thoughts>"),
    ("<reasoning>", "</reasoning>"),
    ("<reason>", "</reason>"),
    ("<seed:think>", "</seed:think>"),
    ("<mm:think>", "</mm:think>"),  # MiniMax
    ("<longcat_think>", "</longcat_think>"),
    ("[think]", "[/think]"),  # Mistral
    ("◁think▷", "◁/think▷"),  # Kimi
    ("<|channel>thought", "<channel|>"),  # Gemma 4
    ("<unused94>thought", "<unused95>"),  # MedGemma
    ("<|start_thinking|>", "<|end_thinking|>"),  # Command A
    ("<|begin_of_thought|>", "<|end_of_thought|>"),  # OpenThinker, Sky-T1
)
"""In lower case; the case does not count."""
_WRAPPERS = (
    ("<answer>", "</answer>"),
    ("<|start_response|>", "<|end_response|>"),
    ("<|begin_of_solution|>", "<|end_of_solution|>"),
)
_HARMONY = ("<|channel|>", "<|start|>assistant")
_STARTS = (*(start for start, _ in _TAGS), *_HARMONY)
_FIRST = frozenset(start[0] for start in _STARTS)
"""The characters that tags begin with."""
_ENDS = {start: re.compile(re.escape(end), re.IGNORECASE) for start, end in _TAGS}
_FINAL = re.compile(r"<\|channel\|>final(?:[^<]|<\|constrain\|>)*<\|message\|>")
_GLUED_START = "analysis"
"""One token, so it arrives whole."""
_GLUED = re.compile(rf"{_GLUED_START}[A-Z]")
_GLUED_FINAL = re.compile("assistantfinal")
_LATE_FINAL = re.compile(r"<\|start\|>assistant<\|channel\|>final\b")
"""Where the prompt has the beginning of the first channel."""
_SPECIAL = re.compile(r"<\|(?:end|return|start)\|>.*\Z", re.DOTALL)
_LONGEST_END = 64
_END = f"(?:{'|'.join(re.escape(end) for _, end in _TAGS)})"
_ANY_END = re.compile(_END, re.IGNORECASE)
_LONE_END = re.compile(
    rf"{_END}[ \t]*(?:\n|\Z)|\n[ \t]*{_END}|(?<=[\w.!?]){_END}(?=[\w*#{{\[])", re.IGNORECASE
)


def answer_in(text: str) -> str:
    """The text without its reasoning."""
    begun = text.lstrip()
    late = _LATE_FINAL.search(text)
    if begun.startswith(_HARMONY) or (late is not None and not _is_code(text[: late.start()])):
        return _after_last(_FINAL, text)
    if _GLUED.match(begun) and _GLUED_FINAL.search(begun):
        return _after_last(_GLUED_FINAL, text)
    rest, is_marked = begun, False
    while (until := _end_of(rest)) is not None and not _GLUED.match(rest):
        end, is_marked = until.search(rest), True
        rest = rest[end.end() :].lstrip() if end else ""
    answer = _after_lone_end(rest if is_marked else text)
    return answer if answer == text else _unwrapped(answer)


def _end_of(text: str) -> re.Pattern[str] | None:
    """The pattern that ends the reasoning at the beginning of a text; None if it begins with none."""
    if text[:1] not in _FIRST:
        return _GLUED_FINAL if _GLUED.match(text) else None
    if text.startswith(_HARMONY):
        return _FINAL
    return next((end for start, end in _ENDS.items() if _begins(text, start)), None)


def _begins(text: str, start: str) -> bool:
    return text[: len(start)].lower() == start


def _after_last(final: re.Pattern[str], text: str) -> str:
    ends = [found.end() for found in final.finditer(text)]
    return _SPECIAL.sub("", text[ends[-1] :]).strip() if ends else ""


def _after_lone_end(text: str) -> str:
    """The text after the reasoning by rule 2; the text itself if it has none."""
    if _ANY_END.search(text) is None:  # most texts, and found many times faster than by `_LONE_END`
        return text
    for end in reversed(list(_LONE_END.finditer(text))):
        before, answer = text[: end.start()], text[end.end() :].lstrip()
        if answer and not _is_code(before) and not any(start in before.lower() for start, _ in _TAGS):
            return answer
    return text


def _is_code(before: str) -> bool:
    """Whether what follows a text is code in its Markdown."""
    return before.count("`") % 2 == 1


def _unwrapped(answer: str) -> str:
    stripped = answer.strip()
    for start, end in _WRAPPERS:
        if _begins(stripped, start):
            inner = stripped[len(start) :]
            return (inner[: -len(end)] if inner.lower().endswith(end) else inner).strip()
    return answer


@attrs.define(eq=False)
class ShownText:
    """The part of a text that can be shown while it arrives."""

    _text: str = ""
    """The characters so far, which may be reasoning, or its beginning."""
    _until: re.Pattern[str] | None = None
    """The end of the reasoning in which the text is."""
    _is_marked: bool = False
    """Whether the text began with reasoning."""
    _is_kept_back: bool = True
    """Whether the text may still begin with reasoning."""

    def add(self, piece: str) -> str:
        """Add a piece, and return what can be shown from now on."""
        if not self._is_kept_back:
            return piece
        self._text += piece
        while (until := self._until or _end_of(self._text.lstrip())) is not None:
            end = until.search(self._text)
            if end is None:
                self._until, self._text = until, self._text[-_LONGEST_END:]
                return ""
            self._until, self._text, self._is_marked = None, self._text[end.end() :], True
        begun = self._text.lstrip()
        if begun in ("", _GLUED_START) or any(start.startswith(begun.lower()) for start in _STARTS):
            return ""
        self._is_kept_back = False
        return begun if self._is_marked else self._text
