"""JSON-RPC 2.0 (https://www.jsonrpc.org/specification), as far as A2A has it: without batches. Pure."""

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
    """None too where the client gave none: it is answered all the same."""
    method: str
    params: Any
    """Not checked; None: there are none."""


def read_call(body: object) -> Call:
    """The call in a body.

    Raises:
        A2AError: INVALID_REQUEST.
    """
    if isinstance(body, list):
        raise _invalid("batches are not supported")
    if not isinstance(body, Mapping):
        raise _invalid("it must be an object")
    if body.get("jsonrpc") != "2.0":
        raise _invalid('jsonrpc must be "2.0"')
    if not _is_id(body.get("id")):
        raise _invalid("id must be a string, a number or null")
    method = body.get("method")
    if not isinstance(method, str):
        raise _invalid("method must be a string")
    return Call(body.get("id"), method, body.get("params"))


def id_of(body: object) -> Id:
    """The id for the answer to a body, be it a call or not."""
    found = body.get("id") if isinstance(body, Mapping) else None
    return found if _is_id(found) else None


def write_result(id: Id, result: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": id, "result": result}


def write_error(id: Id, error: A2AError, *, details: bool) -> dict[str, Any]:
    """`details`: those of version 1.0, of which 0.3 knows nothing."""
    return {"jsonrpc": "2.0", "id": id, "error": rpc_error(error, details=details)}


def _is_id(value: object) -> bool:
    return value is None or (isinstance(value, str | int | float) and not isinstance(value, bool))


def _invalid(mistake: str) -> A2AError:
    return A2AError("INVALID_REQUEST", f"Invalid request: {mistake}")
