"""Tools as the runtime knows them, whatever protocol offers them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Awaitable, Callable, Mapping
from functools import cached_property
from typing import Any, ClassVar, Literal, TypeAlias

import attrs

from ...config.wildcards import is_named
from ...runtime.errors import Refused
from ...runtime.message import Request
from .names import PREFIX, prefixed_name

EffectClass: TypeAlias = Literal["read", "idempotent", "once"]
EFFECTS: tuple[EffectClass, ...] = ("read", "idempotent", "once")
"""The laxest first."""


@attrs.frozen
class Hints:
    """A tool's own annotations; None is "not said" (MCP `ToolAnnotations`).

    A tool cannot both only read and destroy. If it claims both, `read_only` counts as not given.
    """

    read_only: bool | None = None
    """`readOnlyHint`: it changes nothing."""
    destructive: bool | None = None
    """`destructiveHint`: it may delete or overwrite."""
    idempotent: bool | None = None
    """`idempotentHint`: calling it twice changes no more than calling it once."""
    open_world: bool | None = None
    """`openWorldHint`: it reaches beyond its server."""
    contradictory: bool = attrs.field(default=False, kw_only=True)
    """It says `readOnlyHint: true` and `destructiveHint: true`; `read_only` is None."""

    def __attrs_post_init__(self) -> None:
        if self.read_only and self.destructive:
            object.__setattr__(self, "read_only", None)
            object.__setattr__(self, "contradictory", True)

    @property
    def said(self) -> tuple[bool | None, ...]:
        """The four that the protocol knows."""
        return self.read_only, self.destructive, self.idempotent, self.open_world

    @property
    def strictness(self) -> tuple[int, int]:
        """What the gate makes of them, more for stricter: whether a call asks (0: no, 1: as `unannotated`
        says, 2: yes), and how often it may be sent (0: `read`, 1: `idempotent`, 2: `once`)."""
        asks = 0 if self.read_only or self.destructive is False else 2 if self.destructive else 1
        return asks, EFFECTS.index(self.effect)

    @property
    def effect(self) -> EffectClass:
        """How often a call may be sent that no person approved."""
        if self.read_only:
            return "read"
        return "idempotent" if self.idempotent and not self.destructive else "once"

    def to_json(self) -> dict[str, bool]:
        """The hints by protocol name. For a contradictory tool `readOnlyHint` is left out."""
        said = zip(_WIRE_NAMES, self.said, strict=True)
        return {name: value for name, value in said if value is not None}

    @classmethod
    def from_json(cls, said: Mapping[str, Any]) -> Hints:
        """What `to_json` made. Raises ValueError when it is something else."""
        if said.keys() - set(_WIRE_NAMES) or any(type(value) is not bool for value in said.values()):
            raise ValueError("these are no hints")
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
    """What models and people know it by."""
    description: str
    """The server's own."""
    input_schema: Mapping[str, Any]
    """JSON Schema of its arguments."""
    server: str
    """Name of the server that offers it."""
    title: str | None = None
    """Its name for people, if the server says."""
    hints: Hints = Hints()
    """Those that count: the server's, or stricter ones until a person accepts its weaker ones."""
    own_name: str = attrs.field(default=attrs.Factory(_same_name, takes_self=True))
    """What its server knows it by."""
    facade: str | None = None
    """The one tool that models see of its server, if they see no more."""
    misleading: bool = False
    """Whether its own name could be taken for one that the agent gives to tools of another server."""
    output_schema: Mapping[str, Any] | None = None
    """Of structured results, if the server says."""
    listed_hints: Hints = attrs.field(default=attrs.Factory(_same_hints, takes_self=True))
    """What its server says."""

    @property
    def held(self) -> bool:
        """Whether weaker hints of its server wait for a person to accept them."""
        return self.hints != self.listed_hints

    @property
    def names(self) -> tuple[str, ...]:
        """Whatever a rule or a filter may call it; a misleading own name is none of it."""
        names = (self.name, None if self.misleading else self.own_name, self.facade)
        return tuple(dict.fromkeys(name for name in names if name is not None))

    def names_for(self, pattern: str) -> tuple[str, ...]:
        """The names that this pattern of a rule or a filter may mean.

        A pattern for prefixed names means the tool whether models see it by that name or not: that may
        depend on what other servers list. No other pattern does, or `mcp_*` would mean every tool.
        """
        if not pattern.startswith(PREFIX):
            return self.names
        return tuple(dict.fromkeys((*self.names, prefixed_name(self.server, self.own_name))))

    def is_called(self, pattern: str) -> bool:
        """Whether a rule or a filter with this pattern means the tool."""
        return any(is_named(name, pattern) for name in self.names_for(pattern))

    @cached_property
    def size(self) -> int:
        """Bytes of its definition, as JSON."""
        told = [self.own_name, self.title, self.description, self.input_schema, self.output_schema]
        return len(json.dumps(told, ensure_ascii=False).encode("utf-8", "replace"))

    @cached_property
    def fingerprint(self) -> str:
        """Changes when anything a human was shown or the gate looked at changes, but for what it is called
        here."""
        return self._digest()[:16]

    @cached_property
    def hash(self) -> str:
        """Of the definition as its server lists it: what a person accepts."""
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
    """What a call came back with; `is_error` results are results, for the model to read."""

    content: str
    """What the model is shown: text parts joined by newline, `(empty result)` when there is none."""
    is_error: bool = False
    parts: tuple[Mapping[str, Any], ...] = ()
    """The content blocks as they came, JSON."""
    structured: Any = None


class ToolUnavailable(Refused):
    """The tool did not run: there is no connection. Sending the call later is safe."""

    code: ClassVar[str] = "tool_unavailable"


class ToolOutcomeUnknown(Refused):
    """The call was sent and no result came: the connection was lost, or it timed out."""

    code: ClassVar[str] = "tool_outcome_unknown"


class ToolAuthRequired(Refused):
    """The server refused the call for want of a credential, or of a better one: it answered 401 or 403."""

    code: ClassVar[str] = "auth_required"

    def __init__(self, message: str, *, status: int, challenge: str | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.challenge = challenge
        """What its `WWW-Authenticate` header said."""


class ToolInputRequired(Refused):
    """The server wants answers from a human before it does anything; the call is then made anew.

    A result of the protocol of 2026-07-28 (`InputRequiredResult`), and the error -32042 of older ones.
    """

    code: ClassVar[str] = "input_required"

    def __init__(
        self, requests: Mapping[str, Elicitation], *, state: str | None = None, answers: bool = True
    ) -> None:
        super().__init__("the server asks before it goes on")
        self.requests = requests
        """By the names that the answers go by."""
        self.state = state
        """The server's own; the next call brings it back as it is."""
        self.answers = answers
        """Whether the next call brings the answers; else only their effect counts (something was visited)."""


class ToolChanged(Refused):
    """The tool did not run: it is not any more what the gate and people looked at."""

    code: ClassVar[str] = "tool_changed"


@attrs.frozen
class Progress:
    """How far a call is, as the server tells it."""

    progress: float
    """How much is done."""
    total: float | None = None
    """How much there is to do, in the same unit; None: the server does not know."""
    message: str | None = None
    """What the server says of it."""


@attrs.frozen
class Elicitation:
    """A server's question in the middle of a call."""

    message: str
    schema: Mapping[str, Any] | None = None
    """Of the answer, for a form; None when a URL is to be visited."""
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
    """Forwarded with this one call, by servers that speak HTTP. Never stored, never logged."""
    shown: Tool | None = attrs.field(default=None, repr=False)
    """The tool as the gate saw it. A server that came back meanwhile may offer another by this name."""
    on_sent: Callable[[], None] | None = attrs.field(default=None, eq=False, repr=False)
    """Told just before the call leaves; must return at once. What is withdrawn before that never does."""
    on_progress: Callable[[Progress], None] | None = attrs.field(default=None, eq=False, repr=False)
    """Told how far the call is; must return at once."""
    on_elicitation: Callable[[Elicitation], Awaitable[ElicitationAnswer]] | None = attrs.field(
        default=None, eq=False, repr=False
    )
    """Puts a server's question to a human and waits for the answer. None: questions are declined."""
    on_anonymous_question: Callable[[], None] | None = attrs.field(default=None, eq=False, repr=False)
    """Told of a question of which the protocol does not say to which call it belongs; must return at once."""
    answers: Mapping[str, ElicitationAnswer] | None = attrs.field(default=None, repr=False)
    """To what an earlier attempt raised as `ToolInputRequired`."""
    state: str | None = attrs.field(default=None, repr=False)
    """The server's, from there."""
    since: float | None = attrs.field(default=None, eq=False)
    """When the call was ready, in trio's time, before it waited for its places. None: now."""


@attrs.frozen
class ListTools(Request["ServerMessage", tuple[Tool, ...]]):
    """The tools the server last listed."""


@attrs.frozen
class Authenticate(Request["ServerMessage", None]):
    """Connect with this bearer, and list, if the server waits for one. The reply comes when it was tried."""

    bearer: str = attrs.field(repr=False)
    """For the connection's own requests. Never stored, never logged, in no call of anybody else."""


ServerMessage: TypeAlias = Authenticate | CallTool | ListTools
