"""What the file says of tools and surely does not mean. It shows when the servers have listed theirs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase

from stopgo.actors.gate import unasked
from stopgo.actors.published import Published
from stopgo.config.model import AgentConfig, Node, children_of
from stopgo.config.values import quoted
from stopgo.config.wording import nearest


def review(config: AgentConfig, published: Published) -> Iterator[str]:
    """A sentence for each tool that may do harm unasked, and for each name that no tool has."""
    yield from unasked(config, published.catalogue.tools)
    listed = [published.servers[server.name] for server in config.enabled_servers]
    for server, status in zip(config.enabled_servers, listed, strict=True):
        if status.state == "connected":
            names = [tool.name for tool in status.tools]
            patterns = (*(server.tools.include or ()), *server.tools.exclude)
            yield from _unknown(f'MCP server "{server.name}"', patterns, names)
    if all(status.state == "connected" for status in listed):
        known = dict.fromkeys(name for tool in published.catalogue.tools for name in tool.names)
        for node in _nodes(config.agent):
            yield from _unknown(f'node "{node.name}"', node.tools or (), known)


def _unknown(where: str, patterns: Iterable[str], known: Iterable[str]) -> Iterator[str]:
    for pattern in patterns:
        if not any(fnmatchcase(name, pattern) for name in known):
            hint = nearest(pattern, known)
            yield f"{where}: tools: no tool is called {quoted(pattern)}" + (f" ({hint})" if hint else "")


def _nodes(node: Node) -> Iterator[Node]:
    yield node
    for child in children_of(node):
        yield from _nodes(child)
