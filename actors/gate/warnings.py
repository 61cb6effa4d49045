"""What the file says of tools and surely does not mean. It shows when the servers have listed theirs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ...config.agent_config import AgentConfig
from ...config.approval import Rule
from ...config.nodes import Node, children_of
from ...config.values import quoted
from ...config.wildcards import is_named
from ...config.wording import nearest
from ..tools.server_directory import ServerDirectory
from ..tools.tool import Tool
from .gate import unasked

_ELSEWHERE = frozenset({"patternProperties", "$ref", "allOf", "anyOf", "oneOf", "if"})
"""Keywords of a JSON Schema that may name arguments besides its `properties`."""


def review(config: AgentConfig, directory: ServerDirectory) -> Iterator[str]:
    """A sentence for each tool that may do harm unasked, and for each name that no tool has."""
    yield from unasked(config, directory.catalogue.tools)
    listed = {name: each.tools for name, each in directory.servers.items() if each.state == "connected"}
    for server in config.enabled_servers:
        if (own := listed.get(server.name)) is not None:
            patterns = (*(server.tools.include or ()), *server.tools.exclude)
            yield from _unknown(f'MCP server "{server.name}": tools', patterns, [tool.name for tool in own])
    if all(server.name in listed for server in config.enabled_servers):
        tools = directory.catalogue.tools
        for node in _nodes(config.agent):
            yield from _unknown(f'node "{node.name}": tools', node.tools or (), _names(tools))
        for where, rule in _rules(config):
            yield from _rule(where, rule, tools)


def _rule(where: str, rule: Rule, tools: Iterable[Tool]) -> Iterator[str]:
    # A server that there is not is the file's own mistake, and told with it.
    of_server = [tool for tool in tools if is_named(tool.server, rule.server or "*")]
    if rule.tool is not None and of_server:
        yield from _unknown(f"{where}.tool", (rule.tool,), _names(of_server))
    meant = [tool for tool in of_server if any(is_named(name, rule.tool or "*") for name in tool.names)]
    if not meant or any(_takes_anything(tool.input_schema) for tool in meant):
        return
    known = [str(name) for tool in meant for name in tool.input_schema["properties"]]
    for path in rule.arguments:
        name = path.partition(".")[0]
        if path not in known and name not in known:
            yield f"{where}.arguments: no tool that it is about takes {_named(name, known)}"


def _takes_anything(schema: Mapping[str, Any]) -> bool:
    """Whether a tool may take arguments that are not among its `properties`."""
    if not isinstance(schema.get("properties"), Mapping):
        return True
    return schema.get("additionalProperties", False) is not False or not _ELSEWHERE.isdisjoint(schema)


def _unknown(where: str, patterns: Iterable[str], known: Iterable[str]) -> Iterator[str]:
    for pattern in patterns:
        if not any(is_named(name, pattern) for name in known):
            yield f"{where}: no tool is called {_named(pattern, known)}"


def _named(name: str, known: Iterable[str]) -> str:
    """A name that nobody has, with a hint at the one that was probably meant."""
    hint = nearest(name, known)
    return quoted(name) + (f" ({hint})" if hint else "")


def _names(tools: Iterable[Tool]) -> list[str]:
    """Whatever the tools may be called, each once."""
    return list(dict.fromkeys(name for tool in tools for name in tool.names))


def _rules(config: AgentConfig) -> Iterator[tuple[str, Rule]]:
    """Every rule, and where it stands."""
    for index, rule in enumerate(config.approval.rules):
        yield f"approval.rules[{index}]", rule
    for node in _nodes(config.agent):
        own = node.approval.rules if node.approval is not None else None
        for index, rule in enumerate(own or ()):
            yield f'node "{node.name}": approval.rules[{index}]', rule


def _nodes(node: Node) -> Iterator[Node]:
    yield node
    for child in children_of(node):
        yield from _nodes(child)
