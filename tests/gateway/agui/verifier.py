"""The rules of AG-UI for a stream, as the stock client holds them (`verifyEvents` of @ag-ui/client 1.0)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import attrs
from ag_ui.core import Event
from pydantic import TypeAdapter

Json = Mapping[str, Any]

_EVENT: TypeAdapter[Any] = TypeAdapter(Event)


def check_stream(events: Sequence[Json]) -> None:
    """Raises AssertionError for a stream that a strict client refuses."""
    for event in events:
        check_event(event)
    verifier = _Verifier()
    for event in events:
        verifier.take(event)
    assert verifier.over, f"the stream ends with {events[-1]['type']}"


def check_event(event: Json) -> None:
    """One event: by the types of the Python SDK, which keep what they do not know, and without nulls."""
    parsed = _EVENT.validate_python(event)
    _check_known(parsed, event["type"])
    assert parsed.model_dump(mode="json", by_alias=True) == event


def _check_known(value: Any, place: str) -> None:
    """No field that the protocol does not have."""
    assert not value.model_extra, f"{place}: {value.model_extra}"
    for name in type(value).model_fields:
        inner = getattr(value, name)
        for each in inner if isinstance(inner, list) else [inner]:
            if hasattr(each, "model_extra"):
                _check_known(each, f"{place}.{name}")


@attrs.define
class _Verifier:
    begun: bool = False
    over: bool = False
    messages: set[str] = attrs.field(factory=set)
    calls: set[str] = attrs.field(factory=set)
    steps: set[tuple[str | None, str]] = attrs.field(factory=set)
    subagents: set[str] = attrs.field(factory=set)
    started: set[str] = attrs.field(factory=set)
    owners: dict[str, str | None] = attrs.field(factory=dict)

    def take(self, event: Json) -> None:
        kind, owner = event["type"], event.get("subagentRunId")
        assert not self.over, f"{kind} after the end"
        assert self.begun != (kind == "RUN_STARTED"), f"{kind}, and the run has begun: {self.begun}"
        self.begun = True
        match kind:
            case "TEXT_MESSAGE_START":
                self._open(self.messages, "message", event["messageId"], owner)
            case "TEXT_MESSAGE_CONTENT" | "TEXT_MESSAGE_END":
                self._continue(self.messages, "message", event["messageId"], owner)
                if kind == "TEXT_MESSAGE_END":
                    self.messages.remove(event["messageId"])
            case "TOOL_CALL_START":
                message = f"message {event['parentMessageId']}"
                assert self.owners.get(message, owner) == owner, f"the owner of {event} is not {message}'s"
                self._open(self.calls, "call", event["toolCallId"], owner)
            case "TOOL_CALL_ARGS" | "TOOL_CALL_END":
                self._continue(self.calls, "call", event["toolCallId"], owner)
                if kind == "TOOL_CALL_END":
                    self.calls.remove(event["toolCallId"])
            case "STEP_STARTED":
                assert (owner, event["stepName"]) not in self.steps, f"{event} is active already"
                self.steps.add((owner, event["stepName"]))
            case "STEP_FINISHED":
                assert (owner, event["stepName"]) in self.steps, f"{event} is not active"
                self.steps.remove((owner, event["stepName"]))
            case "SUBAGENT_STARTED":
                parent, id = event.get("parentSubagentRunId"), event["subagentRunId"]
                assert id not in self.started, f"{id} was started before"
                assert parent is None or parent in self.started, f"{parent} was not started"
                self.started.add(id)
                self.subagents.add(id)
            case "SUBAGENT_FINISHED" | "SUBAGENT_ERROR":
                assert event["subagentRunId"] in self.subagents, f"{event} is not active"
                self.subagents.remove(event["subagentRunId"])
            case "RUN_FINISHED":
                left = [self.messages, self.calls, self.steps, self.subagents]
                assert not any(left), f"the run ends with {left}"
                self.over = True
            case "RUN_ERROR":
                self.over = True

    def _open(self, active: set[str], kind: str, id: str, owner: str | None) -> None:
        assert id not in active, f"{kind} {id} is active already"
        assert self.owners.setdefault(f"{kind} {id}", owner) == owner
        active.add(id)

    def _continue(self, active: set[str], kind: str, id: str, owner: str | None) -> None:
        assert id in active, f"{kind} {id} is not active"
        assert owner in (None, self.owners[f"{kind} {id}"])
