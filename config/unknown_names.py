"""Names of servers and nodes that the agent file refers to and that do not exist. Pure.

The sentences show what stands in the file, never what a variable holds.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, TypeAlias

import attrs

from .agent_config import AgentConfig
from .approval import Rule
from .nodes import LlmNode, Node
from .placeholders import children_with_place, name_in_file
from .values import KeyPath, Mark, Scalar, Table, Value, entry, items, quoted
from .wildcards import has_wildcards, is_named
from .wording import nearest

Placed: TypeAlias = tuple[Node, Value, KeyPath]
"""A node, the same as it is written, and its path."""
Named: TypeAlias = tuple[str, str]
"""A name, and the same as it is written."""
PlacedRule: TypeAlias = tuple[Rule, Value, KeyPath]
"""A rule, the same as it is written, and its path."""

Kind: TypeAlias = Literal["server", "node"]

_SILENT = "only llm nodes call tools, and this is none"
_ITS_OWN = "for the calls of all nodes below it, move the rule into the approval of that node"


@attrs.frozen
class UnknownName:
    kind: Kind
    message: str
    hint: str | None
    """The name that was probably meant."""
    mark: Mark | None
    path: KeyPath
    is_mistake: bool
    """If the name is misspelt, calls pass or tools are hidden against the intention."""


def unknown_names(config: AgentConfig, written: Table) -> Iterator[UnknownName]:
    """In nodes and rules; `written` is the file of `config`, with its servers as a list."""
    servers = _servers(config, written)
    names = {name for name, _ in servers}
    for node, at, path in placed_nodes(config, written):
        entries = items(entry(at, "mcp_servers"))
        for index, (server, value) in enumerate(zip(node.mcp_servers or (), entries, strict=True)):
            if server not in names:
                yield _unknown("server", value, (*path, "mcp_servers", index), servers, is_mistake=True)
    for rules, below in rule_lists(config, written):
        named = [(node.name, name_in_file(at)) for node, at, _ in below if isinstance(node, LlmNode)]
        silent = {node.name for node, _, _ in below if not isinstance(node, LlmNode)}
        known: dict[Kind, list[Named]] = {"server": servers, "node": named}
        for rule, at, path in rules:
            patterns: dict[Kind, str | None] = {"server": rule.server, "node": rule.node}
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


def placed_nodes(config: AgentConfig, written: Table) -> Iterator[Placed]:
    """All nodes, each before those below it."""
    return _from((config.agent, written.entries["agent"], ("agent",)))


def rule_lists(config: AgentConfig, written: Table) -> Iterator[tuple[list[PlacedRule], list[Placed]]]:
    """Each list of rules, with the nodes that it is about."""
    nodes = list(placed_nodes(config, written))
    yield _placed_rules(config.approval.rules, written, ()), nodes
    for node, at, path in nodes:
        if node.approval is not None and node.approval.rules:
            yield _placed_rules(node.approval.rules, at, path), list(_from((node, at, path)))


def _from(top: Placed) -> Iterator[Placed]:
    yield top
    for child in children_with_place(*top):
        yield from _from(child)


def _placed_rules(rules: tuple[Rule, ...], written: Value, path: KeyPath) -> list[PlacedRule]:
    """`written` and `path` are those of what has the rules in its `approval`."""
    entries = items(entry(entry(written, "approval"), "rules"))
    return [
        (rule, at, (*path, "approval", "rules", index))
        for index, (rule, at) in enumerate(zip(rules, entries, strict=True))
    ]


def _servers(config: AgentConfig, written: Table) -> list[Named]:
    entries = items(written.entries.get("mcp_servers"))
    # Those beyond the entries are named on the command line, where there are no variables.
    beyond = [server.name for server in config.mcp_servers[len(entries) :]]
    as_written = [*map(name_in_file, entries), *beyond]
    return [(server.name, text) for server, text in zip(config.mcp_servers, as_written, strict=True)]


def _unknown(
    kind: Kind, written: Value | None, path: KeyPath, known: list[Named], *, is_mistake: bool
) -> UnknownName:
    text = str(written.value) if isinstance(written, Scalar) else ""
    here = "" if path[-2] == "mcp_servers" else " here"
    message = f"no {kind}{here} is called {quoted(text)}"
    hint = nearest(text, [name for _, name in known]) if text else None
    mark = None if written is None else written.mark
    return UnknownName(kind, message, hint, mark, path, is_mistake)
