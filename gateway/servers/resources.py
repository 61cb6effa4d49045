"""The MCP server of `stopgo mcp-resources`: named values in SQLite."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping
from importlib.metadata import version
from typing import Any

import attrs
import trio

from ...actors.mcp.wire.sdk import Server, types
from .pattern import InvalidPattern, matching
from .resource_store import MAX_NAME, Resource, ResourceStore

SERVER_NAME = "mcp-resources"
INT64 = range(-(2**63), 2**63)

ADD = types.Tool(
    name="resources_add",
    description="Add a new resource with a name and value",
    input_schema={
        "type": "object",
        "properties": {
            "name": {"type": "string", "description": "The name of the resource"},
            "value": {"type": ["integer", "string"], "description": "The value of the resource"},
        },
        "required": ["name", "value"],
    },
    annotations=types.ToolAnnotations(
        read_only_hint=False, destructive_hint=True, idempotent_hint=False, open_world_hint=True
    ),
)
REMOVE = types.Tool(
    name="resources_remove",
    description="Remove resources by ID or by name pattern (regex)",
    input_schema={
        "type": "object",
        "properties": {
            "id": {"type": "string", "description": "The ID of the resource to remove"},
            "pattern": {
                "type": "string",
                "description": "A regex; every resource whose name it is found in is removed",
            },
        },
    },
    annotations=types.ToolAnnotations(read_only_hint=False, destructive_hint=True),
)
LIST = types.Tool(
    name="resources_list",
    description="List resources, optionally filtered by name pattern (regex)",
    input_schema={
        "type": "object",
        "properties": {
            "pattern": {"type": "string", "description": "A regex that is to be found in the name"}
        },
    },
    annotations=types.ToolAnnotations(read_only_hint=True),
)


class _BadArguments(Exception):
    """The arguments of a call are not valid; the text tells the caller why."""


def resource_server(store: ResourceStore) -> Server[Any]:
    """Make the server, for any transport."""
    calls = _Calls(store)
    return Server(
        SERVER_NAME,
        version=version("agent-stop-and-go"),
        on_list_tools=calls.on_list_tools,
        on_call_tool=calls.on_call_tool,
    )


@attrs.define(eq=False)
class _Calls:
    """Executes calls of the tools in threads, one at a time."""

    _store: ResourceStore
    _one_at_a_time: trio.CapacityLimiter = attrs.field(factory=lambda: trio.CapacityLimiter(1))

    async def on_list_tools(self, _context: object, _params: object) -> types.ListToolsResult:
        return types.ListToolsResult(tools=[ADD, REMOVE, LIST])

    async def on_call_tool(
        self, _context: object, params: types.CallToolRequestParams
    ) -> types.CallToolResult:
        arguments = params.arguments or {}
        try:
            match params.name:
                case ADD.name:
                    name, value = _name(arguments), _value(arguments)
                    added = await trio.to_thread.run_sync(
                        self._store.add, name, value, limiter=self._one_at_a_time
                    )
                    return _result(attrs.asdict(added))
                case REMOVE.name:
                    ids = await self._ids_to_remove(arguments)
                    removed = await trio.to_thread.run_sync(
                        self._store.remove, ids, limiter=self._one_at_a_time
                    )
                    return _result({"removed_count": len(removed), "removed_ids": removed or None})
                case LIST.name:
                    resources = await self._named(_text(arguments, "pattern"))
                    found = [attrs.asdict(resource) for resource in resources]
                    return _result({"resources": found or None, "count": len(found)})
                case unknown:
                    return _error(f"unknown tool: {unknown}")
        except (_BadArguments, InvalidPattern) as error:
            return _error(str(error))
        except sqlite3.Error as error:
            return _error(f"database error: {error}")

    async def _ids_to_remove(self, arguments: Mapping[str, Any]) -> list[str]:
        id, pattern = _text(arguments, "id"), _text(arguments, "pattern")
        if pattern is not None:
            # With both, only resources that match both are removed.
            return [resource.id for resource in await self._named(pattern) if id in (None, resource.id)]
        if id is None:
            raise _BadArguments("either id or pattern is required")
        return [id]

    async def _named(self, pattern: str | None) -> list[Resource]:
        resources = await trio.to_thread.run_sync(self._store.all, limiter=self._one_at_a_time)
        if pattern is None:
            return resources
        names = set(matching(pattern, {resource.name for resource in resources}))
        return [resource for resource in resources if resource.name in names]


def _text(arguments: Mapping[str, Any], key: str) -> str | None:
    """Return a text argument; None if it is absent or empty."""
    value = arguments.get(key)
    if value is None or value == "":
        return None
    if not isinstance(value, str):
        raise _BadArguments(f"{key} must be a string")
    return value


def _name(arguments: Mapping[str, Any]) -> str:
    name = _text(arguments, "name")
    if name is None:
        raise _BadArguments("name is required")
    if len(name) > MAX_NAME:
        raise _BadArguments(f"name must not be longer than {MAX_NAME} characters")
    return name


def _value(arguments: Mapping[str, Any]) -> int | str:
    value = arguments.get("value")
    match value:
        case None:
            raise _BadArguments("value is required")
        case bool():
            raise _BadArguments("value must be an integer or a string")
        case str():
            return value
        case int() | float() if value == value // 1:
            if int(value) not in INT64:
                raise _BadArguments("value must fit into 64 bits; give a larger number as a string")
            return int(value)
        case _:
            raise _BadArguments("value must be an integer or a string")


def _result(content: Mapping[str, Any]) -> types.CallToolResult:
    text = json.dumps(content, indent=2, ensure_ascii=False)
    return types.CallToolResult(content=[types.TextContent(type="text", text=text)])


def _error(text: str) -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(type="text", text=text)], is_error=True)
