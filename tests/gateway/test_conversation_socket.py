"""Following a conversation: every event once and in order, whatever becomes of the connection."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Any

import pytest
import trio
from trio_websocket import ConnectionClosed, WebSocketRequest, serve_websocket

from stopgo.gateway.cli.client import conversation_socket
from stopgo.gateway.cli.client.agent_client import AgentClient, ServerError
from stopgo.gateway.cli.client.conversation_socket import ConversationSocket, Transient
from stopgo.runtime.journal.protocol import Event
from stopgo.runtime.restart import Backoff
from tests.http_client import http_client

ID = "6a5a149f-5c43-431f-8978-01318737369c"
Connection = Callable[[WebSocketRequest], Awaitable[None]]


def event(seq: int) -> dict[str, Any]:
    at = "2026-11-21T22:45:53.306Z"
    return {"conversation_id": ID, "seq": seq, "type": "message.added", "at": at, "body": {"text": str(seq)}}


def sends(*frames: dict[str, Any] | str | bytes, code: int = 1001) -> Connection:
    """Send the frames and close."""

    async def connection(request: WebSocketRequest) -> None:
        socket = await request.accept()
        for frame in frames:
            await socket.send_message(json.dumps(frame) if isinstance(frame, dict) else frame)
        await socket.aclose(code, "why")

    return connection


def rejects(status: int, body: bytes) -> Connection:
    async def connection(request: WebSocketRequest) -> None:
        await request.reject(status, body=body)

    return connection


async def breaks(request: WebSocketRequest) -> None:
    socket = await request.accept()
    await socket._stream.aclose()


@pytest.fixture(autouse=True)
def no_delay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conversation_socket, "RECONNECTS", Backoff(first=0.0))


async def followed(
    *connections: Connection, after: int = 0
) -> tuple[list[int | str], list[str], list[str | None], str | None]:
    """Seqs and types of what was handed over, the paths of the connections, what was told of these, the
    error."""
    told: list[int | str] = []
    paths: list[str] = []
    states: list[str | None] = []
    left = list(connections)

    async def serve(request: WebSocketRequest) -> None:
        paths.append(request.path)
        with suppress(ConnectionClosed):
            await left.pop(0)(request)

    async def take_in(frame: Event | Transient) -> None:
        told.append(frame.frame["type"] if isinstance(frame, Transient) else frame.seq)

    async def on_connection(why: str | None) -> None:
        states.append(why)

    async with trio.open_nursery() as nursery, http_client() as http:
        server = await nursery.start(serve_websocket, serve, "127.0.0.1", 0, None)
        client = AgentClient(f"http://127.0.0.1:{server.port}", {"Authorization": "Bearer x"}, http)
        error = None
        try:
            await ConversationSocket(client, ID, on_connection, after).follow(take_in)
        except ServerError as refused:
            error = refused.message
        nursery.cancel_scope.cancel()
    return told, paths, states, error


def asked(after: int) -> str:
    return f"/conversations/{ID}/ws?after={after}&deltas=true"


HEARTBEAT = {"type": "heartbeat"}
DELTA = {"type": "model.delta", "text": "x"}


@pytest.mark.parametrize(
    ("connections", "told", "cursors"),
    [
        ([sends(event(1), event(2), code=1000)], [1, 2], [0]),
        ([sends(event(1)), sends(event(2), code=1000)], [1, 2], [0, 1]),
        # What comes twice is told once; what is no event moves no cursor.
        (
            [sends(event(1), HEARTBEAT, DELTA), sends(event(1), event(2), code=1000)],
            [1, "model.delta", 2],
            [0, 1],
        ),
        ([breaks, sends(code=1011), sends(event(1), code=1000)], [1], [0, 0, 0]),
        ([rejects(503, b'{"error": "stopping", "code": "shutting_down"}'), sends(code=1000)], [], [0, 0]),
        ([rejects(502, b"<html>"), sends(event(1), code=1000)], [1], [0, 0]),
    ],
)
async def test_it_connects_again_with_its_cursor(
    connections: Sequence[Connection], told: list[int | str], cursors: list[int]
) -> None:
    found, paths, states, error = await followed(*connections)
    assert (found, paths, error) == (told, [asked(after) for after in cursors], None)
    assert states[-1] is None


async def test_silent_server_times_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conversation_socket, "SILENCE", 0.3)

    async def silent(request: WebSocketRequest) -> None:
        await request.accept()
        await trio.sleep_forever()

    async def speaks(request: WebSocketRequest) -> None:
        monkeypatch.undo()
        await sends(event(8), code=1000)(request)

    found, paths, states, _ = await followed(silent, speaks, after=7)
    assert (found, paths) == ([8], [asked(7)] * 2)
    assert states[1] is not None
    assert states[1].endswith("not in time")


@pytest.mark.parametrize(
    ("connection", "error"),
    [
        (rejects(404, b'{"error": "there is no conversation", "code": "x"}'), "there is no conversation"),
        (rejects(404, b"nothing here"), "the response has status 404 and is not its JSON"),
        (sends(code=1009), "an event is longer than"),
    ],
)
async def test_a_refusal_ends_it(connection: Connection, error: str) -> None:
    found, paths, _, said = await followed(connection)
    assert (found, paths) == ([], [asked(0)])
    assert said is not None
    assert error in said


@pytest.mark.parametrize(
    "frame",
    [
        "{",
        b"\xff",
        "[1]",
        "null",
        "{}",
        '{"type": 1}',
        '{"seq": 1}',
        {**event(1), "seq": "1"},
        {**event(1), "seq": None},
        {**event(1), "at": "yesterday"},
        {**event(1), "at": "0001-01-01"},
        {**event(1), "at": 1},
        {**event(1), "type": None},
        {**event(1), "body": [1]},
    ],
    ids=str,
)
async def test_a_malformed_frame_ends_it(frame: dict[str, Any] | str | bytes) -> None:
    found, paths, _, said = await followed(sends(frame))
    assert (found, paths) == ([], [asked(0)])
    assert said is not None
    assert said.startswith("a frame of http://127.0.0.1:")
