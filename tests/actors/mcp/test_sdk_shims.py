"""Requests and notifications of servers, and which of them reach the SDK."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import anyio
import pytest
import trio
from mcp.client._transport import TransportStreams
from mcp.shared.message import ServerMessageMetadata, SessionMessage
from mcp_types import jsonrpc_message_adapter

from stopgo.actors.mcp.wire import sdk_shims as module
from stopgo.actors.mcp.wire.sdk_shims import filtered
from stopgo.actors.tools.tool import CallTool, ServerMessage
from stopgo.config.sections.mcp import McpServerConfig
from stopgo.runtime.ref import ActorRef

Open = Callable[[McpServerConfig], AbstractAsyncContextManager[ActorRef[ServerMessage]]]
Config = Callable[..., McpServerConfig]


def message(**fields: Any) -> SessionMessage:
    return SessionMessage(jsonrpc_message_adapter.validate_python({"jsonrpc": "2.0", **fields}))


def asking(id: int | str) -> SessionMessage:
    return message(id=id, method="ping")


class Peer:
    """The other end of a transport, and the items that passed the filter."""

    def __init__(self) -> None:
        self.says, self._reads = anyio.create_memory_object_stream["SessionMessage | Exception"](100)
        self._writes, self.hears = anyio.create_memory_object_stream["SessionMessage"](100)
        self.changes = 0

    @asynccontextmanager
    async def _transport(self) -> AsyncIterator[TransportStreams]:
        with self.says, self._reads, self._writes, self.hears:
            yield self._reads, self._writes

    @asynccontextmanager
    async def open(self) -> AsyncIterator[TransportStreams]:
        async with filtered(self._transport(), self._changed, logging.getLogger("test")) as streams:
            yield streams

    def _changed(self) -> None:
        self.changes += 1

    async def passed(self, streams: TransportStreams, *items: SessionMessage | Exception) -> list[Any]:
        """Send items; return those that pass."""
        last = message(id=999, result={})
        for item in (*items, last):
            self.says.send_nowait(item)
        found = []
        while (item := await streams[0].receive()) is not last:
            found.append(item)
        return found


async def test_open_requests_of_the_server_are_bounded(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(module, "MAX_OPEN_REQUESTS", 2)
    peer, asked = Peer(), [asking(id) for id in (0, 1, "one", 3)]
    async with peer.open() as streams:
        assert await peer.passed(streams, asked[0], asked[0], *asked[1:]) == asked[:2]
        await streams[1].send(message(id=5, method="tools/list"))
        await streams[1].send(message(id=0, result={}))
        assert await peer.passed(streams, *asked[2:]) == asked[2:3]
        await streams[1].send(message(id=1, error={"code": -32601, "message": "no"}))
        metadata = asked[2].metadata
        assert isinstance(metadata, ServerMessageMetadata)
        assert metadata.on_request_unanswered is not None
        await metadata.on_request_unanswered()
        assert await peer.passed(streams, *asked[:2]) == asked[:2]
    assert [record.getMessage() for record in caplog.records] == [
        "the server sends requests without reading the answers; some are dropped"
    ]


async def test_only_notifications_for_the_sdk_pass() -> None:
    peer = Peer()
    cancelled = message(method="notifications/cancelled", params={"requestId": 1})
    acknowledged = message(method="notifications/subscriptions/acknowledged", params={})
    others = [
        message(method="notifications/message", params={"level": "warn", "data": 1}),
        message(method="notifications/tools/list_changed", params={"_meta": 5}),
        message(method="of/its/own"),
    ]
    error = ValueError()
    async with peer.open() as streams:
        assert await peer.passed(streams, *others, cancelled, error, acknowledged) == [
            cancelled,
            error,
            acknowledged,
        ]
    assert peer.changes == 1


async def test_flood_of_server_requests_is_survived(
    serving: Open, unruly: Config, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Without the limit, each request is a task that waits to write its answer."""
    monkeypatch.setattr(module, "MAX_OPEN_REQUESTS", 100)
    async with serving(unruly(mode="legacy")) as server:
        before = trio.lowlevel.current_statistics().tasks_living
        result = await server.ask(CallTool("insistent", {"times": 2500}))
        assert result.content == "asked it all"
        assert trio.lowlevel.current_statistics().tasks_living < before + 200
        assert (await server.ask(CallTool("fails", {}))).content == "the disk is full"
    assert [line for line in caplog.messages if "without reading" in line] == [
        "the server sends requests without reading the answers; some are dropped"
    ]
    assert "validate" not in caplog.text
