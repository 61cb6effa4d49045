"""Sorts the errors of MCP requests by what they say about the call. Pure.

| `Meaning` | did the call run? | what else follows |
|---|---|---|
| `answered` | the server answered, with a result or an error of its own | |
| `never_ran` | no; it may be made again | the connection is lost |
| `connection_lost` | unknown | the connection is lost, and every in-flight call with it |
| `reply_lost` | unknown | over HTTP, each call has its own connection; others are not affected |
| `outcome_unknown` | unknown | |
"""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, Literal, TypeAlias

from ...runtime.json_text import load_mcp
from ..tools.needs import MAX_CHALLENGE, Wanted

# Our own codes, for failures that JSON-RPC has none for; outside the range that it reserves.
REQUEST_REFUSED = -31400
"""HTTP 4xx without a JSON-RPC error of the tool server, or a request that we did not send."""
SESSION_LOST = -31404
"""The server does not know our session, so it did nothing."""
NOT_UNDERSTOOD = -31422
"""The response is not a valid reply, so the outcome of the call is unknown."""
SERVER_FAILED = -31500
"""HTTP 5xx without a JSON-RPC error of the tool server."""
UNREACHABLE = -31503
"""The request got no response; `data["sent"]` says whether it may have reached the server."""
_OURS = (REQUEST_REFUSED, SESSION_LOST, NOT_UNDERSTOOD, SERVER_FAILED, UNREACHABLE)
ANY_ERROR = -32603
"""JSON-RPC's "Internal error"."""

UNAUTHORIZED = (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN)
"""The statuses that another credential may change."""

MAX_LINE = 500
"""Characters of a reason, because a server may have written it."""

_CLOSED = -32000
# Servers use that code for errors of their own, too. These are the texts of the SDK's own errors.
_CLOSED_MESSAGE = "Connection closed"
_REPLY_CUT_MESSAGE = "SSE stream"


class Unsendable(Exception):
    """JSON cannot express the request: a text with half of a surrogate pair, or too much nesting."""


class InvalidResult(Exception):
    """The result of a call is not valid; the text says why."""


Meaning: TypeAlias = Literal["answered", "never_ran", "connection_lost", "reply_lost", "outcome_unknown"]


def meaning(code: int, message: str, data: object) -> Meaning:
    """Sort an error; see the table above."""
    if code == SESSION_LOST:
        return "never_ran"
    if code == UNREACHABLE:
        sent = not isinstance(data, Mapping) or data.get("sent") is not False
        return "reply_lost" if sent else "never_ran"
    if code in (SERVER_FAILED, NOT_UNDERSTOOD):
        return "outcome_unknown"
    if code == _CLOSED and message.startswith(_CLOSED_MESSAGE):
        return "connection_lost"
    if code == _CLOSED and message.startswith(_REPLY_CUT_MESSAGE):
        return "reply_lost"
    return "answered"


def code_of_server(code: int) -> int:
    """Return the code of an error that the server itself wrote, or `ANY_ERROR` if it is one of our own.

    Otherwise a server could claim that a call was not sent, and the call would be made again.
    """
    return ANY_ERROR if code in _OURS else code


def rpc_error(body: bytes) -> tuple[int, str, object] | None:
    """Return the JSON-RPC error in the body of an HTTP error; None if there is none."""
    try:
        message: Any = load_mcp(body)
    except ValueError:
        return None
    match message:
        case {"jsonrpc": _, "error": {"code": int() as code, "message": str() as text, **rest}}:
            return code_of_server(code), text, rest.get("data")
        case _:
            return None


def worth_retrying(code: int) -> bool:
    """Whether a server that refused a connection with this code may still be starting."""
    return code in (UNREACHABLE, SERVER_FAILED)


def http_status(code: int, data: object) -> int | None:
    """Return the HTTP status of a refusal; None for another error."""
    status = data.get("http_status") if code == REQUEST_REFUSED and isinstance(data, Mapping) else None
    return status if isinstance(status, int) else None


def wanted(server: str, status: int | None, data: object) -> Wanted | None:
    """Return the credential that the server wants; None if the status does not ask for one."""
    if status not in UNAUTHORIZED:
        return None
    challenge = data.get("www_authenticate") if isinstance(data, Mapping) else None
    return Wanted(server, status, challenge[:MAX_CHALLENGE] if isinstance(challenge, str) else None)


def status_line(status: int) -> str:
    """Return the status as text, such as "HTTP 404 Not Found"."""
    try:
        return f"HTTP {status} {HTTPStatus(status).phrase}"
    except ValueError:
        return f"HTTP {status}"


def first_line(error: BaseException) -> str:
    """Return the first line of an error's text, shortened; without one, the name of its type."""
    return next(iter(str(error)[:MAX_LINE].splitlines()), "") or type(error).__name__
