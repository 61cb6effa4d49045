"""The catalogue: all tools of all servers by the names that models use. Pure.

It depends only on the configuration and the lists of the servers, so a restart gives the same names.
"""

from __future__ import annotations

import difflib
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import TypeAlias

import attrs

from ...config.sections.a2a import RemoteAgentConfig
from ...config.sections.agent_config import AgentConfig
from ...config.sections.mcp import McpServerConfig, ToolFilter
from ...config.text.wildcards import is_named
from ...runtime.errors import Refused
from .delegation import MESSAGE
from .names import hashed, plain_name, prefixed_name, seems_prefixed
from .tool import Hints, Tool

Offers: TypeAlias = Mapping[str, Sequence[Tool]]
"""The tools that servers list, by server."""

_MOST_COMPARED = 2000
"""Maximum number of names compared to find the nearest one, because the search blocks the event loop."""


class DuplicateTool(Refused):
    """Two servers offer tools of the same name. The text has one line for each tool."""


@attrs.frozen(eq=False)
class ToolGroup:
    """The tools of one server."""

    server: McpServerConfig
    tools: tuple[Tool, ...]

    @property
    def facade(self) -> str | None:
        """The name of the server facade; None if models see the tools."""
        return one_name(self.server) if self.server.expose == "server" else None


@attrs.frozen(eq=False)
class Catalogue:
    groups: tuple[ToolGroup, ...] = ()
    """The servers with their tools, in the order of the agent file."""
    entries: Mapping[str, Tool | ToolGroup] = attrs.field(factory=dict)
    """The tools and server facades by the name that models use."""
    _inside: Mapping[str, Mapping[str, Tool]] = attrs.field(factory=dict)
    """The tools by server and by each of their names."""
    agents: tuple[Tool, ...] = ()
    """The tools that delegate to other agents, in the order of the agent file."""

    @property
    def tools(self) -> tuple[Tool, ...]:
        """All tools that can be called."""
        return (*(tool for group in self.groups for tool in group.tools), *self.agents)

    def of_server(self, server: str, name: str) -> Tool | None:
        """Return a tool of a server by its current name, its own name or its prefixed name, because recorded
        calls use the name of the configuration at that time."""
        return self._inside.get(server, {}).get(name)

    def counting(self, count: Callable[[Sequence[Tool]], Sequence[Tool]]) -> Catalogue:
        """Return the catalogue with the tools that `count` returns, which have the hints that count."""
        groups = (attrs.evolve(group, tools=tuple(count(group.tools))) for group in self.groups)
        return _filled(tuple(groups), self.agents)

    def nearest(self, name: str) -> tuple[str, ...]:
        """Return suggestions for an unknown name: tools with that own name, otherwise similar names."""
        own = (tool.facade or tool.name for tool in self.tools if tool.own_name == name)
        return tuple(islice(dict.fromkeys(own), 3)) or near(name, self.entries)


def one_name(server: McpServerConfig) -> str:
    """Return the name of the server facade."""
    return plain_name(server.facade)


def near(name: str, known: Mapping[str, object] | Sequence[str]) -> tuple[str, ...]:
    """Return up to three names of `known` that are similar to `name`."""
    return tuple(difflib.get_close_matches(name[:128], list(islice(known, _MOST_COMPARED)), n=3))


def catalogue(config: AgentConfig, offers: Offers) -> Catalogue:
    """Make the catalogue of the lists of the servers. Raises `DuplicateTool`."""
    groups = tuple(
        ToolGroup(server, _named(config, server, offers[server.name]))
        for server in config.enabled_servers
        if server.name in offers
    )
    return _filled(_resolved(config, groups), tuple(map(_agent_tool, config.remote_agents)))


def _agent_tool(agent: RemoteAgentConfig) -> Tool:
    """Return the tool that delegates to an agent."""
    return Tool(
        name=agent.tool_name,
        description=f"Delegate task to A2A agent '{agent.name}'. {agent.description}".rstrip(),
        input_schema={
            "type": "object",
            "properties": {MESSAGE: {"type": "string", "description": "What the agent is to do."}},
            "required": [MESSAGE],
        },
        server=agent.id,
        hints=Hints(destructive=agent.destructive_hint),
    )


def _filled(groups: tuple[ToolGroup, ...], agents: tuple[Tool, ...]) -> Catalogue:
    entries: dict[str, Tool | ToolGroup] = {}
    for group in groups:
        entries.update(zip(_names(group), (group,) if group.facade else group.tools, strict=False))
    entries.update((tool.name, tool) for tool in agents)
    inside = {group.server.name: _inside(group) for group in groups}
    inside.update((tool.server, {tool.name: tool}) for tool in agents)
    return Catalogue(groups, entries, inside, agents)


def _inside(group: ToolGroup) -> Mapping[str, Tool]:
    server = group.server.name
    found = {prefixed_name(server, tool.own_name): tool for tool in group.tools}
    found.update((tool.own_name, tool) for tool in group.tools)
    found.update((tool.name, tool) for tool in group.tools)
    return found


def _named(config: AgentConfig, server: McpServerConfig, tools: Sequence[Tool]) -> tuple[Tool, ...]:
    """Return the tools of a server that the filter admits, with unique names."""
    others = {one_name(other) for other in config.mcp_servers if other.expose == "server" and other != server}
    others |= {agent.tool_name for agent in config.remote_agents}
    kept = [
        attrs.evolve(
            _hinted(config, tool),
            misleading=seems_prefixed(tool.own_name) or plain_name(tool.own_name) in others,
        )
        for tool in tools
        if admits(server.tools, tool.own_name)
    ]
    names = [_name(config, server, tool) for tool in kept]
    if server.expose == "server":
        facade = one_name(server)
        return tuple(
            attrs.evolve(tool, name=name, facade=facade) for tool, name in zip(kept, names, strict=True)
        )
    taken = Counter(names)
    return tuple(
        # If several names become equal, only the tool with that own name keeps it.
        attrs.evolve(
            tool, name=name if taken[name] == 1 or name == tool.own_name else _told_apart(name, tool)
        )
        for tool, name in zip(kept, names, strict=True)
    )


def _hinted(config: AgentConfig, tool: Tool) -> Tool:
    """Return a tool whose hints say how a contradiction counts."""
    hints = attrs.evolve(tool.listed_hints, contradiction_asks=config.approval.contradiction_asks)
    return attrs.evolve(tool, hints=hints, listed_hints=hints)


def _name(config: AgentConfig, server: McpServerConfig, tool: Tool) -> str:
    """Name a tool. A misleading name is always prefixed, because with a hash it would still match
    `mcp__other__*`."""
    if tool.misleading or (config.tool_names == "prefixed" and server.expose != "server"):
        return prefixed_name(server.name, tool.own_name)
    return tool.own_name if server.expose == "server" else plain_name(tool.own_name)


def _told_apart(name: str, tool: Tool) -> str:
    return hashed(name, tool.server, tool.own_name)


def admits(filter: ToolFilter, name: str) -> bool:
    """Return whether the filter admits a tool with this own name. An excluded name is also excluded in the
    form that models see."""
    included = filter.include is None or any(is_named(name, pattern) for pattern in filter.include)
    return included and not any(
        is_named(each, pattern) for pattern in filter.exclude for each in (name, plain_name(name))
    )


# ------------------------------------------------------------------- duplicates


def _resolved(config: AgentConfig, groups: tuple[ToolGroup, ...]) -> tuple[ToolGroup, ...]:
    """Resolve duplicate names as configured. Raises `DuplicateTool`."""
    if config.tool_names == "prefixed":
        groups = _renamed(groups, _told_apart)
    if config.on_duplicate == "priority":
        groups = _best(groups)
    elif config.on_duplicate == "prefix":
        groups = _renamed(groups, lambda _, tool: prefixed_name(tool.server, tool.own_name))
    if lines := list(_duplicates(groups)):
        raise DuplicateTool("\n".join(lines))
    return groups


def _names(group: ToolGroup) -> Iterator[str]:
    if group.facade is None:
        yield from (tool.name for tool in group.tools)
    elif group.tools:
        yield group.facade


def _servers_by_name(groups: Sequence[ToolGroup]) -> Mapping[str, list[ToolGroup]]:
    found: defaultdict[str, list[ToolGroup]] = defaultdict(list)
    for group in groups:
        for name in _names(group):
            found[name].append(group)
    return found


def _duplicates(groups: Sequence[ToolGroup]) -> Iterator[str]:
    for name, owners in _servers_by_name(groups).items():
        first = owners[0].server.name
        for owner in owners[1:]:
            yield (f'duplicate tool name "{name}" found in MCP servers "{first}" and "{owner.server.name}"')


def _renamed(groups: tuple[ToolGroup, ...], rename: Callable[[str, Tool], str]) -> tuple[ToolGroup, ...]:
    owners = _servers_by_name(groups)
    return tuple(
        group
        if group.facade is not None
        else attrs.evolve(
            group,
            tools=tuple(
                attrs.evolve(tool, name=rename(tool.name, tool)) if len(owners[tool.name]) > 1 else tool
                for tool in group.tools
            ),
        )
        for group in groups
    )


def _best(groups: tuple[ToolGroup, ...]) -> tuple[ToolGroup, ...]:
    """Keep only the tools of the servers with the best priority; among equals, the first in the file."""
    best = {
        name: min(owners, key=lambda group: group.server.priority)
        for name, owners in _servers_by_name(groups).items()
    }
    return tuple(
        attrs.evolve(
            group,
            tools=tuple(
                tool for tool in group.tools if best[group.facade or tool.name].server is group.server
            ),
        )
        for group in groups
    )
