"""How large a request is, and what is left out of one that is too large. Pure.

The estimate is made to be rather too high than too low: a token for three bytes of UTF-8, one for each digit,
and some for what holds a message together. English has about four bytes a token, JSON and code about three,
Chinese about three; some tokenizers cut numbers into digits. What is neither text nor JSON, such as base64,
may come to more than the estimate.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, assert_never

import attrs

from ...config.models import ContextConfig
from .messages import (
    AssistantMessage,
    ChatMessage,
    ModelRequest,
    ModelTool,
    ToolMessage,
    UserMessage,
)

LEFT_OUT = "[This older result was left out to save room. Call the tool again if you need it.]"

_UNITS = 3
"""In a token; a byte is one, a digit three."""
_PER_PART = 8 * _UNITS
"""For the request, each message, each call and each tool, beside their texts."""


class TooLarge(Exception):
    """The request does not fit, whatever may be left out of it is."""

    def __init__(self, tokens: int) -> None:
        super().__init__(tokens)
        self.tokens = tokens
        """About so many it still has."""


def fit(request: ModelRequest, context: ContextConfig) -> ModelRequest:
    """The request as it may be sent.

    With `trim`, the contents of tool results go first, the oldest before the newer ones; those that the model
    is to answer now stay. Then earlier turns go, whole and again from the oldest. Prompt, tools and what was
    said in this turn stay, and so does every call with its result.

    Raises:
        TooLarge
    """
    sizes = [_size(message) for message in request.messages]
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


def _empty_results(messages: list[ChatMessage], sizes: list[int], end: int, excess: int) -> int:
    """Take the content out of results before `end`, until `excess` is saved; returns what was saved."""
    saved = 0
    for index in range(end):
        message = messages[index]
        if saved >= excess:
            break
        if isinstance(message, ToolMessage):
            emptied = attrs.evolve(message, content=LEFT_OUT)
            size = _size(emptied)
            if size < sizes[index]:
                saved += sizes[index] - size
                messages[index], sizes[index] = emptied, size
    return saved


def _oldest_turns(earlier: Sequence[ChatMessage], sizes: list[int], excess: int) -> tuple[int, int]:
    """How many messages at the beginning make up turns that save `excess`, or all there are; and what they
    save."""
    saved = 0
    for index, message in enumerate(earlier):
        if saved >= excess and isinstance(message, UserMessage):
            return index, saved
        saved += sizes[index]
    return len(earlier), saved


def _tokens(units: int) -> int:
    return -(-units // _UNITS)


def _fixed(request: ModelRequest) -> int:
    """What is sent beside the messages."""
    return _PER_PART + _text(request.system) + sum(_tool(tool) for tool in request.tools)


def _size(message: ChatMessage) -> int:
    match message:
        case UserMessage():
            return _PER_PART + _text(message.text)
        case ToolMessage():
            return 2 * _PER_PART + _text(message.content) + _text(message.name)
        case AssistantMessage():
            calls = sum(
                2 * _PER_PART + _text(call.name) + _json(call.arguments) for call in message.tool_calls
            )
            said = _text(message.text) + calls
            # Which of the two is sent depends on the provider.
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
