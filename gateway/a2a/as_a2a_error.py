"""Conversion of the agent's errors to errors of A2A. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from ...actors.a2a.wire.a2a_errors import A2AError, Reason
from ...actors.common.errors import AgentError

_REASONS: Mapping[str, Reason] = {
    "already_decided": "UNSUPPORTED_OPERATION",
    "approval_not_found": "INVALID_PARAMS",
    "conversation_completed": "UNSUPPORTED_OPERATION",
    "conversation_not_found": "TASK_NOT_FOUND",
    "conversation_read_only": "UNSUPPORTED_OPERATION",
    "decision_required": "INVALID_PARAMS",
    "denied_by_policy": "INVALID_PARAMS",
    "expired": "UNSUPPORTED_OPERATION",
    "halted": "UNSUPPORTED_OPERATION",
    "idempotency_key_reused": "INVALID_PARAMS",
    "invalid_arguments": "INVALID_PARAMS",
    "invalid_request": "INVALID_PARAMS",
    "journal_unavailable": "UNAVAILABLE",
    "limit_reached": "RESOURCE_EXHAUSTED",
    "may_not_approve": "PERMISSION_DENIED",
    "message_required": "INVALID_PARAMS",
    "needs_newer_version": "UNAVAILABLE",
    "node_unavailable": "UNAVAILABLE",
    "not_waiting_for_credential": "UNSUPPORTED_OPERATION",
    "queue_full": "RESOURCE_EXHAUSTED",
    "role_required": "PERMISSION_DENIED",
    "run_in_progress": "UNSUPPORTED_OPERATION",
    "shutting_down": "UNAVAILABLE",
    "subject_changed": "INVALID_PARAMS",
    "unknown_field": "INVALID_PARAMS",
    "void": "UNSUPPORTED_OPERATION",
}


@contextmanager
def as_a2a_error() -> Iterator[None]:
    try:
        yield
    except AgentError as error:
        reason = _REASONS.get(error.code, "INTERNAL_ERROR")
        message = f"{error.message}{_decided(error)}"
        text = message if error.hint is None else f"{message}. {error.hint}"
        # The agent's own sentence names the conversation, which is no term of A2A.
        raise A2AError(reason, "Task not found" if reason == "TASK_NOT_FOUND" else text) from error


def _decided(error: AgentError) -> str:
    """The earlier decision as the end of the sentence, for `already_decided`."""
    if error.code != "already_decided":
        return ""
    match error.details["approval"].decision:
        case {"approved": bool(approved)}:
            return ": it was approved" if approved else ": it was rejected"
        case {"action": str(action)}:
            return f': the answer was "{action}"'
        case _:
            return ""
