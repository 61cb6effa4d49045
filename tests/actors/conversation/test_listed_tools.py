"""The verdicts with which tools are listed: at the root, and in each node that may use them."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import pytest

from stopgo.actors.agent import lists
from stopgo.actors.agent.lists import callers, listed_tools
from stopgo.actors.gate.gate import descend, root_scope
from stopgo.actors.tools.catalogue import ToolGroup
from stopgo.actors.tools.tool import Hints, Tool
from stopgo.config.load import load_config
from stopgo.config.sections.mcp import McpServerConfig

TREE = """
mcp_servers: {s: {command: c}}
agent:
  type: sequential
  name: root
  agents:
    - {type: llm, name: plan, prompt: p}
    - type: parallel
      name: prepare
      agents:
        - {type: llm, name: write, prompt: p}
        - {type: llm, name: look, prompt: p, tools: [look]}
        - {type: llm, name: think, prompt: p, tools: []}
"""
TOOLS = tuple(
    Tool(name, "", {}, "s", hints=hints)
    for name, hints in (("wipe", Hints(destructive=True)), ("odd", Hints()), ("look", Hints(read_only=True)))
)


def listed(folder: Path, text: str, expose: Literal["tools", "server"] = "tools") -> dict[str, Any]:
    path = folder / "agent.yaml"
    path.write_text(text)
    config = load_config(path, environ={})
    group = ToolGroup(McpServerConfig(name="s", command="c", expose=expose), TOOLS)
    scope = descend(root_scope(config), config.agent)
    tools = listed_tools(group, scope, callers(config, len(TOOLS)))
    return {each.tool.name: (each.policy, None if each.nodes is None else dict(each.nodes)) for each in tools}


def test_each_node_has_the_verdict_that_its_calls_get(tmp_path: Path) -> None:
    assert listed(tmp_path, TREE) == {
        "wipe": ("ask", {"plan": "ask", "write": "run"}),
        "odd": ("run", {"plan": "run", "write": "run"}),
        "look": ("run", {"plan": "run", "write": "run", "look": "run"}),
    }
    assert listed(tmp_path, f"approval: {{defaults: strict}}{TREE}") == {
        "wipe": ("ask", {"plan": "ask", "write": "ask"}),
        "odd": ("ask", {"plan": "ask", "write": "ask"}),
        "look": ("run", {"plan": "run", "write": "run", "look": "run"}),
    }


def test_a_facade_has_the_verdict_of_the_tools_that_a_node_may_use(tmp_path: Path) -> None:
    nodes = {"plan": "ask", "write": "run", "look": "run"}
    assert listed(tmp_path, TREE, "server") == {"mcp_s": ("ask", nodes)}


def test_without_a_tree_or_with_too_many_verdicts_there_are_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert listed(tmp_path, "mcp_servers: {s: {command: c}}")["wipe"] == ("ask", None)
    monkeypatch.setattr(lists, "MOST_EVALUATIONS", 11)
    assert listed(tmp_path, TREE)["wipe"] == ("ask", None)
    monkeypatch.setattr(lists, "MOST_EVALUATIONS", 12)
    assert listed(tmp_path, TREE)["wipe"] != ("ask", None)
