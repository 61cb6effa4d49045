"""What passes between a node and a model, in no provider's dialect."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any, ClassVar, Literal, TypeAlias

import attrs

from ...runtime.errors import Refused
from ...runtime.message import Request
from .a2a_end import A2AEnd
from .plain_schema import plain_schema

Arguments: TypeAlias = Mapping[str, Any]


@attrs.frozen
class ToolCall:
    """A call the model asks for."""

    id: str
    """Unique in its reply; pairs the call with its result."""
    name: str
    """The tool."""
    arguments: Arguments
    """The arguments, as JSON values."""
    problem: str | None = None
    """Why the arguments are of no use, for the model to read; such a call is never made."""


@attrs.frozen
class Verbatim:
    """What a provider wants back unchanged: thinking blocks, signatures, the order of parts."""

    provider: str
    """Only a model of this provider is sent it; for any other the message is translated."""
    content: Any
    """JSON, in the provider's own dialect."""


@attrs.frozen
class UserMessage:
    """What a person said."""

    text: str
    """Their words."""


@attrs.frozen
class AssistantMessage:
    """What a model replied."""

    text: str
    """Its words."""
    tool_calls: tuple[ToolCall, ...] = ()
    """With the final arguments: a human may have edited them since the model gave its own."""
    verbatim: Verbatim | None = None


@attrs.frozen
class ToolMessage:
    """The result of one call of the assistant message before it."""

    call_id: str
    """The id of the `ToolCall`."""
    name: str
    """The tool."""
    content: str
    """The result, as text."""
    is_error: bool = False
    """Whether the result is an error."""


ChatMessage: TypeAlias = UserMessage | AssistantMessage | ToolMessage


def _description(tool: ModelTool) -> str:
    return tool.description


def _system(request: ModelRequest) -> str:
    return request.system


@attrs.frozen
class ModelTool:
    """A tool as the model is told of it."""

    name: str
    """What the model calls it by."""
    description: str
    """What it is for."""
    input_schema: Mapping[str, Any]
    """JSON Schema of its arguments."""
    destructive: bool = False
    """Only for models that choose by rule: a call of this would be put to a human."""
    says: str = attrs.field(default=attrs.Factory(_description, takes_self=True))
    """Only for models that choose by rule: what the tool says of itself, without what is added for models."""

    @cached_property
    def plain(self) -> tuple[str, Mapping[str, Any]]:
        """Description and schema as every provider takes them."""
        return plain_schema(self.input_schema, self.description)


@attrs.frozen
class ModelRequest:
    """One model call. Equal requests get equal replies from a scripted model."""

    system: str
    """The system prompt."""
    messages: tuple[ChatMessage, ...]
    """The whole exchange the model sees; the last one is a user or a tool message."""
    tools: tuple[ModelTool, ...]
    """The tools that the model may call."""
    user: str
    """The text of the turn's user message, also when `messages` says it differently."""
    node: str
    """Name of the asking node."""
    turn: int
    """Which turn of the conversation, from 1."""
    call: int
    """Which model call of this node in this run, from 1."""
    earlier: int = 0
    """How many of the messages, at the beginning, are of earlier turns."""
    before: int = 0
    """How many of the messages, at the beginning, are older than this execution of the node. Each reply after
    them was given to exactly the messages before it."""
    trimmed: bool = False
    """Whether something was left out of the messages. Then a reply may have been given to others than those
    before it."""
    iteration: int = 1
    """Of the nearest loop, from 1."""
    attempt: int = 1
    """Which try of this very call, from 1; the model actor counts it."""
    step: str = ""
    """Key of this call in its conversation: nothing else tells calls of nested loops and of retries apart."""
    message_id: str = ""
    """The id that the client gave the turn's message (A2A); only scripts go by it."""
    prompt: str = attrs.field(default=attrs.Factory(_system, takes_self=True))
    """What `system` says but for the tools, which come and go: scripts go by it."""

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
    """Tokens of one call."""

    input_tokens: int = 0
    """All of the input, cached or not."""
    output_tokens: int = 0
    """All that was generated, thinking included."""
    cached_tokens: int = 0
    """Of the input, read from the provider's cache."""
    cache_write_tokens: int = 0
    """Of the input, written to the provider's cache."""

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            self.cached_tokens + other.cached_tokens,
            self.cache_write_tokens + other.cache_write_tokens,
        )


@attrs.frozen
class ModelReply:
    """What a model says to one request."""

    text: str = ""
    """Its words."""
    tool_calls: tuple[ToolCall, ...] = ()
    """The calls that it asks for."""
    usage: Usage = Usage()
    """The tokens that it took."""
    stop: Literal["end", "tool_calls", "max_tokens"] = "end"
    """A refusal is a `ModelFailed`, with what the provider says of it."""
    verbatim: Verbatim | None = None
    """None when text and calls are all there is to send back."""
    a2a: A2AEnd | None = None
    """Only scripts set it."""


@attrs.frozen
class TextDelta:
    """A further piece of the reply's text."""

    text: str
    """The piece."""


@attrs.frozen
class ArgumentsDelta:
    """A further piece of a call's arguments, JSON text; not to be acted upon."""

    index: int
    """Which call of the reply."""
    name: str
    """The tool."""
    json: str
    """The piece."""


Delta: TypeAlias = TextDelta | ArgumentsDelta
Emit: TypeAlias = Callable[[Delta], None]
"""Takes what has arrived of a reply; returns at once."""


def unheard(delta: Delta) -> None:
    """For calls that nobody follows."""


class ModelFailed(Refused):
    """The model gave no usable reply. The text is for the user; it holds no secret."""

    code: ClassVar[str] = "model_error"

    def __init__(
        self,
        message: str,
        *,
        status: int | None = None,
        retryable: bool = False,
        retry_after: float | None = None,
        usage: Usage | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        """Of the provider's HTTP answer, if there was one."""
        self.retryable = retryable
        """Whether the same call may well succeed a little later."""
        self.retry_after = retry_after
        """Seconds the provider asked to wait before the next try."""
        self.usage = usage
        """What was billed all the same, if the provider said."""

    @classmethod
    def from_status(cls, message: str, status: int, retry_after: float | None = None) -> ModelFailed:
        """The failure behind an HTTP status of 400 or more."""
        retryable = status in {408, 409, 429} or 500 <= status <= 599
        return cls(
            f"{message} (status {status})", status=status, retryable=retryable, retry_after=retry_after
        )


@attrs.frozen
class Complete(Request["ModelMessage", ModelReply]):
    """Ask the model actor for one reply. Raises `ModelFailed`."""

    request: ModelRequest
    emit: Callable[[int, Delta], None] | None = attrs.field(default=None, eq=False)
    """Told what has arrived of the reply, with the number of the try: a new one begins all over."""


ModelMessage: TypeAlias = Complete
