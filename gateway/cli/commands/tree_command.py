"""`stopgo tree`: the nodes of an agent, with their tools, limits and approvals."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..process.options import add_config_option, agent_config

if TYPE_CHECKING:
    from ....actors.gate.gate import PolicyScope
    from ....actors.tools.tool import Tool
    from ....config.sections.agent_config import AgentConfig
    from ....config.sections.approval import ApprovalConfig, Condition
    from ....config.sections.nodes import Node


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `tree` to the command line."""
    tree = subparsers.add_parser(
        "tree",
        help="print the tree of nodes of an agent file",
        description="Prints the nodes of an agent: what each may use, its limits, and which tools ask. Reads "
        "the card of each remote agent, and prints whether the agent was reached.",
    )
    add_config_option(tree)
    tree.add_argument("--offline", action="store_true", help="do not contact remote agents")
    tree.set_defaults(run=print_tree)


def print_tree(args: argparse.Namespace) -> int:
    """Print the tree. Raises ConfigError."""
    config = agent_config(args)
    for warning in config.warnings:
        print(f"stopgo tree: warning: {warning}", file=sys.stderr)
    contacts: Mapping[str, str] = {}
    if config.remote_agents and not args.offline:
        from ..client.agent_contacts import contacts as read_cards

        contacts = read_cards(config.remote_agents)
    for line in tree_lines(config, contacts):
        print(line)
    return 0


def tree_lines(config: AgentConfig, contacts: Mapping[str, str]) -> Iterator[str]:
    """The lines of the output. `contacts`: whether agents were reached, by name."""
    from ....actors.gate.gate import root_scope
    from ....actors.tools.catalogue import catalogue

    yield f"{config.name} ({config.source})"
    servers = ", ".join(server.name for server in config.enabled_servers)
    yield f"  servers: {servers or 'none'}"
    yield from _agent_lines(config, contacts)
    if limits := _settings(config.limits):
        yield f"  limits: {limits}"
    policy_scope = root_scope(config)
    for rule in _rules(policy_scope.policy):
        yield f"  {rule}"
    if expiry := _expiry(policy_scope.policy):
        yield f"  {expiry}"
    yield ""
    yield from _node_lines(config.agent, policy_scope, catalogue(config, {}).agents, "", "")


def _agent_lines(config: AgentConfig, contacts: Mapping[str, str]) -> Iterator[str]:
    from ..terminal.terminal import printable

    if config.remote_agents:
        yield f"  agents: {', '.join(agent.name for agent in config.remote_agents)}"
    for agent in config.remote_agents:
        contact = f": {contacts[agent.name]}" if agent.name in contacts else ""
        yield printable(f"    {agent.name} at {agent.as_written}{contact}")


def _node_lines(
    node: Node, above: PolicyScope, agents: Sequence[Tool], first: str, rest: str
) -> Iterator[str]:
    """A node and the nodes below it. `agents` are the tools that delegate; `first` is the prefix of the line
    with the node's name, `rest` that of the other lines."""
    from ....actors.gate.gate import child_scope, descend
    from ....config.sections.nodes import children_of

    children = children_of(node)
    yield f"{first}{node.name}  [{node.TYPE}]{_model(node)}"
    margin = f"{rest}{'│  ' if children else '   '}"
    for line in _facts(node, descend(above, node), agents):
        yield f"{margin}{line}"
    for index, child in enumerate(children):
        last = index == len(children) - 1
        corner, beside = ("└─ ", "   ") if last else ("├─ ", "│  ")
        policy_scope = child_scope(above, node)
        yield from _node_lines(child, policy_scope, agents, f"{rest}{corner}", f"{rest}{beside}")


def _model(node: Node) -> str:
    model = getattr(node, "model", None)
    return f"  {model}" if model else ""


def _condition(condition: Condition) -> str:
    """The keys of a condition, with their values as JSON."""
    import attrs

    from ....actors.approvals.description import shortened

    keys = attrs.asdict(condition, filter=lambda _, value: value is not None).items()
    return " and ".join(
        f"{name} {shortened(json.dumps(value, ensure_ascii=False), 80)}" for name, value in keys
    )


def _facts(node: Node, policy_scope: PolicyScope, agents: Sequence[Tool]) -> Iterator[str]:
    """The lines below a node's name."""
    if settings := _settings(node):
        yield settings
    yield from _facts_of_kind(node, policy_scope, agents)
    if node.approval is not None:
        own = len(node.approval.rules or ())
        yield from _rules(policy_scope.policy)[:own]
        says = node.approval.expires_after is not None or node.approval.on_expiry is not None
        if says and (expiry := _expiry(policy_scope.policy)):
            yield expiry


def _facts_of_kind(node: Node, policy_scope: PolicyScope, agents: Sequence[Tool]) -> Iterator[str]:
    from ....actors.gate.gate import offered
    from ....config.sections.a2a import remote_id
    from ....config.sections.nodes import CheckpointNode, LlmNode, RemoteAgentNode, RouterNode

    match node:
        case RouterNode():
            for route in node.routes or ():
                conditions = (f"{name} {_condition(each)}" for name, each in route.when.items())
                yield f"when {' and '.join(conditions)}: {route.agent}"
        case LlmNode():
            delegating = [tool for tool in agents if offered(tool, policy_scope)]
            none = "no tools of servers" if delegating else "no tools"
            yield none if () in (policy_scope.servers, policy_scope.tools) else _asks(policy_scope)
            for tool in delegating:
                yield f"may delegate with {tool.name}: {_verdict(tool, policy_scope)}"
        case CheckpointNode():
            yield "asks a person"
        case RemoteAgentNode():
            for tool in agents:
                if tool.server == remote_id(node.remote):
                    yield f"delegates to {node.remote}: {_verdict(tool, policy_scope)}"


_ELSEWHERE = (
    "name",
    "description",
    "prompt",
    "message",
    "model",
    "agents",
    "routes",
    "approval",
    "agent",
    "url",
)
"""Keys of nodes that are shown elsewhere, or are too long to show."""
_ALWAYS = ("max_turns", "max_iterations")


def _settings(section: Any) -> str:
    """The settings of a section that differ from their defaults, and some limits in any case."""
    import attrs

    parts = []
    for field in attrs.fields(type(section)):
        value = getattr(section, field.name)
        if field.name in _ELSEWHERE or value is None:
            continue
        if value != field.default or field.name in _ALWAYS:
            parts.append(f"{field.name}: {_shown(field.name, value)}")
    return "; ".join(parts)


def _shown(name: str, value: Any) -> str:
    from ....config.sections.agent_config import UsageLimits

    match value:
        case tuple():
            return ", ".join(each if isinstance(each, str) else each.name for each in value) or "none"
        case bool():
            return "yes" if value else "no"
        case float():
            return f"{value:.12g} s" if name == "timeout" else f"{value:.12g}"
        case UsageLimits():
            return f"({_settings(value)})"
        case _:
            return str(value)


def _verdict(tool: Tool, policy_scope: PolicyScope) -> str:
    """The verdict on a call of an agent at this node, as far as it does not depend on the message."""
    from ....actors.gate.gate import depends_on_arguments, judge

    verdict = judge(tool, {}, policy_scope)
    depends = depends_on_arguments(tool, policy_scope)
    but = "; a rule about its message may decide otherwise" if depends else ""
    return f"{verdict.action} ({verdict.rule}){but}"


def _asks(policy_scope: PolicyScope) -> str:
    """Describe the treatment of calls that no rule matches."""
    from ....actors.gate.gate import by_hints
    from ....actors.tools.tool import Hints, Tool

    verdicts = []
    for kind, hints in (("destructive", Hints(destructive=True)), ("unannotated", Hints())):
        verdict = by_hints(Tool("", "", {}, "", hints=hints), policy_scope)
        relaxed = verdict.action == "run" and "in_" in verdict.rule
        verdicts.append(f"{kind} tools {verdict.action}" + (f" ({verdict.rule})" if relaxed else ""))
    return ", ".join(verdicts)


def _rules(policy: ApprovalConfig) -> list[str]:
    from ....actors.gate.gate import rule_text

    return [rule_text(rule) for rule in policy.rules]


def _expiry(policy: ApprovalConfig) -> str:
    if policy.expires_after is None:
        return ""
    outcome = {"reject": "counts as rejected", "fail": "fails the run"}[policy.on_expiry]
    return f"an approval without an answer for {policy.expires_after:.12g} s {outcome}"
