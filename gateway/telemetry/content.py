"""Prompts, replies and arguments as attributes of spans, for those who ask for them. Pure.

The forms are those of OpenTelemetry's conventions for generative AI (`gen_ai.input.messages` and
`gen_ai.output.messages`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, assert_never

from ...actors.models.messages.messages import (
    AssistantMessage,
    ChatMessage,
    ModelReply,
    ModelRequest,
    ToolCall,
    ToolMessage,
    UserMessage,
)
from ...runtime import json_text


def as_json(value: Any) -> str:
    return json_text.dump(value)


def instructions(request: ModelRequest) -> str:
    return as_json([_text(request.system)])


def input_messages(request: ModelRequest) -> str:
    return as_json([_message(each) for each in request.messages])


def output_messages(reply: ModelReply, finish_reason: str) -> str:
    parts = _parts(reply.text, reply.tool_calls)
    return as_json([{"role": "assistant", "parts": parts, "finish_reason": finish_reason}])


def _message(message: ChatMessage) -> Mapping[str, Any]:
    match message:
        case UserMessage():
            return {"role": "user", "parts": [_text(message.text)]}
        case AssistantMessage():
            return {"role": "assistant", "parts": _parts(message.text, message.tool_calls)}
        case ToolMessage():
            response = {"type": "tool_call_response", "id": message.call_id, "response": message.content}
            return {"role": "tool", "parts": [response]}
        case _:
            assert_never(message)


def _parts(text: str, calls: tuple[ToolCall, ...]) -> list[Mapping[str, Any]]:
    called = [
        {"type": "tool_call", "id": each.id, "name": each.name, "arguments": each.arguments} for each in calls
    ]
    return [*([_text(text)] if text else []), *called]


def _text(text: str) -> Mapping[str, Any]:
    return {"type": "text", "content": text}
