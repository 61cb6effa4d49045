"""Which nodes may delegate to which agents, and the verdicts of rules on delegations."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from stopgo.actors.gate.gate import judge, offered, policy_scopes, root_scope
from stopgo.actors.run.offers import tool_offers
from stopgo.actors.tools.catalogue import catalogue
from stopgo.actors.tools.tool import Tool
from stopgo.config.load import load_config
from stopgo.config.sections.agent_config import AgentConfig
from tests.actors.world import llm, parallel, sequential

A2A = [
    {"name": "b", "url": "http://127.0.0.1:1/a2a", "description": "Adds."},
    {"name": "c", "url": "http://127.0.0.1:2/a2a", "destructiveHint": True},
]
OWN = {"name": "d", "url": "http://127.0.0.1:3/a2a"}


def config(folder: Path, agent: dict[str, Any] | None = None, **more: Any) -> AgentConfig:
    file = {"llm": {"model": "offline:rules"}, "a2a": A2A, **({"agent": agent} if agent else {}), **more}
    path = folder / "agent.yaml"
    path.write_text(yaml.safe_dump(file))
    return load_config(path)


def seen(loaded: AgentConfig) -> dict[str, list[str]]:
    """The agents that each node sees."""
    tools = catalogue(loaded, {}).tools
    return {
        node.name: [tool.name for tool in tools if offered(tool, scope)]
        for node, scope in policy_scopes(loaded.agent, root_scope(loaded))
    }


def test_agents_are_listed_as_tools(tmp_path: Path) -> None:
    loaded = config(tmp_path)
    b, c = catalogue(loaded, {}).agents
    assert (b.name, b.description) == ("a2a_b", "Delegate task to A2A agent 'b'. Adds.")
    assert (c.description, c.hints.destructive) == ("Delegate task to A2A agent 'c'.", True)
    assert (b.input_schema["required"], b.input_schema["properties"]["message"]["type"]) == (
        ["message"],
        "string",
    )
    [(_, policy_scope)] = policy_scopes(loaded.agent, root_scope(loaded))
    offer = tool_offers(catalogue(loaded, {})).at(policy_scope)
    assert [tool.name for tool in offer.tools] == ["a2a_b", "a2a_c"]
    assert offer.line == ""


@pytest.mark.parametrize(
    ("agent", "expected"),
    [
        (llm("all"), {"all": ["a2a_b", "a2a_c"]}),
        (llm("none", a2a=[]), {"none": []}),
        (
            sequential("s", llm("one", a2a=["c"]), llm("own", a2a=[OWN]), a2a=["b"]),
            {"s": ["a2a_b"], "one": ["a2a_c"], "own": ["a2a_d"]},
        ),
        (llm("filtered", tools=["a2a_c", "x*"]), {"filtered": ["a2a_c"]}),
        (llm("without servers", mcp_servers=[]), {"without servers": ["a2a_b", "a2a_c"]}),
        (
            sequential("s", llm("m"), {"type": "a2a", "name": "node", "url": OWN["url"]}),
            {"s": ["a2a_b", "a2a_c"], "m": ["a2a_b", "a2a_c"], "node": ["a2a_b", "a2a_c"]},
        ),
    ],
    ids=["top level", "none", "of nodes", "by name", "no servers", "a node's own"],
)
def test_agents_are_offered_by_node_settings(
    tmp_path: Path, agent: dict[str, Any], expected: dict[str, list[str]]
) -> None:
    assert seen(config(tmp_path, agent)) == expected


@pytest.mark.parametrize(
    ("rules", "agent", "verdicts"),
    [
        ([], llm("n"), {"b": "run", "c": "ask"}),
        ([], parallel("p", llm("n")), {"b": "run", "c": "run"}),
        ([{"server": "a2a:b", "then": "ask"}], llm("n"), {"b": "ask", "c": "ask"}),
        ([{"server": "a2a:*", "then": "run"}], llm("n"), {"b": "run", "c": "run"}),
        ([{"tool": "a2a_c", "then": "deny"}], llm("n"), {"b": "run", "c": "deny"}),
        (
            [{"tool": "a2a_b", "arguments": {"message": {"matches": "prod"}}, "then": "ask"}],
            llm("n"),
            {"b": "ask", "c": "ask"},
        ),
    ],
)
def test_rules_judge_delegations(
    tmp_path: Path, rules: list[Any], agent: dict[str, Any], verdicts: dict[str, str]
) -> None:
    loaded = config(tmp_path, agent, **({"approval": {"rules": rules}} if rules else {}))
    scope = next(scope for node, scope in policy_scopes(loaded.agent, root_scope(loaded)) if node.name == "n")
    tools: dict[str, Tool] = {tool.server.removeprefix("a2a:"): tool for tool in catalogue(loaded, {}).agents}
    arguments = {"message": "deploy to prod"}
    assert {name: judge(tool, arguments, scope).action for name, tool in tools.items()} == verdicts
