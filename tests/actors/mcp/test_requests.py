from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp import MCPError
from mcp_types import JSONRPCMessage

from stopgo.actors.mcp.wire.failures import Unsendable, meaning
from stopgo.actors.mcp.wire.incoming import parse_message
from stopgo.actors.mcp.wire.requests import FIRST_ID, Outgoing, Requests
from stopgo.actors.tools.tool import Progress
from tests.actors.mcp.test_wire import json_values


def call(arguments: Mapping[str, Any] | None = None, told: list[Progress] | None = None) -> Outgoing:
    params = {"name": "t", "arguments": arguments or {}}
    return Outgoing("tools/call", params, {}, None if told is None else told.append)


def message(**fields: Any) -> JSONRPCMessage:
    parsed = parse_message(json.dumps({"jsonrpc": "2.0", **fields}).encode())
    assert parsed is not None
    return parsed


def progress(token: Any, **params: Any) -> JSONRPCMessage:
    return message(method="notifications/progress", params={"progressToken": token, **params})


async def test_reply_reaches_its_request() -> None:
    requests = Requests()
    with requests.open(call()) as first, requests.open(call()) as second:
        assert (first.id, second.id) == (FIRST_ID, FIRST_ID + 1)
        assert requests.take(message(id=second.id, result={"n": 2}))
        assert requests.take(message(id=str(first.id), error={"code": -1, "message": "no", "data": [1]}))
        assert requests.take(message(id=second.id, result={"n": 3}))
        assert await second.result() == {"n": 2}
        with pytest.raises(MCPError) as raised:
            await first.result()
    assert (raised.value.code, raised.value.message, raised.value.data) == (-1, "no", [1])
    assert not requests.take(message(id=first.id, result={}))


@pytest.mark.parametrize(
    "other",
    [
        {"id": 1, "result": {}},
        {"id": "listen-1", "result": {}},
        {"id": "9" * 5000, "result": {}},
        {"id": None, "error": {"code": -32700, "message": "parse error"}},
        {"id": FIRST_ID, "method": "ping"},
        {"method": "notifications/message", "params": {"progressToken": FIRST_ID}},
    ],
)
async def test_other_messages_are_left_to_the_session(other: dict[str, Any]) -> None:
    requests = Requests()
    with requests.open(call(told=[])):
        assert not requests.take(message(**other))


def test_progress_is_reported_in_order() -> None:
    requests, told = Requests(), list[Progress]()
    with requests.open(call(told=told)) as request, requests.open(call()) as silent:
        assert json.loads(request.body())["params"]["_meta"] == {"progressToken": request.id}
        for n in range(3):
            assert requests.take(progress(request.id, progress=n, total=2, message=f"step {n}"))
        assert requests.take(progress(str(request.id), progress=10**400, total=10**400))
        assert requests.take(progress(request.id, progress="much"))
        assert requests.take(progress(silent.id, progress=1))
        odd: list[Any] = [1, [], None, True]
        assert all(requests.take(progress(token, progress=1)) for token in odd)
        assert requests.take(message(method="notifications/progress"))
    assert told == [*(Progress(n, 2, f"step {n}") for n in range(3)), Progress(0.0, None, None)]


async def test_end_fails_open_and_later_requests() -> None:
    requests = Requests()
    with requests.open(call()) as request:
        requests.end()
        with pytest.raises(MCPError) as raised:
            await request.result()
    error = raised.value
    assert meaning(error.code, error.message, error.data) == "connection_lost"
    with pytest.raises(MCPError) as raised:
        with requests.open(call()):
            raise AssertionError
    error = raised.value
    assert meaning(error.code, error.message, error.data) == "never_ran"


async def test_cancellation_names_its_request() -> None:
    with Requests().open(call()) as request:
        assert json.loads(request.cancellation()) == {
            "jsonrpc": "2.0",
            "method": "notifications/cancelled",
            "params": {"requestId": request.id, "reason": "caller cancelled"},
        }


def test_unsendable_arguments_are_refused() -> None:
    deep: Any = []
    for _ in range(400):
        deep = [deep]
    for value in (deep, "\ud800"):
        with Requests().open(call({"a": value})) as request, pytest.raises(Unsendable):
            request.body()


@given(st.dictionaries(st.text(max_size=5), json_values))
def test_sendable_arguments_are_sent(arguments: dict[str, Any]) -> None:
    with Requests().open(call(arguments)) as request:
        body = request.body()
    assert b"\n" not in body
    assert json.loads(body)["params"]["arguments"] == arguments
