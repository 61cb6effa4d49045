"""Errors as JSON. Pure.

Written as version 1.0.1 has them (sections 9.5 and 11.6). Other agents' errors are read in any known form:
by the name of the error, else the code of JSON-RPC, else the status of google.rpc.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from .a2a_errors import KINDS, A2AError, Reason

_ERROR_INFO = "type.googleapis.com/google.rpc.ErrorInfo"
_BAD_REQUEST = "type.googleapis.com/google.rpc.BadRequest"
_DOMAIN = "a2a-protocol.org"

MOST_QUOTED = 500
"""Characters of another agent's text that are quoted."""
_NO_LETTER = re.compile(r"[^a-z]")
_LONGEST_NAME = 100


def rpc_error(error: A2AError, *, details: bool) -> dict[str, Any]:
    """The `error` of an answer in JSON-RPC (version 1.0.1, section 9.5). `details`: include the details of
    version 1.0, which 0.3 does not have."""
    plain = {"code": error.kind.code, "message": str(error)}
    return {**plain, "data": _details(error)} if details else plain


def http_error(error: A2AError) -> dict[str, Any]:
    """The body of an error in HTTP+JSON (version 1.0.1, section 11.6; AIP-193)."""
    kind = error.kind
    return {
        "error": {
            "code": kind.http,
            "status": kind.status,
            "message": str(error),
            "details": _details(error),
        }
    }


def _details(error: A2AError) -> list[dict[str, Any]]:
    info = {"@type": _ERROR_INFO, "reason": error.reason, "domain": _DOMAIN, "metadata": {}}
    if not error.violations:
        return [info]
    violations = [{"field": field, "description": mistake} for field, mistake in error.violations]
    return [info, {"@type": _BAD_REQUEST, "fieldViolations": violations}]


# -------------------------------------------------------------------- errors of others


def quoted(text: str) -> str:
    return text if len(text) <= MOST_QUOTED else f"{text[: MOST_QUOTED - 1]}…"


def read_error(body: Mapping[str, Any], *, bare: bool) -> A2AError | None:
    """The error in an answer; None: there is no error of A2A. An unknown error is an INTERNAL_ERROR.

    `bare`: the body itself may be the error, with a name of A2A or a code of JSON-RPC. Agents of 0.3 send
    this over HTTP, and so do agents of drafts of 1.0 (RFC 9457).
    """
    error = body.get("error")
    if isinstance(error, Mapping):
        return A2AError(_reason(error) or "INTERNAL_ERROR", _message(error))
    reason = _reason(body) if bare else None
    return None if reason is None else A2AError(reason, _message(body))


def _reason(error: Mapping[str, Any]) -> Reason | None:
    """The reason by the most exact field: the name, the code of JSON-RPC, the status of google.rpc."""
    for name in _names(error):
        if found := _BY_NAME.get(_letters(name)):
            return found
    code, status = error.get("code"), error.get("status")
    found = _BY_CODE.get(code) if isinstance(code, int) else None
    return found or (_BY_STATUS.get(status) if isinstance(status, str) else None)


def _names(error: Mapping[str, Any]) -> Iterator[str]:
    details = error.get("details", error.get("data"))
    for detail in details if isinstance(details, list) else []:
        if isinstance(detail, Mapping) and isinstance(reason := detail.get("reason"), str):
            yield reason
    if isinstance(name := error.get("type"), str):
        yield name.rpartition("/")[2]


def _letters(name: str) -> str:
    """One spelling for TASK_NOT_FOUND, TaskNotFoundError and task-not-found."""
    return _NO_LETTER.sub("", name[:_LONGEST_NAME].lower()).removesuffix("error")


def _message(error: Mapping[str, Any]) -> str:
    texts = (error.get(name) for name in ("message", "detail", "title"))
    return quoted(next((text for text in texts if isinstance(text, str) and text), "no reason was given"))


_BY_NAME: Mapping[str, Reason] = {_letters(reason): reason for reason in KINDS}
# Code -32000 is any error of the server and identifies none.
_BY_CODE: Mapping[int, Reason] = {kind.code: reason for reason, kind in KINDS.items() if kind.code != -32000}
_BY_STATUS: Mapping[str, Reason] = {
    "NOT_FOUND": "TASK_NOT_FOUND",
    "INVALID_ARGUMENT": "INVALID_PARAMS",
    "PERMISSION_DENIED": "PERMISSION_DENIED",
    "RESOURCE_EXHAUSTED": "RESOURCE_EXHAUSTED",
    "UNAVAILABLE": "UNAVAILABLE",
}
