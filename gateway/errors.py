"""Every failure as JSON: ``{"error": sentence, "code": word, "hint"?: ...}``."""

from __future__ import annotations

import json
import logging
import secrets
from collections.abc import Mapping
from email.utils import formatdate
from http import HTTPStatus
from typing import Any, cast

from hypercorn.typing import ASGISendCallable, ASGISendEvent, WWWScope
from quart import Response
from werkzeug.exceptions import HTTPException, MethodNotAllowed

from ..actors.common.errors import AgentError
from ..runtime.journal.errors import JournalBroken
from . import chunked_json
from .responses import SAFE_HEADERS, current, reply

log = logging.getLogger(__name__)

STATUS: Mapping[str, int] = {
    "already_decided": 409,
    "approval_not_found": 404,
    "conversation_broken": 500,
    "conversation_completed": 409,
    "conversation_not_found": 404,
    "conversation_read_only": 409,
    "decision_required": 400,
    "denied_by_policy": 422,
    "expired": 410,
    "idempotency_key_reused": 422,
    "internal_error": 500,
    "invalid_arguments": 422,
    "invalid_cursor": 400,
    "invalid_request": 400,
    "message_required": 400,
    "not_waiting_for_credential": 409,
    "queue_full": 429,
    "run_in_progress": 409,
    "shutting_down": 503,
    "tool_changed": 409,
    "tool_not_found": 404,
    "void": 410,
}

RETRY_AFTER: Mapping[str, int] = {
    "queue_full": 1,
    "shutting_down": 5,
    "stopped": 5,
    "too_many_connections": 5,
}
"""Seconds after which asking again may help."""

STOPPED = (503, "stopped", "the server had to stop at once; what became of the request is not known")
"""Status, code and sentence."""


class RequestError(Exception):
    """A request that is refused at the edge, before the agent hears of it."""

    def __init__(
        self,
        status: int,
        code: str,
        message: str,
        *,
        hint: str | None = None,
        details: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message
        self.hint = hint
        self.details: Mapping[str, Any] = details or {}


def error_reply(
    status: int,
    code: str,
    message: str,
    *,
    hint: str | None = None,
    details: Mapping[str, Any] | None = None,
    headers: Mapping[str, str] | None = None,
) -> Response:
    if code in RETRY_AFTER:
        headers = {"Retry-After": str(RETRY_AFTER[code]), **(headers or {})}
    return reply(_body(code, message, hint, details), status, headers)


def _body(code: str, message: str, hint: str | None, details: Mapping[str, Any] | None) -> dict[str, Any]:
    body: dict[str, Any] = {"error": message, "code": code}
    if hint is not None:
        body["hint"] = hint
    for key, value in (details or {}).items():
        body.setdefault(key, value)
    return body


async def send_refusal(scope: WWWScope, send: ASGISendCallable, error: RequestError) -> None:
    """The answer to a request, or the handshake of a websocket, that gets no further than this."""
    data = chunked_json.encode(_body(error.code, error.message, error.hint, error.details)) + b"\n"
    headers = {**SAFE_HEADERS, "Content-Type": "application/json", "Content-Length": str(len(data))}
    kind = "http.response" if scope["type"] == "http" else "websocket.http.response"
    raw = [(name.encode(), value.encode()) for name, value in headers.items()]
    start = {"type": f"{kind}.start", "status": error.status, "headers": raw}
    await send(cast("ASGISendEvent", start))
    await send(cast("ASGISendEvent", {"type": f"{kind}.body", "body": data, "more_body": False}))


def bare_error(status: int, code: str, message: str) -> bytes:
    """The whole answer where the application gives none. Its connection ends with it."""
    body = json.dumps({"error": message, "code": code}).encode() + b"\n"
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


def bare_refusal(status: int) -> bytes:
    """The same, where the status says it all."""
    return bare_error(status, *_words(status))


def _words(status: int) -> tuple[str, str]:
    """Code and sentence of a status."""
    phrase = HTTPStatus(status).phrase.lower()
    return phrase.replace(" ", "_").replace("-", "_"), phrase


async def on_request_error(error: RequestError) -> Response:
    return error_reply(error.status, error.code, error.message, hint=error.hint, details=error.details)


async def on_agent_error(error: AgentError) -> Response:
    return error_reply(STATUS[error.code], error.code, error.message, hint=error.hint, details=error.details)


async def on_broken_journal(error: JournalBroken) -> Response:
    """The disk is full or broken; the process ends."""
    log.error("%s", error)
    return error_reply(*STOPPED)


async def on_http_exception(error: HTTPException) -> Response:
    """What the framework refuses: no such route or method."""
    status = error.code or 500
    request = current()
    headers: dict[str, str] = {}
    match status:
        case 404:
            code, message = "not_found", f"there is no {request.path}"
        case 405:
            code, message = "method_not_allowed", f"{request.path} does not know this method"
            if isinstance(error, MethodNotAllowed) and error.valid_methods:
                headers["Allow"] = ", ".join(sorted(error.valid_methods))
        case _:
            code, message = _words(status)
    hint = "GET /docs lists every route." if status in (404, 405) else None
    return error_reply(status, code, message, hint=hint, headers=headers)


async def on_exception(error: Exception) -> Response:
    """A fault of ours: the client gets an id, the log gets the id and the rest."""
    id = secrets.token_hex(6)
    log.error("internal error id=%s", id, exc_info=error)
    return error_reply(
        500,
        "internal_error",
        "something went wrong on the server",
        hint="The server's log tells more under this id.",
        details={"id": id},
    )
