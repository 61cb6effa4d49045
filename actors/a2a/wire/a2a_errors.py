"""The errors of A2A (version 1.0.1, sections 3.3.2, 5.4 and 9.5). Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, TypeAlias

import attrs

Reason: TypeAlias = Literal[
    "PARSE_ERROR",
    "INVALID_REQUEST",
    "METHOD_NOT_FOUND",
    "INVALID_PARAMS",
    "INTERNAL_ERROR",
    "TASK_NOT_FOUND",
    "TASK_NOT_CANCELABLE",
    "PUSH_NOTIFICATION_NOT_SUPPORTED",
    "UNSUPPORTED_OPERATION",
    "CONTENT_TYPE_NOT_SUPPORTED",
    "INVALID_AGENT_RESPONSE",
    "EXTENDED_AGENT_CARD_NOT_CONFIGURED",
    "EXTENSION_SUPPORT_REQUIRED",
    "VERSION_NOT_SUPPORTED",
    "PERMISSION_DENIED",
    "RESOURCE_EXHAUSTED",
    "UNAVAILABLE",
]


@attrs.frozen
class ErrorKind:
    code: int
    """Code of the error in JSON-RPC."""
    http: int
    status: str
    """The canonical name of the error in HTTP+JSON (google.rpc.Code)."""


KINDS: Mapping[Reason, ErrorKind] = {
    "PARSE_ERROR": ErrorKind(-32700, 400, "INVALID_ARGUMENT"),
    "INVALID_REQUEST": ErrorKind(-32600, 400, "INVALID_ARGUMENT"),
    "METHOD_NOT_FOUND": ErrorKind(-32601, 404, "NOT_FOUND"),
    "INVALID_PARAMS": ErrorKind(-32602, 400, "INVALID_ARGUMENT"),
    "INTERNAL_ERROR": ErrorKind(-32603, 500, "INTERNAL"),
    "TASK_NOT_FOUND": ErrorKind(-32001, 404, "NOT_FOUND"),
    "TASK_NOT_CANCELABLE": ErrorKind(-32002, 400, "FAILED_PRECONDITION"),
    "PUSH_NOTIFICATION_NOT_SUPPORTED": ErrorKind(-32003, 400, "FAILED_PRECONDITION"),
    "UNSUPPORTED_OPERATION": ErrorKind(-32004, 400, "FAILED_PRECONDITION"),
    "CONTENT_TYPE_NOT_SUPPORTED": ErrorKind(-32005, 400, "INVALID_ARGUMENT"),
    "INVALID_AGENT_RESPONSE": ErrorKind(-32006, 500, "INTERNAL"),
    "EXTENDED_AGENT_CARD_NOT_CONFIGURED": ErrorKind(-32007, 400, "FAILED_PRECONDITION"),
    "EXTENSION_SUPPORT_REQUIRED": ErrorKind(-32008, 400, "FAILED_PRECONDITION"),
    "VERSION_NOT_SUPPORTED": ErrorKind(-32009, 400, "FAILED_PRECONDITION"),
    # These are not errors of A2A: they use the server error of JSON-RPC and codes of google.rpc.
    "PERMISSION_DENIED": ErrorKind(-32000, 403, "PERMISSION_DENIED"),
    "RESOURCE_EXHAUSTED": ErrorKind(-32000, 429, "RESOURCE_EXHAUSTED"),
    "UNAVAILABLE": ErrorKind(-32000, 503, "UNAVAILABLE"),
}


class A2AError(Exception):
    """A request is refused, by this agent or by another. `violations`: pairs of a field and its mistake."""

    def __init__(self, reason: Reason, message: str, *, violations: Sequence[tuple[str, str]] = ()) -> None:
        super().__init__(message)
        self.reason: Reason = reason
        self.violations = violations

    @property
    def kind(self) -> ErrorKind:
        return KINDS[self.reason]


class InvalidAnswer(Exception):
    """The body of another agent is not a valid answer. The message says why, and quotes little of the
    body."""


def invalid(field: str, mistake: str) -> A2AError:
    """The refusal of parameters because of one field."""
    return A2AError("INVALID_PARAMS", f"{field}: {mistake}", violations=((field, mistake),))
