"""The data of the page about the agent: its tree, parts and file, and why its tools run, ask or are
denied."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from importlib.metadata import version
from typing import Any

import attrs

from ...actors.agent.agent import Agent
from ...actors.agent.lists import ListedTool, callers
from ...actors.gate.gate import PolicyScope, depends_on_arguments, descend, judge, offered, root_scope
from ...actors.tools.catalogue import ToolGroup
from ...actors.tools.delegation import SERVER, is_remote
from ...actors.tools.tool import Tool
from ...config.sections.agent_config import AgentConfig
from ...config.sections.mcp import McpServerConfig
from ...config.sections.models import ModelSpec, UnknownModel, reachable_models, resolve_model
from ...config.sections.nodes import Node, RemoteAgentNode, children_of
from ..rest.views import timestamp, tool_view
from .agent_file import AgentFile, agent_file


async def agent_view(agent: Agent) -> dict[str, Any]:
    """JSON for `agent.js`."""
    config, file = agent.config, await agent_file(agent)
    return {
        "name": config.name,
        "description": config.description,
        "examples": list(config.examples),
        "version": version("agent-stop-and-go"),
        "public_url": config.server.public_url,
        "file": file.name,
        "file_changed": file.changed,
        "tree": _tree(config.agent, config),
        "tools": _Tools.of(agent, file).views(),
        "unapproved": len({each.key for each in agent.unapproved}),
        "warnings": list(agent.warnings),
        "servers": [_server(server, agent) for server in config.enabled_servers],
        "models": list(_models(config)),
        "config": file.text,
        "started_at": timestamp(agent.started),
    }


# ----------------------------------------------------------------------- tree


def _tree(node: Node, config: AgentConfig) -> dict[str, Any]:
    view: dict[str, Any] = {"name": node.name, "type": node.TYPE}
    if node.description:
        view["description"] = node.description
    if (model := getattr(node, "model", None)) is not None:
        view["model"] = model
    if isinstance(node, RemoteAgentNode):
        view["agent"] = node.remote
        view["url"] = next((each.as_written for each in config.remote_agents if each.name == node.remote), "")
    if children := children_of(node):
        view["children"] = [_tree(child, config) for child in children]
    return view


# ---------------------------------------------------------------------- tools


@attrs.frozen
class _Tools:
    """The tools in the order of the file, with the gate's verdicts."""

    listed: Sequence[ListedTool]
    inside: dict[str, ToolGroup]
    """Servers behind a server facade, by the facade's name."""
    root: PolicyScope
    callers: Sequence[PolicyScope] | None
    """The policy scopes of the nodes that call tools; None: omit their verdicts."""
    file: AgentFile

    @classmethod
    def of(cls, agent: Agent, file: AgentFile) -> _Tools:
        config, catalogue = agent.config, agent.catalogue
        groups = {group.facade: group for group in catalogue.groups if group.facade is not None}
        root = descend(root_scope(config), config.agent)
        return cls(agent.tools(), groups, root, callers(config, len(catalogue.tools)), file)

    def views(self) -> list[dict[str, Any]]:
        return [self._view(each) for each in self.listed]

    def _view(self, listed: ListedTool) -> dict[str, Any]:
        tool = listed.tool
        view = {**tool_view(listed).to_json(), "openWorldHint": tool.hints.open_world}
        if is_remote(tool.server):
            view["agent"] = tool.server.removeprefix(SERVER)
        if (group := self.inside.get(tool.name)) is not None:
            inside = [
                {
                    **tool_view(ListedTool(each, judge(each, {}, self.root).action)).to_json(),
                    **self._why(each),
                }
                for each in group.tools
            ]
            reason = {"rule": None, "reason": "as its tools say"}
            nodes = [{"node": node, "policy": policy, **reason} for node, policy in listed.nodes or ()]
            return {**view, **reason, "effect": None, "inside": inside, "nodes": nodes or None}
        return {**view, **self._why(tool)}

    def _why(self, tool: Tool) -> dict[str, Any]:
        return {
            **self._verdict(tool, self.root),
            "effect": tool.hints.effect,
            "nodes": None
            if self.callers is None
            else [
                {"node": policy_scope.node, **self._verdict(tool, policy_scope)}
                for policy_scope in self.callers
                if offered(tool, policy_scope)
            ],
        }

    def _verdict(self, tool: Tool, policy_scope: PolicyScope) -> dict[str, Any]:
        verdict = judge(tool, {}, policy_scope)
        return {
            "policy": verdict.action,
            "reason": verdict.rule,
            "rule": self.file.rule(verdict.rule),
            "depends_on_arguments": depends_on_arguments(tool, policy_scope),
        }


# ---------------------------------------------------------------------- parts


def _server(server: McpServerConfig, agent: Agent) -> dict[str, Any]:
    group = next((each for each in agent.catalogue.groups if each.server.name == server.name), None)
    return {
        "name": server.name,
        "transport": server.first_transport,
        "where": server.as_written,
        "max_concurrency": server.max_concurrency,
        "required": server.required,
        "tools": None if group is None else len(group.tools),
    }


def _models(config: AgentConfig) -> Iterator[dict[str, Any]]:
    for name in dict.fromkeys(reachable_models(config.agent, config.llm, config.models)):
        try:
            model = resolve_model(name, config.llm, config.models)
        except UnknownModel:  # the embedding program provides it
            provider, _, own_name = name.partition(":")
            yield {"name": name, "provider": provider, "model": own_name}
        else:
            yield _model(model)


def _model(model: ModelSpec) -> dict[str, Any]:
    view: dict[str, Any] = {"name": model.name, "provider": model.provider, "model": model.model}
    if model.prices is not None:
        view["prices"] = attrs.asdict(model.prices)
    return view
