"""Names of servers, agents and nodes that the agent file refers to and that do not exist. Pure.

Messages quote the file, never the value of a variable.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, TypeAlias

import attrs

from ..described.wording import nearest
from ..sections.a2a import remote_id
from ..sections.agent_config import AgentConfig
from ..sections.approval import Rule
from ..sections.nodes import RemoteAgentNode
from ..sections.placeholders import Placed, name_in_file, placed_nodes, with_those_below
from ..text.values import KeyPath, Mark, Scalar, Table, Value, entry, items, mark_of, placed, quoted
from ..text.wildcards import has_wildcards, is_named
from .delegates import delegates

NamedAt: TypeAlias = tuple[str, str]
"""A name, and its text in the file."""
PlacedRule: TypeAlias = tuple[Rule, Value, KeyPath]
"""A rule, its value in the file, and its path."""

NameKind: TypeAlias = Literal["server", "node", "agent"]

_SILENT = "only llm and a2a nodes make calls, and this node is neither"
_NO_ENTRY = "add it to the top-level a2a, or give its url here"
_ITS_OWN = "for the calls of all nodes below it, move the rule into the approval of that node"


@attrs.frozen
class UnknownName:
    kind: NameKind
    message: str
    hint: str | None
    """The most similar name, as a question."""
    mark: Mark | None
    path: KeyPath
    is_mistake: bool
    """A misspelling here lets calls pass, or hides tools, against the intention."""


def unknown_names(config: AgentConfig, written: Table) -> Iterator[UnknownName]:
    """Unknown names in nodes and rules; `written` is the file of `config`, with both sections as lists."""
    servers = _servers(config, written)
    names = {name for name, _ in servers}
    for node, at, path in placed_nodes(config, written):
        for server, value, place in placed(node.mcp_servers or (), at, path, "mcp_servers"):
            if server not in names:
                yield _unknown("server", value, place, servers, is_mistake=True)
        yield from _unknown_agents(config, written, (node, at, path))
    callees = [*servers, *_agent_ids(config, written)]
    yield from _unknown_receivers(config, written, callees)
    for rules, below in rule_lists(config, written):
        named = [(node.name, name_in_file(at)) for node, at, _ in below if node.KIND.calls]
        silent = {node.name for node, _, _ in below if not node.KIND.calls}
        known: dict[NameKind, list[NamedAt]] = {"server": callees, "node": named}
        for rule, at, path in rules:
            patterns: dict[NameKind, str | None] = {"server": rule.server, "node": rule.node}
            for kind, pattern in patterns.items():
                if pattern is None or rule.optional:
                    continue
                is_mistake = rule.restricts and not has_wildcards(pattern)
                if any(is_named(name, pattern) for name, _ in known[kind]):
                    continue
                found = _unknown(kind, entry(at, kind), (*path, kind), known[kind], is_mistake=is_mistake)
                if kind == "node" and pattern in silent:
                    found = attrs.evolve(found, message=_SILENT, hint=_ITS_OWN)
                yield found


def _unknown_receivers(config: AgentConfig, written: Table, callees: list[NamedAt]) -> Iterator[UnknownName]:
    """Unknown servers and agents in `auth.forward_credential`."""
    names = {name for name, _ in callees}
    given = () if config.auth is None else config.auth.forward_credential
    for name, value, path in placed(given, entry(written, "auth"), ("auth",), "forward_credential"):
        if name not in names:
            yield _unknown("server", value, path, callees, is_mistake=True)


def rule_lists(config: AgentConfig, written: Table) -> Iterator[tuple[list[PlacedRule], list[Placed]]]:
    """Each list of rules, with the nodes that it applies to."""
    nodes = list(placed_nodes(config, written))
    yield _placed_rules(config.approval.rules, written, ()), nodes
    for node, at, path in nodes:
        if node.approval is not None and node.approval.rules:
            yield _placed_rules(node.approval.rules, at, path), list(with_those_below((node, at, path)))


def _placed_rules(rules: tuple[Rule, ...], written: Value, path: KeyPath) -> list[PlacedRule]:
    """`written` and `path` belong to the node or file whose `approval` has the rules."""
    return [*placed(rules, entry(written, "approval"), (*path, "approval"), "rules")]


def _servers(config: AgentConfig, written: Table) -> list[NamedAt]:
    entries = items(written.entries.get("mcp_servers"))
    # Further servers come from the command line, where there are no variables.
    beyond = [server.name for server in config.mcp_servers[len(entries) :]]
    as_written = [*map(name_in_file, entries), *beyond]
    return [(server.name, text) for server, text in zip(config.mcp_servers, as_written, strict=True)]


def _unknown_agents(config: AgentConfig, written: Table, of: Placed) -> Iterator[UnknownName]:
    """Unknown agents of one node. Bare names refer to the top-level `a2a`."""
    node, at, path = of
    known = [(agent.name, name_in_file(each)) for agent, each, _ in placed(config.a2a, written, (), "a2a")]
    named: list[tuple[str, Value | None, KeyPath]] = []
    for agent, value, place in placed(node.a2a or (), at, path, "a2a"):
        if agent.url is None and isinstance(value, Table):
            named.append((agent.name, value.entries["name"], (*place, "name")))
        elif agent.url is None:
            named.append((agent.name, value, place))
    if isinstance(node, RemoteAgentNode) and node.agent is not None:
        named.append((node.agent, entry(at, "agent"), (*path, "agent")))
    for name, at_name, place in named:
        if all(name != each for each, _ in known):
            found = _unknown("agent", at_name, place, known, is_mistake=True)
            yield attrs.evolve(found, hint=found.hint or _NO_ENTRY)


def _agent_ids(config: AgentConfig, written: Table) -> Iterator[NamedAt]:
    for each in delegates(config, written):
        yield each.agent.id, remote_id(name_in_file(each.written))


def _unknown(
    kind: NameKind, written: Value | None, path: KeyPath, known: list[NamedAt], *, is_mistake: bool
) -> UnknownName:
    text = str(written.value) if isinstance(written, Scalar) else ""
    here = " here" if "rules" in path else ""
    message = f"no {kind}{here} is called {quoted(text)}"
    words = [name for _, name in known]
    # A bare name means a tool server; suggest the agent of that name.
    hint = nearest(remote_id(text) if remote_id(text) in words else text, words) if text else None
    return UnknownName(kind, message, hint, mark_of(written), path, is_mistake)
