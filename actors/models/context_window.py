"""Estimate the size of a request, and shorten a request that is too large. Pure.

The estimate is rather too high than too low: one token for three bytes of UTF-8, one for each digit, and a
few for the frame of a message. English has about four bytes a token, JSON and code about three, Chinese about
three; some tokenizers cut numbers into digits. Base64 and the like may take more tokens than the estimate.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from operator import is_
from typing import Any, assert_never

import attrs

from ...config.sections.models import ContextConfig
from ..common.kept_forms import PER_ITEM
from .messages.messages import (
    AssistantMessage,
    ChatMessage,
    ModelRequest,
    ModelTool,
    ToolMessage,
    UserMessage,
)

LEFT_OUT = "[This older result was left out to save room. Call the tool again if you need it.]"

_UNITS = 3
"""Units in a token. A byte counts one unit, a digit three."""
_PER_PART = 8 * _UNITS
"""Units for the frame of the request, of each message, each call and each tool."""
_PER_PICTURE = 1600 * _UNITS
"""Units of a picture. Claude scales a picture to about 1,600 tokens (docs.anthropic.com, "Vision")."""


class TooLarge(Exception):
    """The request does not fit, even with everything left out that may be."""

    def __init__(self, tokens: int) -> None:
        super().__init__(tokens)
        self.tokens = tokens
        """Estimated size of the shortest form."""


def fit(request: ModelRequest, context: ContextConfig) -> ModelRequest:
    """The request, shortened if it is too large and the strategy is `trim`.

    First, contents of tool results are removed, the oldest first, except of results that the model has not
    answered yet. Then earlier turns are removed as a whole, the oldest first. The prompt, the tools, the text
    of this turn and each call with its result stay.

    Raises:
        TooLarge
    """
    sizes = _sizes(request)
    excess = _fixed(request) + sum(sizes) - context.max_input_tokens * _UNITS
    if excess <= 0:
        return request
    messages, dropped = list(request.messages), 0
    if context.strategy == "trim":
        excess -= _empty_results(messages, sizes, len(messages) - len(request.results), excess)
        dropped, saved = _oldest_turns(messages[: request.earlier], sizes, excess)
        messages, excess = messages[dropped:], excess - saved
    if excess > 0:
        raise TooLarge(context.max_input_tokens + _tokens(excess))
    return attrs.evolve(
        request,
        messages=tuple(messages),
        earlier=request.earlier - dropped,
        before=request.before - dropped,
        trimmed=True,
    )


def _sizes(request: ModelRequest) -> list[int]:
    """The units of the messages. Those of earlier turns are kept until the next request."""
    messages, kept, key = request.messages, request.kept, ("sizes", request.node)
    known = None if kept is None else kept.take(key, _Sizes)
    if known is None or not all(map(is_, known.messages, messages)):
        known = _Sizes((), ())
    count = min(len(known.messages), len(messages))
    sizes = [*known.sizes[:count], *map(_size, messages[count:])]
    if kept is not None:
        earlier = request.earlier
        kept.keep(key, _Sizes(messages[:earlier], tuple(sizes[:earlier])), PER_ITEM * earlier)
    return sizes


@attrs.frozen
class _Sizes:
    messages: Sequence[ChatMessage]
    sizes: Sequence[int]


def _empty_results(messages: list[ChatMessage], sizes: list[int], end: int, excess: int) -> int:
    """Remove contents of results before `end` until `excess` units are saved. Returns the saved units."""
    saved = 0
    for index in range(end):
        message = messages[index]
        if saved >= excess:
            break
        if isinstance(message, ToolMessage):
            emptied = attrs.evolve(message, content=LEFT_OUT, pictures=())
            size = _size(emptied)
            if size < sizes[index]:
                saved += sizes[index] - size
                messages[index], sizes[index] = emptied, size
    return saved


def _oldest_turns(earlier: Sequence[ChatMessage], sizes: list[int], excess: int) -> tuple[int, int]:
    """The number of leading messages whose turns save `excess` units, or of all messages, and their units."""
    saved = 0
    for index, message in enumerate(earlier):
        if saved >= excess and isinstance(message, UserMessage):
            return index, saved
        saved += sizes[index]
    return len(earlier), saved


def _tokens(units: int) -> int:
    return -(-units // _UNITS)


def _fixed(request: ModelRequest) -> int:
    """The units of everything but the messages."""
    return _PER_PART + _text(request.system) + sum(_tool(tool) for tool in request.tools)


def _size(message: ChatMessage) -> int:
    match message:
        case UserMessage():
            return _PER_PART + _text(message.text) + len(message.pictures) * _PER_PICTURE
        case ToolMessage():
            pictures = len(message.pictures) * _PER_PICTURE
            return 2 * _PER_PART + _text(message.content) + _text(message.name) + pictures
        case AssistantMessage():
            calls = sum(
                2 * _PER_PART + _text(call.name) + _json(call.arguments) for call in message.tool_calls
            )
            said = _text(message.text) + calls
            # The provider decides which of the two is sent.
            return _PER_PART + max(said, 0 if message.verbatim is None else _json(message.verbatim.content))
        case _:
            assert_never(message)


def _tool(tool: ModelTool) -> int:
    description, schema = tool.plain
    return 2 * _PER_PART + _text(tool.name) + _text(description) + _json(schema)


def _json(value: Any) -> int:
    return _text(json.dumps(value, ensure_ascii=False, default=dict))


def _text(text: str) -> int:
    digits = sum(text.count(digit) for digit in "0123456789")
    return len(text.encode("utf-8", "replace")) + (_UNITS - 1) * digits
