"""The events of AG-UI 1.0 that the agent sends, and their JSON. Pure.

Names and meanings are those of the protocol (https://docs.ag-ui.com); `message_id` becomes `messageId` in
JSON. A field that is None is omitted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, ClassVar, Literal, TypeAlias

import attrs

from ...runtime.journal.protocol import Json

PROTOCOL_VERSION = "1.0"


@attrs.frozen(kw_only=True)
class _Event:
    type: ClassVar[str]
    timestamp: int | None = None
    """Milliseconds since 1970, UTC; None for an event that is not in the journal."""
    metadata: Json | None = None


@attrs.frozen(kw_only=True)
class _Attributed(_Event):
    subagent_run_id: str | None = None
    """The subagent that the event belongs to; None: the agent itself."""


@attrs.frozen(kw_only=True)
class RunStarted(_Event):
    type: ClassVar = "RUN_STARTED"
    thread_id: str
    run_id: str
    parent_run_id: str | None = None
    protocol_version: str = PROTOCOL_VERSION


@attrs.frozen(kw_only=True)
class Interrupt:
    id: str
    reason: str
    message: str
    tool_call_id: str | None = None
    response_schema: Json | None = None
    expires_at: str | None = None
    metadata: Json
    subagent_run_id: str | None = None


@attrs.frozen(kw_only=True)
class Success:
    type: Literal["success"] = "success"


@attrs.frozen(kw_only=True)
class Interrupted:
    interrupts: Sequence[Interrupt]
    """At least one."""
    type: Literal["interrupt"] = "interrupt"


@attrs.frozen(kw_only=True)
class Cancelled:
    type: Literal["cancelled"] = "cancelled"


@attrs.frozen(kw_only=True)
class TokenUsage:
    """The usage of all calls of one model."""

    provider: str | None = None
    model: str | None = None
    input_tokens: int = 0
    output_tokens: int = 0
    total_tokens: int = 0
    cached_input_tokens: int | None = None
    cache_write_input_tokens: int | None = None


@attrs.frozen(kw_only=True)
class RunFinished(_Event):
    type: ClassVar = "RUN_FINISHED"
    thread_id: str
    run_id: str
    outcome: Success | Interrupted | Cancelled
    result: str | None = None
    """The answer of the run."""
    usage: Sequence[TokenUsage] | None = None


@attrs.frozen(kw_only=True)
class RunError(_Event):
    type: ClassVar = "RUN_ERROR"
    message: str
    code: str
    usage: Sequence[TokenUsage] | None = None


@attrs.frozen(kw_only=True)
class MessagesSnapshot(_Event):
    type: ClassVar = "MESSAGES_SNAPSHOT"
    messages: Sequence[Json]


@attrs.frozen(kw_only=True)
class StateSnapshot(_Event):
    type: ClassVar = "STATE_SNAPSHOT"
    snapshot: Mapping[str, str]


@attrs.frozen(kw_only=True)
class Operation:
    """An operation of a JSON Patch (RFC 6902) that sets a member of the state, new or not."""

    path: str
    value: str
    op: Literal["add"] = "add"

    @classmethod
    def setting(cls, key: str, value: str) -> Operation:
        return cls(path="/" + key.replace("~", "~0").replace("/", "~1"), value=value)


@attrs.frozen(kw_only=True)
class StateDelta(_Attributed):
    type: ClassVar = "STATE_DELTA"
    delta: Sequence[Operation]


@attrs.frozen(kw_only=True)
class StepStarted(_Attributed):
    type: ClassVar = "STEP_STARTED"
    step_name: str


@attrs.frozen(kw_only=True)
class StepFinished(_Attributed):
    type: ClassVar = "STEP_FINISHED"
    step_name: str


@attrs.frozen(kw_only=True)
class TextMessageStart(_Attributed):
    type: ClassVar = "TEXT_MESSAGE_START"
    message_id: str
    role: Literal["assistant"] = "assistant"
    name: str | None = None


@attrs.frozen(kw_only=True)
class TextMessageContent(_Attributed):
    type: ClassVar = "TEXT_MESSAGE_CONTENT"
    message_id: str
    delta: str


@attrs.frozen(kw_only=True)
class TextMessageEnd(_Attributed):
    type: ClassVar = "TEXT_MESSAGE_END"
    message_id: str


@attrs.frozen(kw_only=True)
class ToolCallStart(_Attributed):
    type: ClassVar = "TOOL_CALL_START"
    tool_call_id: str
    tool_call_name: str
    parent_message_id: str


@attrs.frozen(kw_only=True)
class ToolCallArgs(_Attributed):
    type: ClassVar = "TOOL_CALL_ARGS"
    tool_call_id: str
    delta: str


@attrs.frozen(kw_only=True)
class ToolCallEnd(_Attributed):
    type: ClassVar = "TOOL_CALL_END"
    tool_call_id: str


@attrs.frozen(kw_only=True)
class ToolCallResult(_Attributed):
    type: ClassVar = "TOOL_CALL_RESULT"
    message_id: str
    tool_call_id: str
    content: str
    role: Literal["tool"] = "tool"


@attrs.frozen(kw_only=True)
class SubagentStarted(_Event):
    type: ClassVar = "SUBAGENT_STARTED"
    subagent_run_id: str
    name: str
    parent_subagent_run_id: str | None = None
    parent_tool_call_id: str | None = None


@attrs.frozen(kw_only=True)
class Suspended:
    interrupt_ids: Sequence[str]
    type: Literal["suspended"] = "suspended"


@attrs.frozen(kw_only=True)
class SubagentFinished(_Event):
    type: ClassVar = "SUBAGENT_FINISHED"
    subagent_run_id: str
    outcome: Success | Suspended = Success()
    result: str | None = None


@attrs.frozen(kw_only=True)
class SubagentError(_Event):
    type: ClassVar = "SUBAGENT_ERROR"
    subagent_run_id: str
    message: str
    code: str | None = None


AGUIEvent: TypeAlias = (
    RunStarted
    | RunFinished
    | RunError
    | MessagesSnapshot
    | StateSnapshot
    | StateDelta
    | StepStarted
    | StepFinished
    | TextMessageStart
    | TextMessageContent
    | TextMessageEnd
    | ToolCallStart
    | ToolCallArgs
    | ToolCallEnd
    | ToolCallResult
    | SubagentStarted
    | SubagentFinished
    | SubagentError
)


def messages_of(event: AGUIEvent) -> Sequence[str]:
    """The ids of the messages that a client creates from an event."""
    match event:
        case (
            TextMessageStart(message_id=id)
            | ToolCallResult(message_id=id)
            | ToolCallStart(parent_message_id=id)
        ):
            return (id,)
        case _:
            return ()


def event_json(event: AGUIEvent) -> dict[str, Any]:
    return {"type": event.type, **_object(event)}


def _object(value: attrs.AttrsInstance) -> dict[str, Any]:
    given = ((_camel(field.name), getattr(value, field.name)) for field in attrs.fields(type(value)))
    return {name: _json(each) for name, each in given if each is not None}


def _json(value: Any) -> Any:
    """Convert nested events and lists; other JSON, such as a schema, is unchanged."""
    if attrs.has(type(value)):
        return _object(value)
    return [_json(each) for each in value] if isinstance(value, list | tuple) else value


@cache
def _camel(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(map(str.title, others))
