"""Conversion of approvals to interrupts, and of answers to decisions. Pure.

| question | reason of the interrupt | payload of the answer | the answer `cancelled` |
|---|---|---|---|
| tool call, also of a remote agent | `tool_call` | `{"approved", "editedArgs"?, "reason"?}` | rejects |
| own tool call | `tool_call` | the same, or `{"action": "respond", "result", "reason"?}` | rejects |
| checkpoint, or remote question | `confirmation` | the same without edits, or a boolean | rejects |
| elicitation | `input_required` | the content of the form | decides `cancel` |
| unknown outcome | `stopgo:outcome_unknown` | `{"action", "result"?, "reason"?}` | decides nothing |
| missing bearer token | `stopgo:auth_required` | none; the token of the request | cancels the run |
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...actors.approvals.asked import Asked
from ...actors.approvals.elicitation_approval import ElicitationQuestion
from ...actors.approvals.kinds import Approval
from ...actors.approvals.outcome_approval import OutcomeQuestion
from ...actors.approvals.tool_approval import ToolQuestion
from ...actors.common.errors import AgentError
from ...actors.tools.needs import Wanted
from ...runtime.journal.protocol import Json
from ..rest.views import approval_view, timestamp
from .agui_events import Interrupt
from .run_input import ResumeEntry

OUTCOME_UNKNOWN = "stopgo:outcome_unknown"
AUTH_REQUIRED = "stopgo:auth_required"
AUTH = "auth:"
"""Prefix of the ids of interrupts for a token; the seq of the `run.auth_required` event follows."""

_BOOLEAN: Json = {"type": "boolean"}
_STRING: Json = {"type": "string"}


def interrupt_of(
    approval: Approval, *, call: str | None, subagent: str | None, refused: AgentError | None = None
) -> Interrupt:
    """The interrupt of an approval. `call` is the id of its tool call, if any; `refused` is the error of the
    last answer, if it was refused."""
    asked, message = approval.asked, approval.asked.description
    metadata: dict[str, Any] = {"approval": approval_view(approval).to_json()}
    if refused is not None:
        message = f"{refused.message}\n\n{message}"
        metadata["error"] = {"code": refused.code, "message": refused.message, **refused.details}
        if refused.hint is not None:
            metadata["error"]["hint"] = refused.hint
    reason, schema = _expects(asked.original)
    return Interrupt(
        id=approval.id,
        reason=reason,
        message=message,
        tool_call_id=call if asked.is_of_call else None,
        response_schema=schema,
        expires_at=None if approval.expires is None else timestamp(approval.expires),
        metadata=metadata,
        subagent_run_id=subagent,
    )


def auth_interrupt(seq: int, wanted: Wanted) -> Interrupt:
    return Interrupt(
        id=f"{AUTH}{seq}",
        reason=AUTH_REQUIRED,
        message=f"{wanted.label} needs a bearer token. Send the next request with one.",
        metadata={"auth": wanted.to_json()},
    )


def decision_in(entry: ResumeEntry, asked: Asked[Any]) -> Mapping[str, Any] | None:
    """The decision for `Agent.decide`; None: the entry decides nothing.

    Invalid payloads are passed on; the agent refuses them."""
    payload, fields = entry.payload, entry.payload if isinstance(entry.payload, Mapping) else {}
    cancelled = entry.status == "cancelled"
    match asked.original:
        case ElicitationQuestion() if cancelled:
            return {"action": "cancel"}
        case ElicitationQuestion():
            return {"action": "accept", "content": payload}
        case OutcomeQuestion() if cancelled:
            return None
        case OutcomeQuestion():
            return _given(fields, action="action", result="result", reason="reason", hash="hash")
        case _ if cancelled:
            return {"approved": False}
        case _ if isinstance(payload, bool):
            return {"approved": payload}
        case other:
            names = {"approved": "approved", "editedArgs": "arguments", "reason": "reason", "hash": "hash"}
            if isinstance(other, ToolQuestion):
                names |= {"action": "action", "result": "result"}
            return _given(fields, **names)


def _given(fields: Mapping[str, Any], **names: str) -> dict[str, Any]:
    return {word: fields[name] for name, word in names.items() if fields.get(name) is not None}


def _expects(asked: Asked[Any]) -> tuple[str, Json | None]:
    """The reason of an interrupt, and the schema of its answer."""
    match asked:
        case ToolQuestion(input_schema=schema):
            edited = schema or {"type": "object"}
            return "tool_call", _object_of(["approved"], approved=_BOOLEAN, editedArgs=edited, reason=_STRING)
        case ElicitationQuestion(input_schema=schema):
            return "input_required", schema
        case OutcomeQuestion():
            actions = {"enum": ["retry", "done", "failed"]}
            return OUTCOME_UNKNOWN, _object_of(["action"], action=actions, result=_STRING, reason=_STRING)
        case _:
            return "confirmation", _object_of(["approved"], approved=_BOOLEAN, reason=_STRING)


def _object_of(required: list[str], **properties: Json) -> Json:
    return {"type": "object", "properties": properties, "required": required}
