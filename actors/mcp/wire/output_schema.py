"""Checks results against the output schemas of their tools (MCP 2025-11-25, "Output Schema")."""

from __future__ import annotations

import logging
from collections.abc import Iterable

import attrs

from ...arguments.json_schema import Checker, TooMuchWork, Uncheckable, Work
from ...tools.tool import Tool, ToolResult

MAX_MISTAKES = 3
"""Mistakes that are reported for one result."""


class OutputSchemas:
    """The output schemas of one server's tools.

    A result that does not fit, or whose check takes too long, is passed on with a note, because the call has
    happened, and the result must be saved soon. A schema that cannot be applied counts as none.
    """

    def __init__(self) -> None:
        self._tools: dict[str, Tool] = {}
        self._checkers: dict[str, Checker] = {}

    def set_tools(self, tools: Iterable[Tool]) -> None:
        """Set the tools that the server lists."""
        self._tools = {tool.name: tool for tool in tools if tool.output_schema is not None}
        self._checkers = {}

    def checked(self, name: str, result: ToolResult) -> ToolResult:
        """Return the result; if it does not fit the schema, add a note for the model and log a warning."""
        tool = self._tools.get(name)
        if tool is None or result.is_error:
            return result
        try:
            mistakes = self._mistakes(tool, result)
        except TooMuchWork:
            return _noted(result, "checking this result against the output schema of its tool takes too long")
        except Uncheckable:
            return result
        if not mistakes:
            return result
        # Without the mistakes, because they may quote data that does not belong into a log.
        log = logging.getLogger(f"stopgo.mcp.{tool.server}")
        log.warning('a result of the tool "%s" does not fit its output schema', name)
        text = f"this result does not fit the output schema of its tool: {'; '.join(mistakes[:MAX_MISTAKES])}"
        return _noted(result, text)

    def _mistakes(self, tool: Tool, result: ToolResult) -> list[str]:
        if result.structured is None:
            return ["it has no structured content"]
        assert tool.output_schema is not None
        if tool.name not in self._checkers:
            self._checkers[tool.name] = Checker(tool.output_schema)
        return self._checkers[tool.name].mistakes(result.structured, Work())


def _noted(result: ToolResult, text: str) -> ToolResult:
    return attrs.evolve(result, content=f"[Note: {text}]\n{result.content}")
