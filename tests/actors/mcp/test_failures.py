from __future__ import annotations

import pytest

from stopgo.actors.mcp.failures import (
    MAX_LINE,
    NOT_UNDERSTOOD,
    REQUEST_REFUSED,
    SERVER_FAILED,
    SESSION_LOST,
    UNREACHABLE,
    Meaning,
    first_line,
    meaning,
    worth_retrying,
)


@pytest.mark.parametrize(
    ("code", "message", "data", "expected"),
    [
        (UNREACHABLE, "refused", {"sent": False}, "never_ran"),
        (UNREACHABLE, "reset", {"sent": True}, "reply_lost"),
        (UNREACHABLE, "who knows", None, "reply_lost"),
        (SESSION_LOST, "", {}, "never_ran"),
        (SERVER_FAILED, "HTTP 502", {}, "outcome_unknown"),
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
