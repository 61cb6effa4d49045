"""The remote agents that an agent file names, in one list. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import attrs

from ..sections.a2a import RemoteAgentConfig, RemoteAgentEntry
from ..sections.agent_config import AgentConfig
from ..sections.nodes import RemoteAgentNode
from ..sections.placeholders import placed_nodes
from ..sections.secrets import secrets_of_variables, shown_address
from ..text.interpolate import parse
from ..text.values import KeyPath, Scalar, Table, Value, entry, placed


@attrs.frozen
class ConfiguredDelegate:
    """A remote agent, as configured at one place of the file."""

    agent: RemoteAgentConfig
    written: Value
    """The value in the file with its `name` and `url`."""
    path: KeyPath


def delegates(config: AgentConfig, written: Table) -> Iterator[ConfiguredDelegate]:
    """Every place that gives an agent a url: the top-level `a2a`, then entries of nodes, then nodes.

    `written` is the file of `config`, with `a2a` as a list.
    """
    for agent, at, path in placed(config.a2a, written, (), "a2a"):
        yield ConfiguredDelegate(agent, at, path)
    nodes = list(placed_nodes(config, written))
    for node, at, path in nodes:
        for named, value, place in placed(node.a2a or (), at, path, "a2a"):
            if named.url is not None:
                yield ConfiguredDelegate(_agent(config, named, named.url), value, place)
    for node, at, path in nodes:
        if isinstance(node, RemoteAgentNode) and node.url is not None:
            yield ConfiguredDelegate(_agent(config, node, node.url), at, path)


def remote_agents(
    config: AgentConfig, written: Table, lookup: Callable[[str], str | None]
) -> tuple[RemoteAgentConfig, ...]:
    """Each agent once, as configured at the first place that names it."""
    found: dict[str, RemoteAgentConfig] = {}
    for each in delegates(config, written):
        agent = each.agent
        if each.path[0] != "a2a":
            url = entry(each.written, "url")
            assert isinstance(url, Scalar)
            secrets = (*agent.secrets, *secrets_of_variables(url, lookup))
            agent = attrs.evolve(agent, as_written=shown_address(parse(str(url.value))), secrets=secrets)
        found.setdefault(agent.name, agent)
    return tuple(found.values())


def _agent(config: AgentConfig, named: RemoteAgentEntry | RemoteAgentNode, url: str) -> RemoteAgentConfig:
    """The agent of a node, with the settings of the top-level entry of the same url, if there is one."""
    base = next((agent for agent in config.a2a if agent.url == url), None)
    base = base or RemoteAgentConfig(name=named.name, url=url)
    return attrs.evolve(
        base, name=named.name, description=named.description, destructive_hint=named.destructive_hint
    )
