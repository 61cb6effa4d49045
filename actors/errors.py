"""What the embedded API raises: one class, stable codes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, TypeAlias

ErrorCode: TypeAlias = Literal[
    "already_decided",
    "approval_not_found",
    "conversation_broken",
    "conversation_completed",
    "conversation_not_found",
    "conversation_read_only",
    "decision_required",
    "denied_by_policy",
    "expired",
    "idempotency_key_reused",
    "invalid_arguments",
    "invalid_cursor",
    "invalid_request",
    "invalid_session_id",
    "message_required",
    "not_waiting_for_credential",
    "queue_full",
    "run_in_progress",
    "shutting_down",
    "void",
]


class AgentError(Exception):
    """A request the agent does not carry out.

    `code` is stable, the text is a sentence for a person, `hint` says what to do about it,
    `details` are further JSON fields a client can use.
    """

    def __init__(
        self,
        code: ErrorCode,
        message: str,
        *,
        hint: str | None = None,
        details: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.hint = hint
        self.details: Mapping[str, Any] = details or {}


class StartError(Exception):
    """The agent could not be started; the text names every reason, in the order of the config."""
