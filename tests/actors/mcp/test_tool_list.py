"""Lists of tools, page by page."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any, cast

import mcp_types as types
import pytest
from mcp import MCPError

from stopgo.actors.mcp import tool_list
from stopgo.actors.mcp.session import Link, SessionDialect, Transport, client
from stopgo.actors.mcp.tool_list import list_tools
from stopgo.actors.mcp.transports.in_flight import InFlightCalls
from stopgo.config.sections.mcp import McpServerConfig, ToolFilter

LOG = logging.getLogger("test")
EVERYTHING = ToolFilter()


def listed(name: str, description: str = "", **more: Any) -> types.Tool:
    return types.Tool(name=name, description=description, input_schema={"type": "object"}, **more)


left_out: list[str] = []
"""The tools that the last list left out, with the reasons."""


async def tools_of(
    pages: Mapping[str | None, tuple[list[types.Tool], str | None]], filter: ToolFilter = EVERYTHING
) -> list[tuple[str, str]]:
    """List a server with these pages and cursors; calls must see the same tools."""

    async def list_page(cursor: str | None = None) -> types.ListToolsResult:
        tools, following = pages[cursor]
        return types.ListToolsResult(tools=tools, next_cursor=following)

    left_out.clear()
    known: list[Any] = []
    link = Link(InFlightCalls(LOG))
    declared = types.ServerCapabilities(tools=types.ToolsCapability())
    link.client = cast(Any, SimpleNamespace(list_tools=list_page, server_capabilities=declared))
    link.tool_calls = cast(Any, SimpleNamespace(set_tools=known.extend))
    config = McpServerConfig(name="web", url="http://server.test/mcp", tools=filter)
    tools = await list_tools(link, config, LOG)
    left_out.extend(link.left_out)
    assert tuple(known) == tools
    return [(tool.name, tool.description) for tool in tools]


async def test_all_pages_are_read() -> None:
    pages = {None: ([listed("a")], "1"), "1": ([listed("b")], "2"), "2": ([listed("c")], None)}
    assert [name for name, _ in await tools_of(pages)] == ["a", "b", "c"]


async def test_first_of_two_tools_with_one_name_counts(caplog: pytest.LogCaptureFixture) -> None:
    pages = {None: ([listed("a", "first"), listed("a", "second")], "1"), "1": ([listed("a", "third")], None)}
    assert await tools_of(pages) == [("a", "first")]
    assert 'lists the tool "a" twice' in caplog.text


async def test_tool_that_requires_tasks_is_left_out() -> None:
    ways = {
        way: listed(way, execution=types.ToolExecution(task_support=way)) for way in ("optional", "required")
    }
    assert await tools_of({None: (list(ways.values()), None)}) == [("optional", "")]


async def test_number_of_pages_is_bounded(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(tool_list, "MAX_PAGES", 3)
    pages = {str(n) if n else None: ([listed(f"t{n}")], str(n + 1)) for n in range(10)}
    assert [name for name, _ in await tools_of(pages)] == ["t0", "t1", "t2"]
    assert "more than 3 pages" in caplog.text


@pytest.mark.parametrize(
    ("bounds", "filter", "left"),
    [
        ({"MAX_TOOLS": 2}, EVERYTHING, ["a", "b"]),
        ({"MAX_TOOLS": 2}, ToolFilter(exclude=("a",)), ["b", "c"]),
        ({"MAX_TOOLS": 2}, ToolFilter(include=("d",)), ["a", "d"]),
        ({"MAX_DEFINITIONS": 2 * 1100}, EVERYTHING, ["a", "b"]),
        ({"MAX_DEFINITIONS": 2 * 1100}, ToolFilter(include=("c", "d")), ["c", "d"]),
        ({"MAX_TOOLS": 4, "MAX_DEFINITIONS": 4 * 1100}, EVERYTHING, ["a", "b", "c", "d"]),
    ],
)
async def test_tools_over_the_limits_are_left_out(
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    bounds: Mapping[str, int],
    filter: ToolFilter,
    left: list[str],
) -> None:
    """Tools that the agent does not use are left out first."""
    for name, value in bounds.items():
        monkeypatch.setattr(tool_list, name, value)
    a, b, c, d = (listed(name, "x" * 1000) for name in "abcd")
    assert [name for name, _ in await tools_of({None: ([a, b], "1"), "1": ([c, d], None)}, filter)] == left
    others = [name for name in "abcd" if name not in left]
    assert [text.rpartition(": ")[2] for text in left_out] == ([", ".join(others)] if others else [])
    assert ("left out of its tools" in caplog.text) == bool(others)


async def test_repeated_cursor_ends_the_list(caplog: pytest.LogCaptureFixture) -> None:
    pages = {None: ([listed("a")], "1"), "1": ([listed("b")], "1")}
    assert [name for name, _ in await tools_of(pages)] == ["a", "b"]
    assert caplog.text == ""


async def test_empty_cursor_ends_the_list() -> None:
    assert await tools_of({None: ([listed("a")], "")}) == [("a", "")]


async def test_tool_lists_are_not_cached() -> None:
    """The SDK would reuse an older list for as long as the server allows (SEP-2549)."""
    way = Transport(cast(Any, None), cast(Any, None))
    config = McpServerConfig(name="web", url="http://server.test/mcp")
    assert client(config, SessionDialect.first(config), way, Link(InFlightCalls(LOG)), LOG).cache is None


@pytest.mark.parametrize(
    ("declared", "answer", "asked", "found"),
    [
        ({"prompts": {}, "resources": {}}, -32601, 0, []),
        ({"prompts": {}}, 0, 0, []),
        ({}, -32601, 1, []),
        ({}, 0, 1, ["a"]),  # it forgot to declare them
        ({"tools": {}}, -32601, 1, []),
        ({"tools": {}}, 0, 1, ["a"]),
    ],
)
async def test_server_is_asked_only_for_declared_tools(
    caplog: pytest.LogCaptureFixture, declared: dict[str, Any], answer: int, asked: int, found: list[str]
) -> None:
    """MCP 2025-11-25, "Capability Negotiation"."""
    times: list[None] = []

    async def list_page(cursor: str | None = None) -> types.ListToolsResult:
        times.append(None)
        if answer:
            raise MCPError(answer, "Method not found")
        return types.ListToolsResult(tools=[listed("a")])

    link = Link(InFlightCalls(LOG))
    capabilities = types.ServerCapabilities.model_validate(declared)
    link.client = cast(Any, SimpleNamespace(list_tools=list_page, server_capabilities=capabilities))
    link.tool_calls = cast(Any, SimpleNamespace(set_tools=lambda tools: None))
    config = McpServerConfig(name="web", url="http://server.test/mcp")
    assert [tool.name for tool in await list_tools(link, config, LOG)] == found
    assert len(times) == asked
    assert link.left_out == ([] if found else ["it offers no tools"])
    assert ('the server "web" offers no tools' in caplog.text) == (not found)


async def test_other_refusal_of_the_list_is_an_error() -> None:
    async def list_page(cursor: str | None = None) -> types.ListToolsResult:
        raise MCPError(-32603, "the database is locked")

    link = Link(InFlightCalls(LOG))
    declared = types.ServerCapabilities(tools=types.ToolsCapability())
    link.client = cast(Any, SimpleNamespace(list_tools=list_page, server_capabilities=declared))
    with pytest.raises(MCPError, match="the database is locked"):
        await list_tools(link, McpServerConfig(name="web", url="http://server.test/mcp"), LOG)
