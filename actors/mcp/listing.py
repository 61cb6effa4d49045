"""What a server lists, page by page, with one malformed tool not losing the others.

The SDK validates a page of `tools/list` as a whole, as it does every result, and offers no way to see
it before that, so they are repaired on their way in, between the transport and the SDK.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TYPE_CHECKING, Any

from stopgo.actors.mcp.content import repair_listing, tool_from_wire, validation_text
from stopgo.actors.mcp.sifted import SiftedReads
from stopgo.actors.tools.tool import Tool

if TYPE_CHECKING:
    from mcp.client._transport import TransportStreams
    from mcp.shared.message import SessionMessage

    from stopgo.actors.mcp.link import Link

MAX_PAGES = 100
"""Pages of `tools/list` that are read."""


async def list_tools(link: Link, server: str, log: logging.Logger) -> tuple[Tool, ...]:
    """Every tool the server lists that can be called, each name once."""
    tools: dict[str, Tool] = {}
    cursors: set[str | None] = {None}
    cursor: str | None = None
    for _ in range(MAX_PAGES):
        page = await link.client.list_tools(cursor=cursor)
        for tool in page.tools:
            if tool.name in tools:
                log.warning('lists the tool "%s" twice; the first one counts', tool.name)
            elif tool.execution is not None and tool.execution.task_support == "required":
                log.info('left out the tool "%s": it can only be called as a task', tool.name)
            else:
                tools[tool.name] = tool_from_wire(tool, server)
        cursor = page.next_cursor or None  # some servers have an empty one where there is no more
        if cursor in cursors:
            break
        cursors.add(cursor)
    else:
        log.warning("lists more than %d pages of tools; the rest is left out", MAX_PAGES)
    link.tool_calls.listed(tools.values())
    return tuple(tools.values())


@asynccontextmanager
async def repaired(
    transport: AbstractAsyncContextManager[TransportStreams],
    protocol_version: Callable[[], str | None],
    log: logging.Logger,
) -> AsyncIterator[TransportStreams]:
    """The transport, with malformed tools dropped and logged.

    A result that does not say its type, which newer servers must, is taken for a complete one.
    """
    from mcp_types.version import MODERN_PROTOCOL_VERSIONS

    def repair(item: SessionMessage | Exception) -> bool:
        version = protocol_version()
        result = getattr(getattr(item, "message", None), "result", None)
        if version is None or not isinstance(result, dict):
            return True
        if version in MODERN_PROTOCOL_VERSIONS:
            result.setdefault("resultType", "complete")
        if "tools" in result:
            for problem in repair_listing(result, _tool_problem(result, version)):
                log.warning("left out a malformed tool: %s", problem)
        return True

    async with transport as (reads, writes):
        yield SiftedReads(reads, repair), writes


def _tool_problem(page: Mapping[str, Any], version: str) -> Callable[[Mapping[str, Any]], str | None]:
    """Judge a tool as the SDK is going to: on a page like this one, by the negotiated version."""
    from mcp_types.methods import parse_server_result
    from pydantic import ValidationError

    def problem_with(tool: Mapping[str, Any]) -> str | None:
        try:
            parse_server_result("tools/list", version, {**page, "tools": [tool]})
        except ValidationError as error:
            return validation_text(error, skip=len(("tools", 0)))
        return None

    return problem_with
