"""Tools and the messages of tool servers, independent of the protocol."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Awaitable, Callable, Mapping
from functools import cached_property
from typing import Any, ClassVar, Literal, TypeAlias

import attrs

from ...config.text.wildcards import is_named
from ...runtime.errors import Refused
from ...runtime.message import Request
from .names import PREFIX, prefixed_name

EffectClass: TypeAlias = Literal["read", "idempotent", "once"]
EFFECTS: tuple[EffectClass, ...] = ("read", "idempotent", "once")
"""The effect classes, from lax to strict."""


@attrs.frozen
class Hints:
    """The annotations of a tool (MCP `ToolAnnotations`), as the server gives them. None means not given."""

    read_only: bool | None = None
    """`readOnlyHint`: the tool changes nothing."""
    destructive: bool | None = None
    """`destructiveHint`: the tool may delete or overwrite."""
    idempotent: bool | None = None
    """`idempotentHint`: repeating a call has no further effect."""
    open_world: bool | None = None
    """`openWorldHint`: the tool acts outside its server."""
    contradiction_asks: bool = attrs.field(default=False, kw_only=True)
    """Whether a tool that contradicts itself counts as destructive (`approval.contradictory_hints`)."""

    @property
    def contradictory(self) -> bool:
        """Whether `read_only` and `destructive` are both true."""
        return bool(self.read_only and self.destructive)

    @property
    def in_effect(self) -> Hints:
        """The hints without the one that does not count if they are contradictory.

        MCP 2025-11-25 defines `destructiveHint` as meaningful only if `readOnlyHint` is false.
        """
        if not self.contradictory:
            return self
        if self.contradiction_asks:
            return attrs.evolve(self, read_only=None)
        return attrs.evolve(self, destructive=None)

    @property
    def said(self) -> tuple[bool | None, ...]:
        """The four hints of the protocol."""
        return self.read_only, self.destructive, self.idempotent, self.open_world

    @property
    def strictness(self) -> tuple[int, int]:
        """The strictness of the verdict (0: run, 1: as `unannotated` says, 2: ask) and of the effect class
        (0: `read`, 1: `idempotent`, 2: `once`)."""
        hints = self.in_effect
        asks = 0 if hints.read_only or hints.destructive is False else 2 if hints.destructive else 1
        return asks, EFFECTS.index(hints.effect)

    @property
    def effect(self) -> EffectClass:
        """The effect class of a call."""
        hints = self.in_effect
        if hints.read_only:
            return "read"
        return "idempotent" if hints.idempotent and not hints.destructive else "once"

    def to_json(self) -> dict[str, bool]:
        """Return the hints by protocol name."""
        said = zip(_WIRE_NAMES, self.said, strict=True)
        return {name: value for name, value in said if value is not None}

    @classmethod
    def from_json(cls, said: Mapping[str, Any]) -> Hints:
        """Rebuild hints from the result of `to_json`. Raises ValueError for any other value."""
        if said.keys() - set(_WIRE_NAMES) or any(type(value) is not bool for value in said.values()):
            raise ValueError("the hints are not booleans by protocol name")
        return cls(*map(said.get, _WIRE_NAMES))


_WIRE_NAMES = ("readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint")


def _same_name(tool: Tool) -> str:
    return tool.name


def _same_hints(tool: Tool) -> Hints:
    return tool.hints


@attrs.frozen
class Tool:
    """The definition of a tool."""

    name: str
    """The name for models and people."""
    description: str
    """The description that the server gives."""
    input_schema: Mapping[str, Any]
    """JSON Schema of the arguments."""
    server: str
    """The name of the server."""
    title: str | None = None
    """The title for people, if the server gives one."""
    hints: Hints = Hints()
    """The hints that count: the listed ones, or stricter ones until a person accepts weaker ones."""
    own_name: str = attrs.field(default=attrs.Factory(_same_name, takes_self=True))
    """The name at its server."""
    facade: str | None = None
    """The server facade, if models see the server as one tool."""
    misleading: bool = False
    """Whether the own name looks like a name that the agent gives to a tool of another server."""
    output_schema: Mapping[str, Any] | None = None
    """JSON Schema of structured results, if the server gives one."""
    listed_hints: Hints = attrs.field(default=attrs.Factory(_same_hints, takes_self=True))
    """The hints that the server lists."""

    @property
    def held(self) -> bool:
        """Whether weaker listed hints wait for acceptance by a person."""
        return self.hints != self.listed_hints

    @property
    def names(self) -> tuple[str, ...]:
        """The names that rules and filters can use, without a misleading own name."""
        names = (self.name, None if self.misleading else self.own_name, self.facade)
        return tuple(dict.fromkeys(name for name in names if name is not None))

    def names_for(self, pattern: str) -> tuple[str, ...]:
        """Return the names to match against a pattern of a rule or a filter.

        A pattern for prefixed names is also matched against the prefixed name if models see another name,
        because that can depend on the lists of other servers. Other patterns are not, because `mcp_*` would
        match all tools.
        """
        if not pattern.startswith(PREFIX):
            return self.names
        return tuple(dict.fromkeys((*self.names, prefixed_name(self.server, self.own_name))))

    def is_called(self, pattern: str) -> bool:
        """Return whether a pattern of a rule or a filter matches the tool."""
        return any(is_named(name, pattern) for name in self.names_for(pattern))

    @cached_property
    def size(self) -> int:
        """The size of the definition as JSON, in bytes."""
        told = [self.own_name, self.title, self.description, self.input_schema, self.output_schema]
        return len(json.dumps(told, ensure_ascii=False).encode("utf-8", "replace"))

    @cached_property
    def fingerprint(self) -> str:
        """A digest of everything that people are shown and the gate checks, except the name for models."""
        return self._digest()[:16]

    @cached_property
    def hash(self) -> str:
        """A digest of the definition as listed. A person accepts this hash."""
        return self._digest(self.title)

    def _digest(self, *more: object) -> str:
        shown = [
            self.own_name,
            self.description,
            self.input_schema,
            self.server,
            self.listed_hints.said,
            *more,
        ]
        return hashlib.sha256(json.dumps(shown, sort_keys=True).encode()).hexdigest()


@attrs.frozen
class ToolResult:
    """The result of a call. A result with `is_error` is also a result, which the model reads."""

    content: str
    """The text for the model: text parts joined by newlines, or `(empty result)`."""
    is_error: bool = False
    parts: tuple[Mapping[str, Any], ...] = ()
    """The unchanged content blocks, as JSON."""
    structured: Any = None


class ToolUnavailable(Refused):
    """The tool did not run, because there is no connection. It is safe to send the call later."""

    code: ClassVar[str] = "tool_unavailable"


class ToolOutcomeUnknown(Refused):
    """The call was sent without a result: the connection was lost, or the call timed out."""

    code: ClassVar[str] = "tool_outcome_unknown"


class ToolAuthRequired(Refused):
    """The server refused the call with 401 or 403: it requires a credential, or a different one."""

    code: ClassVar[str] = "auth_required"

    def __init__(self, message: str, *, status: int, challenge: str | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.challenge = challenge
        """The `WWW-Authenticate` header of the answer."""


class ToolInputRequired(Refused):
    """The server wants answers from a person before it carries out the call. Then the call is sent again.

    It is `InputRequiredResult` in the protocol of 2026-07-28, and the error -32042 in older ones.
    """

    code: ClassVar[str] = "input_required"

    def __init__(
        self, requests: Mapping[str, Elicitation], *, state: str | None = None, answers: bool = True
    ) -> None:
        super().__init__("the server asks before it goes on")
        self.requests = requests
        """The questions by the names under which to send the answers."""
        self.state = state
        """An opaque value of the server, which the next call returns unchanged."""
        self.answers = answers
        """Whether the next call sends the answers. Otherwise only their effect counts, such as a visit to an
        address."""


class ToolChanged(Refused):
    """The tool did not run, because its definition has changed since the gate or a person checked it."""

    code: ClassVar[str] = "tool_changed"


@attrs.frozen
class Progress:
    """A progress message of a server about a call."""

    progress: float
    """The completed amount."""
    total: float | None = None
    """The total amount in the same unit; None if the server does not know it."""
    message: str | None = None
    """The message of the server."""


@attrs.frozen
class Elicitation:
    """A question of a server during a call."""

    message: str
    schema: Mapping[str, Any] | None = None
    """JSON Schema of the form; None if there is an address to visit."""
    url: str | None = None


@attrs.frozen
class ElicitationAnswer:
    action: Literal["accept", "decline", "cancel"]
    content: Mapping[str, Any] | None = None


@attrs.frozen
class CallTool(Request["ServerMessage", ToolResult]):
    """Call a tool of this server.

    Raises `ToolUnavailable`, `ToolChanged`, `ToolAuthRequired`, `ToolInputRequired` or `ToolOutcomeUnknown`.
    """

    tool: str
    arguments: Mapping[str, Any]
    bearer: str | None = attrs.field(default=None, repr=False)
    """The bearer token to forward with this call over HTTP. Never stored, never logged."""
    shown: Tool | None = attrs.field(default=None, repr=False)
    """The tool that the gate checked. After a reconnect, the server may offer another tool with this name."""
    on_sent: Callable[[], None] | None = attrs.field(default=None, eq=False, repr=False)
    """Called just before the call is sent. It must not block. A call withdrawn before that is never sent."""
    on_progress: Callable[[Progress], None] | None = attrs.field(default=None, eq=False, repr=False)
    """Called with progress messages. It must not block."""
    on_elicitation: Callable[[Elicitation], Awaitable[ElicitationAnswer]] | None = attrs.field(
        default=None, eq=False, repr=False
    )
    """Asks a person the server's question and waits for the answer. If None, questions are declined."""
    on_anonymous_question: Callable[[], None] | None = attrs.field(default=None, eq=False, repr=False)
    """Called for a question that the protocol does not assign to a call. It must not block."""
    answers: Mapping[str, ElicitationAnswer] | None = attrs.field(default=None, repr=False)
    """The answers to the questions of the `ToolInputRequired` that an earlier attempt raised."""
    state: str | None = attrs.field(default=None, repr=False)
    """The state from the same error."""
    since: float | None = attrs.field(default=None, eq=False)
    """The time on trio's clock when the call began to wait for its slots. None means now."""
    traceparent: str | None = attrs.field(default=None, eq=False)
    """The trace that the call belongs to (W3C Trace Context), for the server."""


@attrs.frozen
class ListTools(Request["ServerMessage", tuple[Tool, ...]]):
    """Return the tools that the server last listed."""


@attrs.frozen
class Authenticate(Request["ServerMessage", None]):
    """Connect with this bearer token and list the tools, if the server waits for one. Replies after the
    attempt."""

    bearer: str = attrs.field(repr=False)
    """The token for requests of the connection. Never stored, never logged, never used for calls of other
    users."""


ServerMessage: TypeAlias = Authenticate | CallTool | ListTools
