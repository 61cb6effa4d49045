"""Requests to models and their replies, independent of any provider."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from operator import attrgetter
from typing import Any, ClassVar, Literal, TypeAlias

import attrs

from ....runtime.errors import Refused
from ....runtime.message import Request
from ...common.kept_forms import KeptForms
from ...tools.pictures import Picture
from .a2a_end import A2AEnd
from .plain_schema import plain_schema
from .schema_dialects import PLAIN, SchemaDialect

Arguments: TypeAlias = Mapping[str, Any]


@attrs.frozen
class ToolCall:
    """A call the model asks for."""

    id: str
    """Pairs the call with its result; unique in its reply."""
    name: str
    """Name of the tool."""
    arguments: Arguments
    """The arguments, as JSON values."""
    problem: str | None = None
    """Why the arguments cannot be used. Such a call is not made; the model gets this text as its result."""


@attrs.frozen
class Verbatim:
    """Parts of a reply that its provider needs back unchanged: thinking blocks, signatures, their order."""

    provider: str
    """Only models of this provider get the content. For others, the message is translated."""
    content: Any
    """JSON in the provider's format."""


@attrs.frozen
class UserMessage:
    """A message from the user."""

    text: str
    """Text of the message. It names each picture."""
    pictures: tuple[Picture, ...] = ()
    """The pictures in the message that the model may be shown."""
    left_out: bool = False
    """As in `ToolMessage`."""


@attrs.frozen
class AssistantMessage:
    """An earlier reply of a model."""

    text: str
    """Text of the reply."""
    tool_calls: tuple[ToolCall, ...] = ()
    """Calls of the reply, with their final arguments: a person may have edited those of the model."""
    verbatim: Verbatim | None = None
    pictures: ClassVar[tuple[Picture, ...]] = ()
    left_out: ClassVar[bool] = False


@attrs.frozen
class ToolMessage:
    """The result of one call of the assistant message before it."""

    call_id: str
    """The id of the `ToolCall`."""
    name: str
    """Name of the tool."""
    content: str
    """The result, as text."""
    is_error: bool = False
    """Whether the result is an error."""
    pictures: tuple[Picture, ...] = ()
    """The pictures in the result that the model may be shown."""
    left_out: bool = False
    """Whether earlier requests of this run had pictures that were left out since."""


ChatMessage: TypeAlias = UserMessage | AssistantMessage | ToolMessage


def _system(request: ModelRequest) -> str:
    return request.system


@attrs.frozen
class ModelTool:
    """A tool that is offered to a model."""

    name: str
    """Name that the model uses for the tool."""
    description: str
    """Description for the model."""
    input_schema: Mapping[str, Any]
    """JSON Schema of its arguments."""

    _shown: dict[str, tuple[str, Mapping[str, Any]]] = attrs.field(
        factory=dict, init=False, eq=False, repr=False
    )
    """What `shown` has made, by dialect."""

    @property
    def plain(self) -> tuple[str, Mapping[str, Any]]:
        """Description and schema in the form that most providers accept."""
        return self.shown(PLAIN)

    def shown(self, dialect: SchemaDialect) -> tuple[str, Mapping[str, Any]]:
        """Description and schema in the dialect of a provider."""
        found = self._shown.get(dialect.name)
        if found is None:
            found = self._shown[dialect.name] = plain_schema(self.input_schema, self.description, dialect)
        return found


@attrs.frozen
class ModelRequest:
    """One model call. A scripted model gives equal replies to equal requests."""

    system: str
    """The system prompt."""
    messages: tuple[ChatMessage, ...]
    """The whole exchange. The last message is a user message or a tool message."""
    tools: tuple[ModelTool, ...]
    """The tools that the model may call."""
    user: str
    """Text of the turn's user message, which `messages` may contain in another form."""
    node: str
    """Name of the calling node."""
    turn: int
    """Number of the turn in the conversation, from 1."""
    call: int
    """Number of the model call of this node in this run, from 1."""
    earlier: int = 0
    """Number of leading messages that belong to earlier turns."""
    before: int = 0
    """Number of leading messages that are older than this execution of the node. Each later reply was given
    to exactly the messages before it."""
    trimmed: bool = False
    """Whether messages were left out or shortened. If so, a reply may have been given to other messages than
    those before it."""
    iteration: int = 1
    """Number of the iteration of the nearest loop, from 1."""
    attempt: int = 1
    """Number of the attempt at this call, from 1. The model actor counts it."""
    step: str = ""
    """Key of this call's step. It alone differs between calls of nested loops and of retried nodes."""
    message_id: str = ""
    """The id that an A2A client gave the turn's message. Only scripts use it."""
    prompt: str = attrs.field(default=attrs.Factory(_system, takes_self=True))
    """`system` without the line about tools, which changes with the tool servers. Only scripts use it."""
    kept: KeptForms | None = attrs.field(default=None, eq=False, repr=False)
    # Where codecs keep the wire form of earlier turns. No docstring, because it is not for programs.

    @property
    def results(self) -> tuple[ToolMessage, ...]:
        """The tool results at the end of the exchange, which the model has not answered yet."""
        results: list[ToolMessage] = []
        for message in reversed(self.messages):
            if not isinstance(message, ToolMessage):
                break
            results.append(message)
        return tuple(reversed(results))

    @property
    def has_pictures(self) -> bool:
        return any(map(attrgetter("pictures"), self.messages))

    def without_pictures(self) -> ModelRequest:
        """The same request for a model that takes no pictures. The texts of the messages name them."""
        return attrs.evolve(
            self,
            messages=tuple(
                attrs.evolve(message, pictures=())
                if not isinstance(message, AssistantMessage) and message.pictures
                else message
                for message in self.messages
            ),
        )


@attrs.frozen
class Usage:
    """Tokens of one model call."""

    input_tokens: int = 0
    """All of the input, cached or not."""
    output_tokens: int = 0
    """All generated tokens, thinking included."""
    cached_tokens: int = 0
    """Input tokens read from the provider's cache."""
    cache_write_tokens: int = 0
    """Input tokens written to the provider's cache."""

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            self.cached_tokens + other.cached_tokens,
            self.cache_write_tokens + other.cache_write_tokens,
        )


@attrs.frozen
class ModelReply:
    """The reply of a model to one request."""

    text: str = ""
    """Text of the reply."""
    tool_calls: tuple[ToolCall, ...] = ()
    """Calls that the model asks for."""
    usage: Usage = Usage()
    """Tokens of the call."""
    stop: Literal["end", "tool_calls", "max_tokens"] = "end"
    """Why the reply ended. A refusal is a `ModelFailed` with the provider's reason."""
    verbatim: Verbatim | None = None
    """None: text and calls are enough to send the reply back."""
    a2a: A2AEnd | None = None
    """The end of the task for A2A clients. Only scripts set it."""


@attrs.frozen
class TextDelta:
    """The next piece of the reply's text."""

    text: str
    """The piece."""


@attrs.frozen
class ArgumentsDelta:
    """The next piece of the JSON text of a call's arguments. It is for display only."""

    index: int
    """Index of the call in the reply."""
    name: str
    """Name of the tool."""
    json: str
    """The piece."""


Delta: TypeAlias = TextDelta | ArgumentsDelta
Emit: TypeAlias = Callable[[Delta], None]
"""Takes a piece of a reply; must return at once."""


def unheard(delta: Delta) -> None:
    """An `Emit` that ignores all deltas."""


class ModelFailed(Refused):
    """The model gave no usable reply. The text is for the user and contains no secret."""

    code: ClassVar[str] = "model_error"

    def __init__(
        self,
        message: str,
        *,
        status: int | None = None,
        retryable: bool = False,
        retry_after: float | None = None,
        empty: bool = False,
        usage: Usage | None = None,
        answer: str = "",
    ) -> None:
        super().__init__(message)
        self.status = status
        """HTTP status of the provider's answer, if there was one."""
        self.retryable = retryable
        """Whether the same call may succeed a little later."""
        self.retry_after = retry_after
        """Seconds that the provider asked to wait before the next attempt."""
        self.empty = empty
        """Whether the answer was complete but had no text and no call. It is asked for once more."""
        self.usage = usage
        """Tokens billed for the failed call, if the provider gave them."""
        self.answer = answer
        """The provider's answer as it came. It is for programs, since it may quote anything."""
        self.provider_code: str | None = None
        """The provider's own code of the error, if it gave one."""

    @classmethod
    def from_status(cls, message: str, status: int, retry_after: float | None = None) -> ModelFailed:
        """The failure for an HTTP status of 400 or more."""
        # 424: a model of Bedrock failed.
        retryable = status in {408, 409, 424, 429} or 500 <= status <= 599
        return cls(
            f"{message} (status {status})", status=status, retryable=retryable, retry_after=retry_after
        )


@attrs.frozen
class AskModel(Request["ModelMessage", ModelReply]):
    """Ask a model actor for one reply. Raises `ModelFailed`."""

    request: ModelRequest
    emit: Callable[[int, Delta], None] | None = attrs.field(default=None, eq=False)
    """Takes the pieces of the reply with the number of the attempt. A new attempt starts the reply over."""


ModelMessage: TypeAlias = AskModel
