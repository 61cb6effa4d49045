"""Errors as JSON. Pure."""

from __future__ import annotations

from typing import Any

from .a2a_errors import A2AError

_ERROR_INFO = "type.googleapis.com/google.rpc.ErrorInfo"
_BAD_REQUEST = "type.googleapis.com/google.rpc.BadRequest"
_DOMAIN = "a2a-protocol.org"


def rpc_error(error: A2AError, *, details: bool) -> dict[str, Any]:
    """The `error` of an answer in JSON-RPC (version 1.0.1, section 9.5). `details`: those of version 1.0, of
    which 0.3 knows nothing."""
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
