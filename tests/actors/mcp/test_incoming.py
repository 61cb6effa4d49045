from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp_types import JSONRPCError, JSONRPCResponse, jsonrpc_message_adapter
from pydantic import ValidationError

from stopgo.actors.mcp.wire.failures import (
    ANY_ERROR,
    NOT_UNDERSTOOD,
    REQUEST_REFUSED,
    SERVER_FAILED,
    SESSION_LOST,
    UNREACHABLE,
    meaning,
)
from stopgo.actors.mcp.wire.incoming import parse_message, split_batch
from tests.actors.mcp.test_wire import json_values


def parsed(data: bytes) -> dict[str, Any] | None:
    message = parse_message(data)
    return None if message is None else json.loads(message.model_dump_json(exclude_unset=True))


def test_valid_message_is_returned() -> None:
    reply = {"jsonrpc": "2.0", "id": 1, "result": {"a": [1, None]}}
    assert parsed(json.dumps(reply).encode()) == reply


@pytest.mark.parametrize("text", [b'"caf\xe9"', b'"caf\\ud83d"'])
def test_invalid_utf_8_does_not_lose_a_message(text: bytes) -> None:
    message = parsed(b'{"jsonrpc": "2.0", "id": 1, "result": {"text": %s}}' % text)
    assert message is not None
    assert message["result"] == {"text": "caf\ufffd"}


def test_byte_order_mark_does_not_lose_a_message() -> None:
    reply = {"jsonrpc": "2.0", "id": 1, "result": {}}
    assert parsed(b"\xef\xbb\xbf" + json.dumps(reply).encode()) == reply


@pytest.mark.parametrize("number", [b"9" * 5000, b"NaN", b"-Infinity", b"1e999"])
def test_non_finite_number_is_null(number: bytes) -> None:
    message = parsed(b'{"jsonrpc": "2.0", "id": 1, "result": {"n": [%s, 7]}}' % number)
    assert message is not None
    assert message["result"] == {"n": [None, 7]}


def nested(depth: int) -> Any:
    return {"a": nested(depth - 1)} if depth else {}


@pytest.mark.parametrize(
    ("reply", "result"),
    [
        ({"jsonrpc": "1.0", "id": 7, "result": {"n": 1}}, {"n": 1}),
        ({"id": "seven", "result": {}}, {}),
        ({"id": 7, "result": {"n": 1}, "error": None}, {"n": 1}),
        ({"jsonrpc": "2.0", "id": 7, "result": "a text"}, {"content": "a text"}),
        ({"jsonrpc": "2.0", "id": 7, "result": [{"type": "text"}]}, {"content": [{"type": "text"}]}),
    ],
)
def test_result_of_a_reply_that_breaks_the_rules_is_kept(reply: dict[str, Any], result: Any) -> None:
    """The call has run, so its result must not be lost."""
    message = parse_message(json.dumps(reply).encode())
    assert isinstance(message, JSONRPCResponse)
    assert (message.id, message.result) == (reply["id"], result)


@pytest.mark.parametrize(
    ("data", "messages"),
    [
        (b'[{"id": 1}, {"id": 2}]', [b'{"id":1}', b'{"id":2}']),
        (b'\xef\xbb\xbf \r\n[{"id": 1}]', [b'{"id":1}']),
        (b"[]", []),
        (b'{"id": 1}', [b'{"id": 1}']),
        (b"[half", [b"[half"]),
        (b"", [b""]),
    ],
)
def test_batch_is_split_into_its_messages(data: bytes, messages: list[bytes]) -> None:
    """MCP 2025-03-26, "Batching": receivers must support batches."""
    assert split_batch(data) == messages


@pytest.mark.parametrize(
    "reply",
    [
        {"jsonrpc": "2.0", "id": 7, "result": nested(300)},
        {"jsonrpc": "2.0", "id": 7, "error": 5},
        {"jsonrpc": "2.0", "id": 7, "result": 5},
    ],
)
def test_invalid_reply_is_an_error_of_its_request(reply: dict[str, Any]) -> None:
    message = parse_message(json.dumps(reply).encode())
    assert isinstance(message, JSONRPCError)
    assert message.id == reply["id"]
    error = message.error
    assert error.code == NOT_UNDERSTOOD
    assert meaning(error.code, error.message, error.data) == "outcome_unknown"


@pytest.mark.parametrize("error", ["disk full", {"code": "ENOSPC", "message": "disk full"}])
def test_error_text_survives_an_invalid_error(error: object) -> None:
    message = parse_message(json.dumps({"jsonrpc": "2.0", "id": 7, "error": error}).encode())
    assert isinstance(message, JSONRPCError)
    assert (message.id, message.error.message) == (7, "disk full")
    assert meaning(message.error.code, message.error.message, message.error.data) == "answered"


@pytest.mark.parametrize("code", [UNREACHABLE, SESSION_LOST, SERVER_FAILED, NOT_UNDERSTOOD, REQUEST_REFUSED])
def test_our_own_code_is_replaced(code: int) -> None:
    error = {"code": code, "message": "no", "data": {"sent": False, "http_status": 401}}
    message = parse_message(json.dumps({"jsonrpc": "2.0", "id": 7, "error": error}).encode())
    assert isinstance(message, JSONRPCError)
    assert (message.error.code, message.error.message) == (ANY_ERROR, "no")


@pytest.mark.parametrize(
    "garbage",
    [
        b"starting up...",
        b"{}",
        b"[1]",
        b"3",
        b'{"jsonrpc": "2.0", "id": true, "result": 1}',
        b'{"jsonrpc": "2.0", "result": 1}',
        b'{"jsonrpc": "2.0", "id": 1, "method": 5, "result": 1}',
        b"[" * 100_000,
    ],
)
def test_other_input_is_none(garbage: bytes) -> None:
    assert parse_message(garbage) is None


_parts = st.fixed_dictionaries(
    {},
    optional={
        "jsonrpc": st.just("2.0") | st.just("1.0"),
        "id": st.integers() | st.text(max_size=3) | st.floats(allow_nan=False) | st.none() | st.booleans(),
        "method": st.text(max_size=3) | st.none(),
        "params": json_values,
        "result": st.dictionaries(st.text(max_size=3), json_values, max_size=2) | json_values,
        "error": st.fixed_dictionaries({"code": st.integers(), "message": st.text(max_size=3)}) | json_values,
    },
)


@given(_parts)
def test_messages_agree_with_the_sdk(value: dict[str, Any]) -> None:
    data = json.dumps(value).encode()
    try:
        judged = jsonrpc_message_adapter.validate_json(data, by_name=False)
    except ValidationError:
        ours = parse_message(data)
        match ours:
            case JSONRPCError(error=error):
                assert error.code in (NOT_UNDERSTOOD, ANY_ERROR)
            case JSONRPCResponse():  # the rest of the reply breaks the rules
                assert isinstance(value["result"], dict | str | list)
            case _:
                assert ours is None
    else:
        assert parse_message(data) == judged
