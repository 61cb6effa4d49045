"""Requests to a simulated model and its replies, independent of a provider; and the model, which follows
rules."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Literal, TypeAlias

import attrs

from stopgo.actors.models.messages.messages import ModelTool, ToolMessage
from stopgo.actors.models.offline.result_summary import summarise
from stopgo.actors.models.offline.rules_model import decide

Json: TypeAlias = dict[str, Any]


@attrs.frozen
class Heard:
    """One request as a model understands it."""

    model: str
    user: str
    """Text of the last user message."""
    step: int
    """Replies of the model since then."""
    results: tuple[ToolMessage, ...]
    """Those at the end, not yet answered."""
    tools: tuple[ModelTool, ...]
    size: int
    """Characters of the request."""
    stream: bool = False
    thinks: bool = False
    wants_usage: bool = True


@attrs.frozen
class SaidCall:
    name: str
    arguments: Mapping[str, Any] | str
    """A text is sent as it is, JSON or not."""
    id: str | None = None
    """None: the server makes one as its provider does."""


@attrs.frozen
class Said:
    """One reply of a model."""

    text: str = ""
    calls: tuple[SaidCall, ...] = ()
    thinking: str = ""
    stop: Literal["auto", "max_tokens", "refusal", "filter"] = "auto"
    """`auto`: as it should be after this text and these calls."""
    nonce: str = ""
    """Makes ids differ from request to request."""
    tokens_in: int = 0
    tokens_cached: int = 0
    tokens_out: int = 0


Mark: TypeAlias = Literal["begin", "thinking", "text", "call", "stop", "end"]
"""Parts of a stream: before the content, the content, the reason of its end, the end."""


@attrs.frozen
class Frame:
    """One event of a stream, as it goes over the wire."""

    mark: Mark
    data: bytes


class Refusal(Exception):
    """The answer of the real server to such a request."""

    def __init__(self, status: int, body: Any, why: str) -> None:
        super().__init__(why)
        self.status = status
        self.body = body


def arguments_text(arguments: Mapping[str, Any] | str) -> str:
    # Half of the servers escape characters outside ASCII; then a piece may end within an escape.
    return arguments if isinstance(arguments, str) else json.dumps(arguments)


def pieces(text: str, sizes: tuple[int, ...] = (1, 2, 3, 1, 5)) -> Iterator[str]:
    """The text in pieces of a few characters: within words, escapes and pairs of surrogates."""
    start = turn = 0
    while start < len(text):
        size = sizes[turn % len(sizes)]
        yield text[start : start + size]
        start, turn = start + size, turn + 1


def answer(heard: Heard) -> Said:
    """The reply of the model: a call for each part of the sentence, then the results.

    `;` stands between what can be done side by side, ` then ` between what comes one after the other.
    """
    nonce = f"{heard.user} {heard.step} {heard.size}"
    counts: Json = {
        "nonce": nonce,
        "tokens_in": 40 + heard.size // 4,
        "tokens_cached": 32 if heard.step else 0,
        "tokens_out": 7 + heard.step,
    }
    thinking = f"Schritt {heard.step + 1} 🤔 of “{heard.user}”" if heard.thinks else ""
    steps = heard.user.split(" then ")
    failed = any(result.is_error for result in heard.results)
    if heard.step >= len(steps) or failed:
        return Said(summarise(heard.results) or "Done ✓", thinking=thinking, **counts)
    decided = [decide(part, heard.tools) for part in steps[heard.step].split(";")]
    questions = [each for each in decided if isinstance(each, str)]
    if questions:
        return Said("\n".join(questions), thinking=thinking, **counts)
    calls = tuple(SaidCall(*each) for each in decided if not isinstance(each, str))
    return Said(f"Gerne: {len(calls)} × 🔧", calls, thinking, **counts)
