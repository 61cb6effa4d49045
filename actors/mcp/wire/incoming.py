"""Decodes the messages of a server, leniently. Pure.

| the server sent | result |
|---|---|
| a valid message, perhaps with broken text (`load_mcp`) | the message |
| a result in a reply that breaks the rules of JSON-RPC; a text or a list in place of a result | the result |
| another invalid reply with a readable id | an error for that request, with the server's text if it has one |
| anything else | None |
"""

from __future__ import annotations

from typing import Any

from pydantic_core import to_json

from ....runtime.json_text import depth, load_mcp
from .failures import ANY_ERROR, NOT_UNDERSTOOD, code_of_server
from .sdk import ErrorData, JSONRPCError, JSONRPCMessage, JSONRPCResponse, MCPError, jsonrpc_message_adapter

_MAX_BLANK = 64
"""Bytes in front of a batch."""
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


def split_batch(data: bytes) -> list[bytes]:
    """Return the messages of a batch (MCP 2025-03-26, "Batching"); for other data, the data alone."""
    if not data[:_MAX_BLANK].removeprefix(b"\xef\xbb\xbf").lstrip().startswith(b"["):
        return [data]
    try:
        batch = load_mcp(data)
        return [to_json(message, inf_nan_mode="null") for message in batch]
    except (ValueError, RecursionError):
        return [data]


def error_reply(request_id: int | str, code: int, text: str, data: object = None) -> JSONRPCError:
    """Return an error in place of a reply that will not come."""
    error = ErrorData(code=code, message=text, data=data)
    return JSONRPCError(jsonrpc="2.0", id=request_id, error=error)


def not_understood(why: str = _INVALID) -> MCPError:
    """Return the error of a request whose reply is not valid."""
    return MCPError(NOT_UNDERSTOOD, why)


def _invalid_reply(value: Any) -> JSONRPCResponse | JSONRPCError | None:
    if not isinstance(value, dict) or "method" in value or not value.keys() & {"result", "error"}:
        return None
    request_id = value.get("id")
    if isinstance(request_id, bool) or not isinstance(request_id, int | str):
        return None
    if value.get("error") is None and depth(value) <= _MAX_DEPTH:
        match value.get("result"):
            case dict() as result:
                return JSONRPCResponse(jsonrpc="2.0", id=request_id, result=result)
            case str() | list() as content:  # only a call can have such a result; see `result_from_wire`
                return JSONRPCResponse(jsonrpc="2.0", id=request_id, result={"content": content})
    match value.get("error"):
        # Not valid JSON-RPC, but it contains the server's own error message.
        case (str() as text) | {"message": str() as text} if text:
            return error_reply(request_id, ANY_ERROR, text)
    return error_reply(request_id, NOT_UNDERSTOOD, _INVALID)
