"""Error replies: ``{"error": sentence, "code": word, "hint"?: ...}``, and the status of each code."""

from __future__ import annotations

import json
import logging
import secrets
from collections.abc import Mapping
from email.utils import formatdate
from http import HTTPStatus
from typing import Any

from werkzeug.exceptions import HTTPException
from werkzeug.exceptions import MethodNotAllowed as MethodNotAllowed
from werkzeug.exceptions import NotFound as NotFound
from werkzeug.routing.exceptions import WebsocketMismatch

from ...actors.common.errors import AgentError, unavailable
from ...runtime.journal.errors import JournalBroken, JournalUnavailable
from .responses import Reply, reply

log = logging.getLogger(__name__)

STATUS: Mapping[str, int] = {
    "already_decided": 409,
    "ambiguous_id": 404,
    "approval_not_found": 404,
    "channel_not_found": 404,
    "conversation_broken": 500,
    "conversation_completed": 409,
    "conversation_not_found": 404,
    "conversation_read_only": 409,
    "decision_required": 400,
    "denied_by_policy": 422,
    "expired": 410,
    "halted": 409,
    "idempotency_key_reused": 422,
    "internal_error": 500,
    "invalid_arguments": 422,
    "invalid_cursor": 400,
    "invalid_request": 400,
    "journal_unavailable": 503,
    "limit_reached": 429,
    "may_not_approve": 403,
    "message_required": 400,
    "needs_newer_version": 503,
    "node_unavailable": 503,
    "not_delivered": 502,
    "not_waiting_for_credential": 409,
    "notification_not_found": 404,
    "policy_not_found": 404,
    "queue_full": 429,
    "role_required": 403,
    "run_in_progress": 409,
    "shutting_down": 503,
    "subject_changed": 409,
    "tool_changed": 409,
    "tool_not_found": 404,
    "unknown_field": 400,
    "void": 410,
}

RETRY_AFTER: Mapping[str, int] = {
    "journal_unavailable": 5,
    "limit_reached": 10,
    "needs_newer_version": 60,
    "node_unavailable": 5,
    "queue_full": 1,
    "shutting_down": 5,
    "stopped": 5,
    "too_many_connections": 5,
}
"""Seconds until a retry may succeed, by code."""

STOPPED = (503, "stopped", "the server had to stop at once; the outcome of the request is unknown")
"""Status, code and sentence."""


NOT_STORED = (409, "waiting_approval")
"""Status and code for a message that is refused because an approval is pending."""


class RequestError(Exception):
    """A request that is refused at the edge, before it reaches the agent."""

    def __init__(
        self,
        status: int,
        code: str,
        message: str,
        *,
        hint: str | None = None,
        details: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] = {},
    ) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message
        self.hint = hint
        self.details: Mapping[str, Any] = details or {}
        self.headers = headers
        """Headers of the reply."""


CHALLENGE: Mapping[str, str] = {"WWW-Authenticate": 'Bearer realm="stopgo"'}
"""Headers of every 401 (RFC 9110, section 11.6.1)."""


def unauthenticated() -> RequestError:
    """The one answer to every credential that is unknown, expired, revoked, forged or malformed."""
    return RequestError(
        401,
        "unauthenticated",
        "the credential is not valid",
        hint="It may have expired, or was revoked.",
        headers=CHALLENGE,
    )


def error_reply(
    status: int,
    code: str,
    message: str,
    *,
    hint: str | None = None,
    details: Mapping[str, Any] | None = None,
    headers: Mapping[str, str] = {},
) -> Reply:
    if code in RETRY_AFTER:
        headers = {"Retry-After": str(RETRY_AFTER[code]), **headers}
    body: dict[str, Any] = {"error": message, "code": code}
    if hint is not None:
        body["hint"] = hint
    for key, value in (details or {}).items():
        body.setdefault(key, value)
    return reply(body, status, headers)


def bare_error(status: int, code: str, message: str) -> bytes:
    """The bytes of an answer without the application. The connection is closed after it."""
    body = _bare_body(code, message)
    lines = [
        f"HTTP/1.1 {status} {HTTPStatus(status).phrase}",
        f"Date: {formatdate(usegmt=True)}",
        "Content-Type: application/json",
        f"Content-Length: {len(body)}",
        "Connection: close",
    ]
    if code in RETRY_AFTER:
        lines.append(f"Retry-After: {RETRY_AFTER[code]}")
    return "\r\n".join([*lines, "", ""]).encode() + body


def _bare_body(code: str, message: str) -> bytes:
    return json.dumps({"error": message, "code": code}).encode() + b"\n"


def refusal_body(status: int) -> bytes:
    """The body of `bare_refusal`."""
    return _bare_body(*_words(status))


def bare_refusal(status: int) -> bytes:
    """`bare_error` with code and sentence of the status."""
    return bare_error(status, *_words(status))


def _words(status: int) -> tuple[str, str]:
    """Code and sentence of a status."""
    phrase = HTTPStatus(status).phrase.lower()
    return phrase.replace(" ", "_").replace("-", "_"), phrase


def reply_to(error: Exception, path: str) -> Reply:
    """The reply for an error raised by the view of `path`."""
    headers: Mapping[str, str] = {}
    if isinstance(error, JournalUnavailable):
        error = unavailable()
    match error:
        case RequestError():
            status, headers = error.status, error.headers
        case AgentError():
            status = STATUS[error.code]
        case JournalBroken():  # the disk is full or broken; the process ends
            log.error("%s", error)
            return error_reply(*STOPPED)
        case HTTPException():
            return _routing_reply(error, path)
        case _:
            return _fault_reply(error)
    return error_reply(
        status, error.code, error.message, hint=error.hint, details=error.details, headers=headers
    )


def _routing_reply(error: HTTPException, path: str) -> Reply:
    """The reply for an error of the framework: no such route or method."""
    headers: dict[str, str] = {}
    match error:
        case WebsocketMismatch():
            status, code, message = 426, "upgrade_required", f"{path} is a websocket"
            headers = {"Connection": "Upgrade", "Upgrade": "websocket"}
        case MethodNotAllowed():
            status, code, message = 405, "method_not_allowed", f"{path} does not support this method"
            if error.valid_methods:
                headers["Allow"] = ", ".join(sorted(error.valid_methods))
        case HTTPException(code=404):
            status, code, message = 404, "not_found", f"there is no {path}"
        case _:
            status = error.code or 500
            code, message = _words(status)
    hint = "GET /docs lists every route." if status in (404, 405, 426) else None
    return error_reply(status, code, message, hint=hint, headers=headers)


def _fault_reply(error: Exception) -> Reply:
    """The reply for an unexpected exception. Its `id` finds the traceback in the log."""
    return error_reply(
        500,
        "internal_error",
        "something went wrong on the server",
        hint="The server's log has the details under this id.",
        details={"id": log_fault(error)},
    )


def log_fault(error: Exception, where: str = "") -> str:
    """Log an unexpected exception with a new id, and return the id."""
    id = secrets.token_hex(6)
    log.error("internal error id=%s%s", id, where, exc_info=error)
    return id
