"""Messages of a server out of the bytes it sent, as far as they can be made out. Pure."""

from __future__ import annotations

from typing import Any

from ...runtime.json_text import depth, load_mcp
from .failures import ANY_ERROR, NOT_UNDERSTOOD, code_of_server
from .sdk import ErrorData, JSONRPCError, JSONRPCMessage, JSONRPCResponse, MCPError, jsonrpc_message_adapter

_MAX_DEPTH = 200
"""Levels of objects and arrays that the SDK reads."""
_NOT_VALID = "the server's reply is not a valid JSON-RPC message"


def parse_message(data: bytes) -> JSONRPCMessage | None:
    """One message; None when it is none.

    A reply that is not valid becomes the error of the request it belongs to: nothing better will come,
    and whoever waits for it must not wait in vain.
    """
    try:
        value = load_mcp(data)
    except ValueError:
        return None
    if depth(value) > _MAX_DEPTH:
        return _invalid_reply(value)
    try:
        if isinstance(value, dict) and value.keys().isdisjoint(("method", "error")):
            return JSONRPCResponse.model_validate(value, by_name=False)
        message = jsonrpc_message_adapter.validate_python(value, by_name=False)
    except ValueError:
        return _invalid_reply(value)
    if isinstance(message, JSONRPCError):
        message.error.code = code_of_server(message.error.code)
    return message


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
