"""Messages of a server out of the bytes it sent, as far as they can be made out. Pure."""

from __future__ import annotations

import json
import math
from typing import Any

from pydantic_core import from_json

from .failures import ANY_ERROR, NOT_UNDERSTOOD, code_of_server
from .sdk import ErrorData, JSONRPCError, JSONRPCMessage, JSONRPCResponse, MCPError, jsonrpc_message_adapter

_NOT_VALID = "the server's reply is not a valid JSON-RPC message"


def parse_message(data: bytes) -> JSONRPCMessage | None:
    """One message; None when it is none.

    A reply that is not valid becomes the error of the request it belongs to: nothing better will come,
    and whoever waits for it must not wait in vain.
    """
    try:
        value = from_json(data)
    except ValueError:
        # Perhaps only its text is not UTF-8, or was cut in the middle of a surrogate pair, as JavaScript
        # does: an answer with a wrong letter beats an answer lost. And .NET begins with a byte order mark.
        try:
            found = json.loads(data.decode("utf-8-sig", errors="replace"), parse_int=_number)
        except (ValueError, RecursionError):
            return None
        try:
            text = json.dumps(found, ensure_ascii=False)
            value = from_json(text.encode("utf-16", "surrogatepass").decode("utf-16", "replace"))
        except (ValueError, RecursionError):
            return _invalid_reply(found)  # it is nested deeper than anybody reads
    try:
        if isinstance(value, dict) and value.keys().isdisjoint(("method", "error")):
            return JSONRPCResponse.model_validate(value, by_name=False)
        message = jsonrpc_message_adapter.validate_python(value, by_name=False)
    except ValueError:
        return _invalid_reply(value)
    if isinstance(message, JSONRPCError):
        message.error.code = code_of_server(message.error.code)
    return message


def _number(digits: str) -> float:
    """Infinite when it has more digits than Python takes; what is infinite is null to a call."""
    try:
        return int(digits)
    except ValueError:
        return math.inf


def error_reply(request_id: int | str, code: int, text: str, data: object = None) -> JSONRPCError:
    """The error that stands in for a reply which will not come."""
    error = ErrorData(code=code, message=text, data=data)
    return JSONRPCError(jsonrpc="2.0", id=request_id, error=error)


def not_understood(why: str = _NOT_VALID) -> MCPError:
    """The error of a request whose reply cannot be read."""

    return MCPError(NOT_UNDERSTOOD, why)


def _invalid_reply(value: Any) -> JSONRPCError | None:
    if not isinstance(value, dict) or "method" in value or not value.keys() & {"result", "error"}:
        return None
    request_id = value.get("id")
    if isinstance(request_id, bool) or not isinstance(request_id, int | str):
        return None
    match value.get("error"):
        # Not as JSON-RPC has it; but what the server says is wrong, it says.
        case (str() as said) | {"message": str() as said} if said:
            return error_reply(request_id, ANY_ERROR, said)
    return error_reply(request_id, NOT_UNDERSTOOD, _NOT_VALID)
