"""JSON-RPC 2.0 (https://www.jsonrpc.org/specification) as A2A uses it, without batches. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

import attrs

from .a2a_errors import A2AError
from .error_json import rpc_error

Id: TypeAlias = str | int | float | None


@attrs.frozen
class Call:
    id: Id
    """None also for a call without an id, which is answered too."""
    method: str
    params: Any
    """Not validated. None if the call has no parameters."""


def read_call(body: object) -> Call:
    """Read a call from a decoded body.

    Raises:
        A2AError: INVALID_REQUEST.
    """
    if isinstance(body, list):
        raise _invalid("batches are not supported")
    if not isinstance(body, Mapping):
        raise _invalid("the body must be a JSON object")
    if body.get("jsonrpc") != "2.0":
        raise _invalid('jsonrpc must be "2.0"')
    if not _is_id(body.get("id")):
        raise _invalid("id must be a string, a number or null")
    method = body.get("method")
    if not isinstance(method, str):
        raise _invalid("method must be a string")
    return Call(body.get("id"), method, body.get("params"))


def id_of(body: object) -> Id:
    """Return the id for the answer to a body, even if the body is not a call."""
    found = body.get("id") if isinstance(body, Mapping) else None
    return found if _is_id(found) else None


def write_result(id: Id, result: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": id, "result": result}


def write_error(id: Id, error: A2AError, *, details: bool) -> dict[str, Any]:
    """`details`: include the error details, which version 1.0 has and 0.3 does not."""
    return {"jsonrpc": "2.0", "id": id, "error": rpc_error(error, details=details)}


def _is_id(value: object) -> bool:
    return value is None or (isinstance(value, str | int | float) and not isinstance(value, bool))


def _invalid(mistake: str) -> A2AError:
    return A2AError("INVALID_REQUEST", f"Invalid request: {mistake}")
