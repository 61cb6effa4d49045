"""What the error of an MCP request says about the call. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, Literal, TypeAlias

from ...runtime.json_text import load_mcp
from ..tools.needs import MAX_CHALLENGE, Wanted

# Ours, for what the SDK's session has no words for; outside the range that JSON-RPC reserves.
REQUEST_REFUSED = -31400
"""An HTTP 4xx that is no answer of the tool server's."""
SESSION_LOST = -31404
"""The server does not know our session, and therefore did nothing."""
NOT_UNDERSTOOD = -31422
"""Something came in the place of a reply, and none can be made out: it says nothing about the call."""
SERVER_FAILED = -31500
"""An HTTP 5xx that is no answer of the tool server's."""
UNREACHABLE = -31503
"""The request failed on its way; `data["sent"]` says whether it may have arrived."""
_OURS = (REQUEST_REFUSED, SESSION_LOST, NOT_UNDERSTOOD, SERVER_FAILED, UNREACHABLE)
ANY_ERROR = -32603
"""Of JSON-RPC: "Internal error"."""

UNAUTHORIZED = (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN)
"""The statuses that a credential, or a better one, would change."""

MAX_LINE = 500
"""Characters of a reason: a server may have written it."""

_CLOSED = -32000
# Servers use that code for errors of their own; these are the texts of the SDK's.
_CLOSED_MESSAGE = "Connection closed"
_REPLY_CUT_MESSAGE = "SSE stream"


class Unsendable(Exception):
    """No message can hold the request: half of a surrogate pair in a text, or too much nesting."""


class InvalidResult(Exception):
    """What a server sent is not the result of a call; the text says what is wrong with it."""


Meaning: TypeAlias = Literal["answered", "never_ran", "connection_lost", "reply_lost", "outcome_unknown"]
"""A lost reply takes nothing else with it: over HTTP, every call has a connection of its own."""


def meaning(code: int, message: str, data: object) -> Meaning:
    """Tell an answer of the server's from a call that never ran and from one nobody knows about."""
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
    """The code in an error that the server itself wrote: with one of ours it would say that nothing was sent,
    and what it did would be done again."""
    return ANY_ERROR if code in _OURS else code


def rpc_error(body: bytes) -> tuple[int, str, object] | None:
    """The tool server's own answer in the body of an error response; None when there is none."""
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
    """Whether a server that refused to connect like this may merely not be up yet."""
    return code in (UNREACHABLE, SERVER_FAILED)


def http_status(code: int, data: object) -> int | None:
    """The HTTP status behind a refusal; None when it was none."""
    status = data.get("http_status") if code == REQUEST_REFUSED and isinstance(data, Mapping) else None
    return status if isinstance(status, int) else None


def wanted(server: str, status: int | None, data: object) -> Wanted | None:
    """The credential that a refusal with this HTTP status is about; None when it is about something else."""
    if status not in UNAUTHORIZED:
        return None
    challenge = data.get("www_authenticate") if isinstance(data, Mapping) else None
    told = challenge[:MAX_CHALLENGE] if isinstance(challenge, str) else None
    return Wanted(server, status, told)


def status_line(status: int) -> str:
    """As it is written: number and phrase."""
    try:
        return f"HTTP {status} {HTTPStatus(status).phrase}"
    except ValueError:
        return f"HTTP {status}"


def first_line(error: BaseException) -> str:
    """Of its text, as far as one reads it; its type's name when it has none."""
    return next(iter(str(error)[:MAX_LINE].splitlines()), "") or type(error).__name__
