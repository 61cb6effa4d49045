"""The server facade: one tool for a whole server. It takes the name and the arguments of an inner tool.
Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import attrs

from .tool import Hints, Tool

MAX_SIGNATURES = 4000
"""Maximum length of the parameter lists in the description, in characters."""

_FORM = 'it takes {"tool": NAME, "arguments": {...}}'


@attrs.frozen
class Inner:
    """The inner call of a call of a server facade."""

    tool: str
    arguments: Mapping[str, Any]


class Malformed(Exception):
    """A call of a server facade without a valid inner call. The text is for the model."""


def facade_tool(name: str, server: str, tools: Sequence[Tool]) -> Tool:
    """Return the server facade for these tools."""
    names = [tool.own_name for tool in tools]
    arguments = {"type": "object", "description": f"Arguments of the tool. {_signatures(tools)}"}
    return Tool(
        name=name,
        description=f"MCP server ({name.removeprefix('mcp_')}). Available tools: {', '.join(names)}",
        input_schema={
            "type": "object",
            "properties": {"tool": {"type": "string", "enum": names}, "arguments": arguments},
            "required": ["tool"],
        },
        server=server,
        hints=Hints(
            read_only=all(tool.hints.read_only for tool in tools),
            destructive=any(tool.hints.destructive and not tool.hints.read_only for tool in tools),
        ),
    )


def unwrap(name: str, arguments: Mapping[str, Any]) -> Inner:
    """Return the inner call of a call of the facade `name`. Raises `Malformed`."""
    tool, inner = arguments.get("tool"), arguments.get("arguments")
    if not isinstance(tool, str) or not tool:
        raise Malformed(f'"{name}" needs the name of a tool; {_FORM}')
    if extra := sorted(arguments.keys() - {"tool", "arguments"}):
        raise Malformed(f'"{name}" does not know {", ".join(map(json.dumps, extra))}; {_FORM}')
    if inner is None:
        inner = {}
    if not isinstance(inner, Mapping):
        raise Malformed(f'the arguments of "{tool}" must be an object; {_FORM}')
    return Inner(tool, inner)


def wrapped(arguments: Mapping[str, Any], inner: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the arguments of a call of a facade, with the final arguments of its inner call."""
    return {**arguments, "arguments": inner}


def _signatures(tools: Sequence[Tool]) -> str:
    text = ""
    for tool in tools:
        said = f"{tool.own_name}({_parameters(tool.input_schema)}); "
        if len(text) + len(said) > MAX_SIGNATURES:
            return f"{text}..."
        text += said
    return text.removesuffix("; ")


def _parameters(schema: Mapping[str, Any]) -> str:
    properties, required = schema.get("properties"), schema.get("required")
    if not isinstance(properties, Mapping):
        return ""
    needed = required if isinstance(required, list) else []
    return ", ".join(name if name in needed else f"{name}?" for name in properties)
