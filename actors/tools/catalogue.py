"""All tools of all servers under the names that models call them by. Pure.

It is a function of the configuration and of what the servers list, so that a restart finds the same names.
"""

from __future__ import annotations

import difflib
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import TypeAlias

import attrs

from ...config.a2a import RemoteAgentConfig
from ...config.agent_config import AgentConfig
from ...config.mcp import McpServerConfig, ToolFilter
from ...config.wildcards import is_named
from ...runtime.errors import Refused
from .delegation import MESSAGE
from .names import hashed, looks_prefixed, plain_name, prefixed_name
from .tool import Hints, Tool

Offers: TypeAlias = Mapping[str, Sequence[Tool]]
"""What servers list, by server."""

_MOST_COMPARED = 2000
"""Names that are looked at for the nearest one: it takes time, and nobody else is served meanwhile."""


class DuplicateTool(Refused):
    """Two servers offer tools of the same name; a line for each tool."""


@attrs.frozen(eq=False)
class Shelf:
    """The tools of one server."""

    server: McpServerConfig
    tools: tuple[Tool, ...]

    @property
    def facade(self) -> str | None:
        """Name of the one tool it is for models."""
        return one_name(self.server) if self.server.expose == "server" else None


@attrs.frozen(eq=False)
class Catalogue:
    shelves: tuple[Shelf, ...] = ()
    """In the order of the file."""
    entries: Mapping[str, Tool | Shelf] = attrs.field(factory=dict)
    """By what models call them: a tool, or a server as one."""
    _inside: Mapping[str, Mapping[str, Tool]] = attrs.field(factory=dict)
    """Tools by server and by each of their names."""
    agents: tuple[Tool, ...] = ()
    """Those by which work is delegated to other agents, in the order of the file."""

    @property
    def tools(self) -> tuple[Tool, ...]:
        """Every tool that can be called."""
        return (*(tool for shelf in self.shelves for tool in shelf.tools), *self.agents)

    def of_server(self, server: str, name: str) -> Tool | None:
        """A server's tool by the name it has here, by its own, or by the one `tool_names: prefixed` gives it:
        what is on record was called what the configuration said then."""
        return self._inside.get(server, {}).get(name)

    def counting(self, count: Callable[[Sequence[Tool]], Sequence[Tool]]) -> Catalogue:
        """The same with the hints that count."""
        shelves = (attrs.evolve(shelf, tools=tuple(count(shelf.tools))) for shelf in self.shelves)
        return _filled(tuple(shelves), self.agents)

    def nearest(self, name: str) -> tuple[str, ...]:
        """What may be meant by a name that nothing has: whose own name it is, else what looks like it."""
        own = (tool.facade or tool.name for tool in self.tools if tool.own_name == name)
        return tuple(islice(dict.fromkeys(own), 3)) or near(name, self.entries)


def one_name(server: McpServerConfig) -> str:
    """The name of the one tool that a whole server is."""
    return plain_name(server.facade)


def near(name: str, known: Mapping[str, object] | Sequence[str]) -> tuple[str, ...]:
    """Up to three names of `known` that look like `name`."""
    return tuple(difflib.get_close_matches(name[:128], list(islice(known, _MOST_COMPARED)), n=3))


def catalogue(config: AgentConfig, offers: Offers) -> Catalogue:
    """Put together what the servers list. Raises `DuplicateTool`."""
    shelves = tuple(
        Shelf(server, _named(config, server, offers[server.name]))
        for server in config.enabled_servers
        if server.name in offers
    )
    return _filled(_resolved(config, shelves), tuple(map(_agent_tool, config.remote_agents)))


def _agent_tool(agent: RemoteAgentConfig) -> Tool:
    """The tool by which models delegate work to an agent."""
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


def _filled(shelves: tuple[Shelf, ...], agents: tuple[Tool, ...]) -> Catalogue:
    entries: dict[str, Tool | Shelf] = {}
    for shelf in shelves:
        entries.update(zip(_names(shelf), (shelf,) if shelf.facade else shelf.tools, strict=False))
    entries.update((tool.name, tool) for tool in agents)
    inside = {shelf.server.name: _inside(shelf) for shelf in shelves}
    inside.update((tool.server, {tool.name: tool}) for tool in agents)
    return Catalogue(shelves, entries, inside, agents)


def _inside(shelf: Shelf) -> Mapping[str, Tool]:
    server = shelf.server.name
    found = {prefixed_name(server, tool.own_name): tool for tool in shelf.tools}
    found.update((tool.own_name, tool) for tool in shelf.tools)
    found.update((tool.name, tool) for tool in shelf.tools)
    return found


def _named(config: AgentConfig, server: McpServerConfig, tools: Sequence[Tool]) -> tuple[Tool, ...]:
    """The tools there are of what a server lists, each under a name of its own."""
    others = {one_name(other) for other in config.mcp_servers if other.expose == "server" and other != server}
    others |= {agent.tool_name for agent in config.remote_agents}
    kept = [
        attrs.evolve(tool, misleading=looks_prefixed(tool.own_name) or plain_name(tool.own_name) in others)
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
        # Of those that only became the same here, the one that really is called that keeps the name.
        attrs.evolve(
            tool, name=name if taken[name] == 1 or name == tool.own_name else _told_apart(name, tool)
        )
        for tool, name in zip(kept, names, strict=True)
    )


def _name(config: AgentConfig, server: McpServerConfig, tool: Tool) -> str:
    """A misleading name is prefixed in any case: a hash at its end would still fit `mcp__other__*`."""
    if tool.misleading or (config.tool_names == "prefixed" and server.expose != "server"):
        return prefixed_name(server.name, tool.own_name)
    return tool.own_name if server.expose == "server" else plain_name(tool.own_name)


def _told_apart(name: str, tool: Tool) -> str:
    return hashed(name, tool.server, tool.own_name)


def admits(filter: ToolFilter, name: str) -> bool:
    """Whether there is a tool of this name, which is the server's own. A tool that is to be left out does not
    come in under another name that models see as the same."""
    included = filter.include is None or any(is_named(name, pattern) for pattern in filter.include)
    return included and not any(
        is_named(each, pattern) for pattern in filter.exclude for each in (name, plain_name(name))
    )


# ------------------------------------------------------------------- duplicates


def _resolved(config: AgentConfig, shelves: tuple[Shelf, ...]) -> tuple[Shelf, ...]:
    """The shelves with every name on one of them only. Raises `DuplicateTool`."""
    if config.tool_names == "prefixed":
        shelves = _renamed(shelves, _told_apart)
    if config.on_duplicate == "priority":
        shelves = _best(shelves)
    elif config.on_duplicate == "prefix":
        shelves = _renamed(shelves, lambda _, tool: prefixed_name(tool.server, tool.own_name))
    if lines := list(_duplicates(shelves)):
        raise DuplicateTool("\n".join(lines))
    return shelves


def _names(shelf: Shelf) -> Iterator[str]:
    if shelf.facade is None:
        yield from (tool.name for tool in shelf.tools)
    elif shelf.tools:
        yield shelf.facade


def _servers_by_name(shelves: Sequence[Shelf]) -> Mapping[str, list[Shelf]]:
    found: defaultdict[str, list[Shelf]] = defaultdict(list)
    for shelf in shelves:
        for name in _names(shelf):
            found[name].append(shelf)
    return found


def _duplicates(shelves: Sequence[Shelf]) -> Iterator[str]:
    for name, owners in _servers_by_name(shelves).items():
        first = owners[0].server.name
        for owner in owners[1:]:
            yield (f'duplicate tool name "{name}" found in MCP servers "{first}" and "{owner.server.name}"')


def _renamed(shelves: tuple[Shelf, ...], rename: Callable[[str, Tool], str]) -> tuple[Shelf, ...]:
    owners = _servers_by_name(shelves)
    return tuple(
        shelf
        if shelf.facade is not None
        else attrs.evolve(
            shelf,
            tools=tuple(
                attrs.evolve(tool, name=rename(tool.name, tool)) if len(owners[tool.name]) > 1 else tool
                for tool in shelf.tools
            ),
        )
        for shelf in shelves
    )


def _best(shelves: tuple[Shelf, ...]) -> tuple[Shelf, ...]:
    """Only the tools of the servers that go first; `sorted` keeps the order of the file among equals."""
    best = {
        name: min(owners, key=lambda shelf: shelf.server.priority)
        for name, owners in _servers_by_name(shelves).items()
    }
    return tuple(
        attrs.evolve(
            shelf,
            tools=tuple(
                tool for tool in shelf.tools if best[shelf.facade or tool.name].server is shelf.server
            ),
        )
        for shelf in shelves
    )
