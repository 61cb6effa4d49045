"""Messages that are too long: their replacements, and the requests that these answer."""

from __future__ import annotations

import json
import re
from itertools import permutations
from typing import Any

import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp_types import JSONRPCResponse

from stopgo.actors.mcp.wire import message_bound
from stopgo.actors.mcp.wire.incoming import parse_message
from stopgo.actors.mcp.wire.message_bound import Body, BoundedLines, BoundedMessage, Events
from stopgo.actors.mcp.wire.requests import FIRST_ID

CALL = FIRST_ID + 7
LONG = 'x\\"\n{é}[1,2],' * 2000
MOST = 4096


def text(content: str, **more: Any) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": content}], **more}


def shortened(message: Any, most: int = MOST, *, may_list: bool = True) -> Any:
    data = message if isinstance(message, bytes) else json.dumps(message).encode()
    body = Body(BoundedMessage(most, may_list))
    for begin in range(0, len(data), 100):
        assert body.feed(data[begin : begin + 100]) == b""
    rest = body.rest()
    assert len(rest) < most + 1000
    return json.loads(rest)


RESULT = {"jsonrpc": "2.0", "id": CALL, "result": text(LONG)}
TRAP = ',"id":3}'
"""Text that looks like a member of the message."""


@pytest.mark.parametrize("order", list(permutations(RESULT)))
@pytest.mark.parametrize("ensure_ascii", [True, False])
def test_abridged_result_keeps_its_id(order: tuple[str, ...], ensure_ascii: bool) -> None:
    message = {name: RESULT[name] for name in order}
    data = json.dumps(message, ensure_ascii=ensure_ascii, indent=1).encode()
    found = shortened(data)
    assert found["id"] == CALL
    note, part = found["result"]["content"]
    assert f"it had {len(data)} bytes, and tools.max_stored_bytes is {MOST}" in note["text"]
    assert len(part["text"]) > MOST / 2
    assert LONG.startswith(part["text"])


@pytest.mark.parametrize(
    ("result", "failed"),
    [
        (text(LONG, isError=True), True),
        ({"isError": True, **text(LONG)}, True),
        (text(LONG, isError=False), False),
        (text(LONG, structuredContent={"isError": True}), False),
        (text(LONG + '"isError":true}', x={"isError": True}), False),
    ],
)
@pytest.mark.parametrize("order", list(permutations(RESULT)))
def test_abridged_result_keeps_is_error(order: tuple[str, ...], result: dict[str, Any], failed: bool) -> None:
    message = {name: {**RESULT, "result": result}[name] for name in order}
    assert shortened(message)["result"]["isError"] is failed


@pytest.mark.parametrize(
    "result",
    [
        {"structuredContent": {"a": [{"id": 3}] * 1000}, "content": []},
        {"content": [{"type": "image", "data": LONG, "mimeType": "image/png"}]},
        {"content": json.loads("[" * 100 + "]" * 100), "more": LONG},
        {"_meta": {"id": 3, "text": LONG}, "content": [{"type": "text", "text": "end"}]},
        {"content": [{"text": LONG + TRAP, "type": "text"}]},
        {"content": LONG},
        LONG + TRAP,
    ],
)
def test_too_long_result_keeps_only_text_parts(result: Any) -> None:
    for message in ({**RESULT, "result": result}, {"result": result, "id": CALL}):
        found = shortened(message)
        assert found["id"] == CALL
        assert found["result"]["content"][0]["text"].startswith("[Note: the call was made")
        assert all(set(part) == {"type", "text"} for part in found["result"]["content"])


def test_too_long_error_stays_an_error() -> None:
    error = {"code": -32000, "message": "locked " + LONG, "data": LONG}
    found = shortened({"jsonrpc": "2.0", "id": 3, "error": error})
    assert (found["id"], found["error"]["code"]) == (3, -32000)
    said = found["error"]["message"]
    assert re.match(r"\[The error was too long: it had \d+ bytes.*\] locked x", said, re.S)
    assert len(said) < 1000
    assert "error" in shortened({"error": error, "id": 3})


@pytest.mark.parametrize("members", [{"id": "q1"}, {}])
def test_too_long_request_loses_its_parameters(members: dict[str, Any]) -> None:
    whole = {"jsonrpc": "2.0", "method": "x/y", **members}
    assert shortened({**whole, "params": {"x": LONG}}) == whole
    assert shortened({"params": {"x": LONG}, **whole}) == whole


def test_too_long_garbage_stays_garbage() -> None:
    for data in (b"no " * 5000, b"{" * 5000, b"\xff" * 5000, b'{"a":' * 5000, b"[1]" * 5000):
        body = Body(BoundedMessage(MOST))
        body.feed(data)
        assert data.startswith(body.rest())


def test_cut_id_is_not_used() -> None:
    """For every length of the beginning that is kept."""
    data = json.dumps({"a": {}, "result": {}, "id": CALL, "more": {"x": "y" * 5000}}).encode()
    for most in range(10, 60):
        body = Body(BoundedMessage(most))
        body.feed(data)
        message = parse_message(body.rest())
        assert message is None or (isinstance(message, JSONRPCResponse) and message.id == CALL)


def test_list_of_tools_may_be_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(message_bound, "MAX_LISTING", 100_000)
    page = {"jsonrpc": "2.0", "id": 2, "result": {"tools": [{"name": LONG}]}}
    data = json.dumps(page).encode()
    for each, may_list, whole in (
        (page, True, True),
        (page, False, False),
        ({**page, "id": CALL}, True, False),
    ):
        body = Body(BoundedMessage(MOST, may_list))
        body.feed(json.dumps(each).encode())
        assert (body.rest() == data) == whole
    last = Body(BoundedMessage(MOST))
    last.feed(json.dumps({"result": {"tools": [], **text(LONG)}, "id": CALL}).encode())
    assert len(last.rest()) < 2 * MOST
    error = shortened({**page, "result": {"tools": [{"name": LONG * 10}]}})["error"]
    assert "too long: it had" in error["message"]


# ------------------------------------------------------------------ splitting the input

pieces = st.lists(st.integers(1, 9))


def cut(data: bytes, sizes: list[int]) -> list[bytes]:
    found = []
    for size in sizes:
        found.append(data[:size])
        data = data[size:]
    return [*found, data]


@given(st.lists(st.binary(max_size=40).map(lambda line: line.replace(b"\n", b""))), pieces)
def test_short_lines_pass_unchanged(lines: list[bytes], sizes: list[int]) -> None:
    framer = BoundedLines(BoundedMessage(100))
    chunks = cut(b"".join(line + b"\n" for line in lines) + b"rest", sizes)
    assert [line for chunk in chunks for line in framer.feed(chunk)] == lines


def decoded(data: bytes) -> list[tuple[str, str, str, int | None]]:
    parser = httpx2._sse._SSEParser(None)
    events = [*parser.decode(data.decode()), *parser.flush()]
    return [(event.event, event.data, event.id, event.retry) for event in events]


fields = st.sampled_from(
    [
        "data: {}",
        "data:",
        "data",
        "data:  two",
        "data: é",
        "dat",
        "id: 1",
        "id",
        ": note",
        "event: x",
        "retry: 5",
    ]
)
breaks = st.sampled_from(["\n", "\r\n", "\r"])


@given(st.lists(st.tuples(fields | st.just(""), breaks)), pieces)
def test_short_events_pass_unchanged(lines: list[tuple[str, str]], sizes: list[int]) -> None:
    stream = "".join(line + end for line, end in [*lines, ("", "\n"), ("", "\r")]).encode()
    events = Events(BoundedMessage(1000))
    passed = b"".join(events.feed(chunk) for chunk in cut(stream, sizes)) + events.rest()
    assert decoded(passed) == decoded(stream)


def test_too_long_event_is_abridged() -> None:
    data = json.dumps(RESULT, indent=1).replace("\n", "\ndata: ")
    stream = f"id: 4\ndata: {data}\n\nevent: x\ndata: after\n\n".encode()
    events = Events(BoundedMessage(MOST))
    passed = b"".join(events.feed(stream[begin : begin + 77]) for begin in range(0, len(stream), 77))
    (_, first, identity, _), after = decoded(passed)
    assert identity == "4"
    assert json.loads(first)["id"] == CALL
    assert len(first) < MOST + 1000
    assert after[:2] == ("x", "after")


@pytest.mark.parametrize(
    ("stream", "events"),
    [
        (b'id: 5\ndata: [{"id": 1},{"id": 2}]\n\n', b'data: {"id":1}\n\nid: 5\ndata: {"id":2}\n\n'),
        (b'\xef\xbb\xbfid: 5\r\ndata: [{"id": 1}]\r\n\r\n', b'id: 5\ndata: {"id":1}\n\n'),
        (b"id: 5\ndata: []\n\n", b"id: 5\ndata: []\n\n"),
        (b"id: 5\n\n", b"id: 5\n\n"),
    ],
)
def test_batch_in_an_event_becomes_one_event_for_each_message(stream: bytes, events: bytes) -> None:
    """Its id comes last, so that a stream that breaks off before is resumed with the whole batch."""
    assert Events(BoundedMessage(MOST)).feed(stream) == events
