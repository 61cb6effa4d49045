"""Decodes the messages of a server, leniently. Pure.

| the server sent | result |
|---|---|
| a valid message, perhaps with broken text (`load_mcp`) | the message |
| an invalid reply whose id is readable | an error for that request, with the server's text if there is one |
| anything else | None |
"""

from __future__ import annotations

from typing import Any

from ...runtime.json_text import depth, load_mcp
from .failures import ANY_ERROR, NOT_UNDERSTOOD, code_of_server
from .sdk import ErrorData, JSONRPCError, JSONRPCMessage, JSONRPCResponse, MCPError, jsonrpc_message_adapter

_MAX_DEPTH = 200
"""Levels of objects and arrays that the SDK reads."""
_INVALID = "the server's reply is not a valid JSON-RPC message"


def parse_message(data: bytes) -> JSONRPCMessage | None:
    """Return the message; None if it is not one.

    An invalid reply becomes the error of its request, because no other reply will come, and the caller would
    wait in vain.
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
    """Return an error in place of a reply that will not come."""
    error = ErrorData(code=code, message=text, data=data)
    return JSONRPCError(jsonrpc="2.0", id=request_id, error=error)


def not_understood(why: str = _INVALID) -> MCPError:
    """Return the error of a request whose reply is not valid."""
    return MCPError(NOT_UNDERSTOOD, why)


def _invalid_reply(value: Any) -> JSONRPCError | None:
    if not isinstance(value, dict) or "method" in value or not value.keys() & {"result", "error"}:
        return None
    request_id = value.get("id")
    if isinstance(request_id, bool) or not isinstance(request_id, int | str):
        return None
    match value.get("error"):
        # Not valid JSON-RPC, but it contains the server's own error message.
        case (str() as text) | {"message": str() as text} if text:
            return error_reply(request_id, ANY_ERROR, text)
    return error_reply(request_id, NOT_UNDERSTOOD, _INVALID)
