"""Keys that other MCP clients have in the entry of a server, and that the agent file does not have. Pure.

The keys are those of public documentation: Claude Code (code.claude.com/docs/en/mcp), Cline
(docs.cline.bot/mcp), Copilot CLI and VS Code (code.visualstudio.com/docs), Gemini CLI
(geminicli.com/docs/tools/mcp-server), Kiro (kiro.dev/docs/mcp/configuration) and Roo Code.
"""

from __future__ import annotations

from ..described.wording import run_rule
from ..sections.mcp import McpServerConfig
from ..text.values import Scalar, Table, Value, items, plain

APPROVALS = ("autoApprove", "alwaysAllow", "trust")
"""Keys that let tools run without a person."""
_ADVICE = {
    "disabledTools": "write tools: {exclude: [...]}",
    "excludeTools": "write tools: {exclude: [...]}",
    "enabledTools": "write tools: {include: [...]}",
    "includeTools": "write tools: {include: [...]}",
    "httpUrl": "write url, and transport: http",
    "transportType": "write transport",
}


def says_nothing(cls: type, name: str, value: Value) -> bool:
    """Whether this key of another client has a value without effect, such as `autoApprove: []`."""
    known = cls is McpServerConfig and name in APPROVALS
    return known and not plain(value)


def advice(cls: type, name: str, section: Table) -> str | None:
    """What to write instead of a key of another client; None if no client has the key in this section."""
    if cls is not McpServerConfig or name not in APPROVALS:
        return _ADVICE.get(name) if cls is McpServerConfig else None
    server = section.entries.get("name")
    tools = tools_in(section.entries[name])
    rule = run_rule(str(server.value) if isinstance(server, Scalar) else "*", *tools[:1])
    return f"a rule lets calls run without a person: approval: {{rules: [{rule}]}}"


def tools_in(value: Value) -> tuple[str, ...]:
    """The names in a list of tools."""
    return tuple(str(item.value) for item in items(value) if isinstance(item, Scalar))
