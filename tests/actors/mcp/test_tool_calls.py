"""Calls on the wire, compared with those of the SDK."""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import anyio
import attrs
import pytest
import trio
from mcp.client._transport import TransportStreams
from mcp.shared.message import ClientMessageMetadata, SessionMessage
from mcp_types import (
    DiscoverResult,
    ElicitResult,
    Implementation,
    InitializeResult,
    InputRequiredResult,
    JSONRPCResponse,
    ServerCapabilities,
)
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS, LATEST_HANDSHAKE_VERSION, LATEST_MODERN_VERSION

from stopgo.actors.mcp.session import Link, SessionDialect, Transport, client
from stopgo.actors.mcp.transports.in_flight import InFlightCalls
from stopgo.actors.mcp.wire.failures import InvalidResult, Unsendable
from stopgo.actors.mcp.wire.requests import Outgoing, Requests
from stopgo.actors.mcp.wire.tool_calls import ToolCalls
from stopgo.actors.tools.tool import CallTool, ElicitationAnswer, Tool, ToolResult
from stopgo.config.sections.mcp import McpServerConfig

LOG = logging.getLogger("test")
SCHEMA = {
    "type": "object",
    "properties": {
        "region": {"type": "string", "x-mcp-header": "Region"},
        "plain": {"type": "string"},
        "count": {"type": "integer", "x-mcp-header": "Count"},
    },
}
DONE: dict[str, Any] = {"content": [{"type": "text", "text": "done"}], "resultType": "complete"}


@attrs.define
class Way:
    """A server that answers every request with the same result, and records the requests."""

    result: dict[str, Any] = attrs.field(factory=lambda: dict(DONE))
    sent: list[Outgoing] = attrs.field(factory=list)

    async def request(self, outgoing: Outgoing) -> dict[str, Any]:
        self.sent.append(outgoing)
        return self.result


@asynccontextmanager
async def answering(told: list[SessionMessage]) -> AsyncIterator[TransportStreams]:
    """A transport whose server answers every request with an empty result."""
    incoming, reads = anyio.create_memory_object_stream["SessionMessage | Exception"](8)
    writes, outgoing = anyio.create_memory_object_stream[SessionMessage](8)

    async def answer() -> None:
        async for item in outgoing:
            told.append(item)
            message: Any = item.message
            if (request_id := getattr(message, "id", None)) is not None:
                tools = [{"name": "plant", "inputSchema": SCHEMA}]
                listing = {"tools": tools, "resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
                result = listing if message.method == "tools/list" else DONE
                await incoming.send(
                    SessionMessage(JSONRPCResponse(jsonrpc="2.0", id=request_id, result=result))
                )

    with incoming, reads, writes, outgoing:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(answer)
            yield reads, writes
            nursery.cancel_scope.cancel()


async def by_the_sdk(
    version: str, tool: str, arguments: dict[str, Any], **more: Any
) -> tuple[dict[str, Any], Mapping[str, str]]:
    """Parameters and headers of the SDK's own call, made with the client that we configure."""
    told: list[SessionMessage] = []
    config = McpServerConfig(name="x", url="http://x.test/mcp")
    way = Transport(answering(told), Way())
    modern = version not in HANDSHAKE_PROTOCOL_VERSIONS
    sdk = client(
        attrs.evolve(config, mode="modern"),
        SessionDialect("http", legacy=False),
        way,
        Link(InFlightCalls(LOG)),
        LOG,
    )
    async with sdk:
        session = sdk.session
        capabilities = ServerCapabilities()
        if modern:
            session.adopt(DiscoverResult.model_validate(_discovered(version)))
        else:
            server = Implementation(name="x", version="1")
            session.adopt(
                InitializeResult(protocol_version=version, capabilities=capabilities, server_info=server)
            )
        await session.list_tools()
        await session.call_tool(tool, arguments, allow_input_required=True, **more)
    [call] = [item for item in told if getattr(item.message, "method", "") == "tools/call"]
    wire = json.loads(call.message.model_dump_json(by_alias=True, exclude_unset=True))
    assert isinstance(call.metadata, ClientMessageMetadata)
    return wire, call.metadata.headers or {}


def _discovered(version: str) -> dict[str, Any]:
    return {
        "supportedVersions": [version],
        "capabilities": {},
        "serverInfo": {"name": "x", "version": "1"},
        "resultType": "complete",
        "ttlMs": 0,
        "cacheScope": "private",
    }


ARGUMENTS: list[tuple[str, dict[str, Any]]] = [
    ("plant", {"region": "eu", "plain": "x", "count": 3}),
    ("plant", {"region": "größer als", "other": {"deep": [1, None, True, 1.5]}, "nothing": None}),
    ("plant", {}),
    ("größe", {"text": '\u2028 \U0001f331 " \\ \n'}),
]


@pytest.mark.parametrize("version", [*HANDSHAKE_PROTOCOL_VERSIONS, LATEST_MODERN_VERSION])
@pytest.mark.parametrize(("tool", "arguments"), ARGUMENTS)
@pytest.mark.parametrize("progress", [False, True])
async def test_call_is_what_the_sdk_would_send(
    version: str, tool: str, arguments: dict[str, Any], progress: bool
) -> None:
    async def on_progress(*_: Any) -> None:
        pass

    expected, headers = await by_the_sdk(
        version, tool, arguments, progress_callback=on_progress if progress else None
    )
    way = Way()
    calls = ToolCalls(way, version)
    calls.set_tools([Tool("plant", "", SCHEMA, "x")])
    await calls.call(CallTool(tool, arguments, on_progress=(lambda _: None) if progress else None))
    [outgoing] = way.sent
    with Requests().open(outgoing) as request:
        ours = json.loads(request.body())
    token = {"progressToken": ours["id"]} if progress else {}
    if progress:
        assert expected["params"]["_meta"].pop("progressToken") == expected["id"]
    meta = expected["params"].pop("_meta", {}) | token
    assert ours.pop("id") != expected.pop("id")
    assert ours["params"].pop("_meta", {}) == meta
    assert ours == expected
    assert outgoing.headers == headers


async def test_answers_and_state_are_what_the_sdk_would_send() -> None:
    answers = {
        "a": ElicitationAnswer("accept", {"name": "Ada", "nick": None}),
        "b": ElicitationAnswer("decline"),
    }
    expected, _ = await by_the_sdk(
        LATEST_MODERN_VERSION,
        "plant",
        {},
        input_responses={
            "a": ElicitResult(action="accept", content={"name": "Ada", "nick": None}),
            "b": ElicitResult(action="decline"),
        },
        request_state="s",
    )
    way = Way()
    await ToolCalls(way, LATEST_MODERN_VERSION).call(CallTool("plant", {}, answers=answers, state="s"))
    assert way.sent[0].params == expected["params"]


async def test_argument_invalid_as_a_header_is_unsendable() -> None:
    way = Way()
    calls = ToolCalls(way, LATEST_MODERN_VERSION)
    calls.set_tools([Tool("plant", "", SCHEMA, "x")])
    with pytest.raises(Unsendable):
        await calls.call(CallTool("plant", {"region": "\ud800"}))
    assert way.sent == []


async def test_headers_follow_the_latest_list() -> None:
    way = Way()
    calls = ToolCalls(way, LATEST_MODERN_VERSION)
    for header in ("Region", "Zone"):
        schema = {"type": "object", "properties": {"region": {"type": "string", "x-mcp-header": header}}}
        calls.set_tools([Tool("plant", "", schema, "x")])
        await calls.call(CallTool("plant", {"region": "eu"}))
        assert [name for name in way.sent[-1].headers if header.lower() in name.lower()]


@pytest.mark.parametrize("version", [LATEST_HANDSHAKE_VERSION, LATEST_MODERN_VERSION])
async def test_input_required_is_ignored_from_older_servers(version: str) -> None:
    question = {"method": "elicitation/create", "params": {"mode": "url", "message": "m", "url": "u"}}
    question["params"]["elicitationId"] = "e"  # type: ignore[index]
    way = Way({"resultType": "input_required", "inputRequests": {"a": question}, "requestState": "s"})
    calls = ToolCalls(way, version)
    if version == LATEST_MODERN_VERSION:
        result = await calls.call(CallTool("plant", {}))
        assert isinstance(result, InputRequiredResult)
        assert result.request_state == "s"
    else:
        with pytest.raises(InvalidResult, match="it wants input"):
            await calls.call(CallTool("plant", {}))


async def test_result_without_a_type_is_complete() -> None:
    for version in (LATEST_HANDSHAKE_VERSION, LATEST_MODERN_VERSION):
        result = await ToolCalls(Way({"content": []}), version).call(CallTool("plant", {}))
        assert isinstance(result, ToolResult)


async def test_invalid_input_required_is_an_invalid_result() -> None:
    way = Way({"resultType": "input_required", "inputRequests": {"a": {"method": "elicitation/create"}}})
    with pytest.raises(InvalidResult, match="inputRequests"):
        await ToolCalls(way, LATEST_MODERN_VERSION).call(CallTool("plant", {}))


async def test_cancelled_call_is_not_sent() -> None:
    way = Way()
    with trio.CancelScope() as scope:
        scope.cancel()
        await ToolCalls(way, LATEST_MODERN_VERSION).call(CallTool("plant", {}))
    assert way.sent == []
