"""What passes between a node and a model, in no provider's dialect."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal, TypeAlias

import attrs

from stopgo.runtime.errors import Refused
from stopgo.runtime.message import Request

Arguments: TypeAlias = Mapping[str, Any]


@attrs.frozen
class ToolCall:
    """A call the model asks for."""

    id: str
    """Unique in its reply; pairs the call with its result."""
    name: str
    arguments: Arguments


@attrs.frozen
class UserMessage:
    text: str


@attrs.frozen
class AssistantMessage:
    text: str
    tool_calls: tuple[ToolCall, ...] = ()


@attrs.frozen
class ToolMessage:
    """The result of one call of the assistant message before it."""

    call_id: str
    name: str
    content: str
    is_error: bool = False


ChatMessage: TypeAlias = UserMessage | AssistantMessage | ToolMessage


@attrs.frozen
class ModelTool:
    """A tool as the model is told of it."""

    name: str
    description: str
    input_schema: Mapping[str, Any]
    destructive: bool = False
    """Only for models that choose by rule: a call of this would be put to a human."""


@attrs.frozen
class ModelRequest:
    """One model call. Equal requests get equal replies from a scripted model."""

    system: str
    messages: tuple[ChatMessage, ...]
    """The whole exchange the model sees; the last one is a user or a tool message."""
    tools: tuple[ModelTool, ...]
    user: str
    """The text of the turn's user message, also when `messages` says it differently."""
    node: str
    """Name of the asking node."""
    turn: int
    """Which turn of the conversation, from 1."""
    call: int
    """Which model call of this node in this run, from 1."""
    iteration: int = 1
    """Of the nearest loop, from 1."""
    attempt: int = 1
    """Which try of this very call, from 1; the model actor counts it."""

    @property
    def results(self) -> tuple[ToolMessage, ...]:
        """The tool results at the end of the exchange: those the model is now to answer."""
        results: list[ToolMessage] = []
        for message in reversed(self.messages):
            if not isinstance(message, ToolMessage):
                break
            results.append(message)
        return tuple(reversed(results))


@attrs.frozen
class Usage:
    input_tokens: int = 0
    output_tokens: int = 0


@attrs.frozen
class ModelReply:
    text: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    usage: Usage = Usage()
    stop: Literal["end", "tool_calls", "max_tokens", "refusal"] = "end"


class ModelFailed(Refused):
    """The model gave no usable reply. The text is for the user; it holds no secret."""

    code: ClassVar[str] = "model_error"

    def __init__(self, message: str, *, status: int | None = None, retryable: bool = False) -> None:
        super().__init__(message)
        self.status = status
        """Of the provider's HTTP answer, if there was one."""
        self.retryable = retryable
        """Whether the same call may well succeed a little later."""

    @classmethod
    def from_status(cls, message: str, status: int) -> ModelFailed:
        """The failure behind an HTTP status of 400 or more."""
        retryable = status in {408, 409, 429} or 500 <= status <= 599
        return cls(f"{message} (status {status})", status=status, retryable=retryable)


@attrs.frozen
class Complete(Request["ModelMessage", ModelReply]):
    """Ask the model actor for one reply. Raises `ModelFailed`."""

    request: ModelRequest


ModelMessage: TypeAlias = Complete
