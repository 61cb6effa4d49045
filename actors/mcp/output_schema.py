"""Whether results are what their tools say they are (MCP 2025-11-25, "Output Schema")."""

from __future__ import annotations

import logging
from collections.abc import Iterable

import attrs

from ..tools.json_schema import Checker, TooMuchWork, Uncheckable, Work
from ..tools.tool import Tool, ToolResult

TOLD = 3
"""Mistakes that are told of one result."""


class Outputs:
    """The output schemas of one server's tools. A call has happened, whatever its result looks like: so what
    does not fit is told, and nothing is withheld. Nor does a result, which is on its way to disk, wait for a
    schema that takes long to apply."""

    def __init__(self) -> None:
        self._tools: dict[str, Tool] = {}
        self._checkers: dict[str, Checker] = {}

    def listed(self, tools: Iterable[Tool]) -> None:
        """Take note of what the server lists."""
        self._tools = {tool.name: tool for tool in tools if tool.output_schema is not None}
        self._checkers = {}

    def judged(self, name: str, result: ToolResult) -> ToolResult:
        """The result; one that does not fit the tool's schema says so, to the model and in the log."""
        tool = self._tools.get(name)
        if tool is None or result.is_error:
            return result
        try:
            mistakes = self._mistakes(tool, result)
        except (Uncheckable, TooMuchWork):
            del self._tools[name]  # the next one would be as much in vain
            return result
        if not mistakes:
            return result
        # Without the mistakes, which may quote what is nobody's business there.
        log = logging.getLogger(f"stopgo.mcp.{tool.server}")
        log.warning('a result of the tool "%s" does not fit its output schema', name)
        text = f"this result does not fit the output schema of its tool: {'; '.join(mistakes[:TOLD])}"
        return attrs.evolve(result, content=f"[Note: {text}]\n{result.content}")

    def _mistakes(self, tool: Tool, result: ToolResult) -> list[str]:
        if result.structured is None:
            return ["it has no structured content"]
        assert tool.output_schema is not None
        if tool.name not in self._checkers:
            self._checkers[tool.name] = Checker(tool.output_schema)
        return self._checkers[tool.name].mistakes(result.structured, Work())
