from __future__ import annotations

import json

import pytest

from stopgo.actors.mcp.wire.failures import (
    MAX_LINE,
    NOT_UNDERSTOOD,
    REQUEST_REFUSED,
    SERVER_FAILED,
    SESSION_FAILED,
    SESSION_LOST,
    UNREACHABLE,
    Meaning,
    casts_doubt,
    first_line,
    meaning,
    session_loss,
    worth_retrying,
)


@pytest.mark.parametrize(
    ("code", "message", "data", "expected"),
    [
        (UNREACHABLE, "refused", {"sent": False}, "never_ran"),
        (UNREACHABLE, "reset", {"sent": True}, "reply_lost"),
        (UNREACHABLE, "who knows", None, "reply_lost"),
        (SESSION_LOST, "", {}, "never_ran"),
        (SESSION_FAILED, "HTTP 502", {}, "connection_lost"),
        (SERVER_FAILED, "HTTP 500", {}, "outcome_unknown"),
        (NOT_UNDERSTOOD, "not a valid JSON-RPC message", None, "outcome_unknown"),
        (REQUEST_REFUSED, "HTTP 401", {}, "answered"),
        (-32000, "Connection closed", None, "connection_lost"),
        (-32000, "SSE stream ended without a response", None, "reply_lost"),
        (-32000, "database is locked", None, "answered"),
        (-32601, "Method not found", None, "answered"),
        (-32001, "the server's own timeout", None, "answered"),
    ],
)
def test_meaning_of_errors(code: int, message: str, data: object, expected: Meaning) -> None:
    assert meaning(code, message, data) == expected


def test_only_a_starting_server_is_worth_retrying() -> None:
    assert [
        code for code in (UNREACHABLE, SERVER_FAILED, REQUEST_REFUSED, -32601) if worth_retrying(code)
    ] == [
        UNREACHABLE,
        SERVER_FAILED,
    ]


def rpc(text: str, id: object = None) -> str:
    return json.dumps({"jsonrpc": "2.0", "id": id, "error": {"code": -32000, "message": text}})


@pytest.mark.parametrize(
    ("status", "body", "code"),
    [
        (404, "", SESSION_LOST),  # MCP 2025-11-25, "Session Management"
        (404, rpc("Session not found"), SESSION_LOST),  # python-sdk
        (410, "", SESSION_LOST),
        (400, rpc("Bad Request: No valid session ID provided"), SESSION_LOST),  # typescript-sdk, examples
        (400, rpc("Bad Request: Server not initialized"), SESSION_LOST),  # typescript-sdk
        (400, rpc("Bad Request: Missing session ID", "server-error"), SESSION_LOST),  # python-sdk
        (400, "Invalid session ID", SESSION_LOST),  # mcp-go
        (409, '{"detail": "unknown Session"}', SESSION_LOST),
        (422, "Unprocessable Entity: Unexpected message, expect initialize request", SESSION_LOST),  # rmcp
        (401, "Unauthorized: Session not found", SESSION_LOST),  # rmcp
        (400, rpc("session is gone", 1_000_000_000), SESSION_FAILED),
        (400, rpc("session is gone", "1000000000"), SESSION_FAILED),
        (502, "", SESSION_FAILED),
        (503, "no available server", SESSION_FAILED),
        (400, rpc("no such tool"), None),
        (400, " " * 5000 + "session", None),
        (401, "your session has expired: log in", None),
        (403, "session not found", None),
        (409, "", None),
        (429, "too many requests in this session", None),
        (500, "no session with the database", None),
        (504, "", None),
    ],
)
def test_lost_session_is_recognised(status: int, body: str, code: int | None) -> None:
    assert session_loss(status, body.encode(), challenged=False) == code


def test_challenge_is_about_a_token_and_not_a_session() -> None:
    assert session_loss(401, b"session not found", challenged=True) is None


@pytest.mark.parametrize(
    ("status", "text", "doubtful"),
    [
        (500, "", True),
        (400, "", True),
        (200, "Session terminated", True),
        (200, "Server not initialised", True),
        (200, "no such tool", False),
        (401, "session", False),
        (429, "", False),
        (202, "", False),
    ],
)
def test_some_answers_cast_doubt_on_the_session(status: int, text: str, doubtful: bool) -> None:
    assert casts_doubt(status, text) is doubtful


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (ValueError("one\ntwo"), "one"),
        (ValueError(""), "ValueError"),
        (ValueError("x" * 10_000_000), "x" * MAX_LINE),
    ],
)
def test_first_line_of_an_error(error: Exception, line: str) -> None:
    assert first_line(error) == line
