"""Sorts the errors of MCP requests by what they say about the call. Pure.

| `Meaning` | did the call run? | what else follows |
|---|---|---|
| `answered` | the server answered, with a result or an error of its own | |
| `never_ran` | no; it may be made again | the connection is lost |
| `connection_lost` | unknown | the connection is lost, and every in-flight call with it |
| `reply_lost` | unknown | over HTTP, each call has its own connection; others are not affected |
| `outcome_unknown` | unknown | |

A server that has forgotten a session should answer 404 (MCP 2025-11-25, "Session Management"). What servers
do within a session, and what that says about the call:

| HTTP status | the body | the session | did the call run? |
|---|---|---|---|
| 404, 410 | any | is lost | no: servers look the session up first |
| 401, without a challenge | the words of the Rust SDK about a session | is lost | no |
| another 4xx, except 403 and 429 | is about a session or its initialization | is lost | no |
| the same | the same, as the error of this very request (it has an id) | is lost | unknown |
| 502, 503 | any; a gateway may have lost the server | is lost | unknown |
| another error | any | may be lost: listing the tools shows it (`casts_doubt`) | as ever |
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, Literal, TypeAlias

from ....runtime.json_text import load_mcp
from ...tools.needs import MAX_CHALLENGE, Wanted

# Our own codes, for failures that JSON-RPC has none for; outside the range that it reserves.
REQUEST_REFUSED = -31400
"""HTTP 4xx without a JSON-RPC error of the tool server, or a request that we did not send."""
SESSION_LOST = -31404
"""The server does not know our session, so it did nothing."""
SESSION_FAILED = -31405
"""The session is lost, and the server may have begun to handle the request."""
NOT_UNDERSTOOD = -31422
"""The response is not a valid reply, so the outcome of the call is unknown."""
SERVER_FAILED = -31500
"""HTTP 5xx without a JSON-RPC error of the tool server."""
UNREACHABLE = -31503
"""The request got no response; `data["sent"]` says whether it may have reached the server."""
_OURS = (REQUEST_REFUSED, SESSION_LOST, SESSION_FAILED, NOT_UNDERSTOOD, SERVER_FAILED, UNREACHABLE)
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
    if code == SESSION_FAILED:
        return "connection_lost"
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


_ABOUT_SESSION = re.compile(rb"session|initiali[sz]", re.IGNORECASE)
_RUST_SDK = re.compile(rb"session (not found|id is required)", re.IGNORECASE)
_MAX_SEARCHED = 4096
"""Bytes of a body that are searched for these words."""


def session_loss(status: int, body: bytes, *, challenged: bool) -> int | None:
    """Return the code of a lost session, if a response within a session says so; see the table above.

    Args:
        challenged: the response has a `WWW-Authenticate` header.
    """
    if status in (HTTPStatus.NOT_FOUND, HTTPStatus.GONE):
        return SESSION_LOST
    if status in (HTTPStatus.BAD_GATEWAY, HTTPStatus.SERVICE_UNAVAILABLE):
        return SESSION_FAILED
    if (
        not 400 <= status < 500
        or challenged
        or status in (HTTPStatus.FORBIDDEN, HTTPStatus.TOO_MANY_REQUESTS)
    ):
        return None
    words = _RUST_SDK if status == HTTPStatus.UNAUTHORIZED else _ABOUT_SESSION
    if words.search(body[:_MAX_SEARCHED]) is None:
        return None
    return SESSION_FAILED if _names_a_request(body) else SESSION_LOST


def _names_a_request(body: bytes) -> bool:
    """Whether the body is the JSON-RPC error of a request that the server has read."""
    try:
        message: Any = load_mcp(body)
    except ValueError:
        return False
    named = message.get("id") if isinstance(message, dict) else None
    return isinstance(named, int) or (isinstance(named, str) and named.isdecimal())


def casts_doubt(status: int, text: str) -> bool:
    """Whether a session may be lost after this answer to a call: an HTTP error that another token or a pause
    would not change, or an error that is about a session."""
    if status >= 400:
        return status not in (*UNAUTHORIZED, HTTPStatus.TOO_MANY_REQUESTS)
    return _ABOUT_SESSION.search(text[:_MAX_SEARCHED].encode(errors="replace")) is not None


def worth_retrying(code: int) -> bool:
    """Whether a server that refused a connection with this code may still be starting."""
    return code in (UNREACHABLE, SERVER_FAILED, SESSION_FAILED)


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
