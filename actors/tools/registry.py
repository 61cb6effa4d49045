"""The tool registry: the actor that maps tool names to the servers that offer them.

========================  ====================================================================
message                   effect
========================  ====================================================================
`Register`,               adds a server or an agent at start-up; a duplicate name is refused
`RegisterAgent`
`Update`                  replaces the list of a server; a list with a duplicate name is refused
                          and tried again after each change of another server
`Resolve`                 finds the tool and the server of a call
`AcceptTools`             lets the listed, weaker hints of a tool count
`Learn`                   takes over hints that another member has recorded
========================  ====================================================================

Messages are handled one at a time and never wait for a server, so a lookup is fast even if servers hang. Only
changed lists and accepted hints wait for the journal, because known hints must be on disk before they count.
After each change, the registry publishes the catalogue, which can be read without asking it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any, Literal, TypeAlias, assert_never

import attrs

from ...config.sections.agent_config import AgentConfig
from ...runtime.context import Behaviour, Context
from ...runtime.journal.patience import until_available
from ...runtime.message import Request
from ...runtime.ref import ActorRef
from .catalogue import Catalogue, DuplicateTool, ToolGroup, catalogue, near
from .delegation import RemoteAgentMessage
from .facade import Malformed, unwrap
from .known import KnownTools, changes
from .slots import Slots
from .tokens import Token
from .tool import ServerMessage, Tool

logger = logging.getLogger(__name__)


@attrs.frozen(eq=False)
class Server:
    """A registered tool server."""

    name: str
    ref: ActorRef[ServerMessage]
    slots: Slots
    """The slots for concurrent calls, in order of arrival. A call takes one before its intent is written."""
    forwards_bearer: bool


@attrs.frozen(eq=False)
class RemoteServer:
    """Another registered agent. `name` is its name among the servers."""

    name: str
    ref: ActorRef[RemoteAgentMessage]
    slots: Slots
    forwards_bearer: bool


def bearer_for(server: Server | RemoteServer, token: Token | None) -> str | None:
    """The bearer token that calls of this server carry."""
    return token.for_server(server.name) if token is not None and server.forwards_bearer else None


@attrs.frozen(eq=False)
class Resolved:
    tool: Tool
    server: Server | RemoteServer
    arguments: Mapping[str, Any]
    """The arguments of the tool; for a server facade, those of the inner call."""
    facade: str | None = None
    """The server facade, if the tool was called through one."""


@attrs.frozen
class NotFound:
    name: str
    nearest: tuple[str, ...] = ()

    def __str__(self) -> str:
        nearest = f" (nearest: {', '.join(self.nearest)})" if self.nearest else ""
        return f"tool not found: {self.name}{nearest}"


@attrs.frozen
class Unusable:
    """A call of a server facade without a valid inner call."""

    problem: str


@attrs.frozen(eq=False)
class Register(Request["RegistryMessage", None]):
    """Register a server with its tools. Raises `DuplicateTool`; then nothing is registered."""

    server: Server
    tools: tuple[Tool, ...]


@attrs.frozen(eq=False)
class RegisterAgent(Request["RegistryMessage", None]):
    """Register another agent. Its tool is defined by the configuration."""

    server: RemoteServer


@attrs.frozen(eq=False)
class Update(Request["RegistryMessage", None]):
    """Replace the tools of a registered server.

    A list with a duplicate name is refused as a whole, and the tools before it stay. It is tried again when
    the tools of another server change. Refusals are published.
    """

    server: str
    tools: tuple[Tool, ...]


@attrs.frozen(eq=False)
class Resolve(Request["RegistryMessage", Resolved | NotFound | Unusable]):
    """Find the tool of a call. With `server`, only among the tools of that server, for recorded calls."""

    tool: str
    arguments: Mapping[str, Any]
    server: str | None = None


@attrs.frozen(eq=False)
class AcceptTools(Request["RegistryMessage", Tool | NotFound | Literal["changed"]]):
    """A person accepts what a tool's server says of it now: its weaker hints count from here on.

    Answered with the tool as it then is; "changed" when none of this name has this definition.
    """

    name: str
    """Any of its names."""
    hash: str


@attrs.frozen(eq=False)
class Learn(Request["RegistryMessage", None]):
    """Another member has recorded hints of a server's tools, or a person has accepted some there."""

    server: str


RegistryMessage: TypeAlias = Register | RegisterAgent | Update | Resolve | AcceptTools | Learn

Publish: TypeAlias = Callable[[Catalogue, Mapping[str, str]], None]
"""Told of all tools whenever they change, and of the servers whose change was refused, with the reason."""


def registry(config: AgentConfig, publish: Publish, known: KnownTools) -> Behaviour[RegistryMessage]:
    async def behaviour(ctx: Context[RegistryMessage]) -> None:
        book = _Book(config, publish, known)

        async def handle(message: RegistryMessage) -> Any:
            match message:
                case Register(server=server, tools=tools):
                    return await book.register(server, tools)
                case RegisterAgent(server=server):
                    return book.register_agent(server)
                case Update(server=name, tools=tools):
                    return await book.update(name, tools)
                case Resolve(tool=name, arguments=arguments, server=owner):
                    if owner is None:
                        return book.resolve(name, arguments)
                    return book.resolve_of(owner, name, arguments)
                case AcceptTools(name=name, hash=hash):
                    return await book.accept(name, hash)
                case Learn(server=name):
                    return await book.learn(name)
                case _:
                    assert_never(message)

        await ctx.serve(handle)

    return behaviour


@attrs.define(eq=False)
class _Book:
    _config: AgentConfig
    _publish: Publish
    _known: KnownTools
    _servers: dict[str, Server | RemoteServer] = attrs.field(factory=dict)
    _offers: dict[str, tuple[Tool, ...]] = attrs.field(factory=dict)
    """As the servers list them."""
    _refused: dict[str, tuple[tuple[Tool, ...], str]] = attrs.field(factory=dict)
    """Changes that collide, with the reason."""
    _catalogue: Catalogue = attrs.field(
        default=attrs.Factory(lambda self: catalogue(self._config, {}), takes_self=True)
    )
    """Of the tools with the hints that count."""
    _held: dict[str, frozenset[str]] = attrs.field(factory=dict)
    """Of each server, the definitions whose weaker hints do not count, as they were last warned of."""

    async def register(self, server: Server, tools: tuple[Tool, ...]) -> None:
        await self._take(server.name, tools)
        self._servers[server.name] = server
        self._tell()

    def register_agent(self, server: RemoteServer) -> None:
        self._servers[server.name] = server
        self._tell()

    async def update(self, server: str, tools: tuple[Tool, ...]) -> None:
        if tools == self._offers[server] and server not in self._refused:
            return
        self._refused.pop(server, None)
        waiting = {server: tools, **{name: wanted for name, (wanted, _) in self._refused.items()}}
        for name, wanted in waiting.items():
            self._refused.pop(name, None)
            try:
                await self._take(name, wanted)
            except DuplicateTool as error:
                self._refused[name] = wanted, str(error)
                await self._take(name, self._offers[name])  # stricter hints of the refused list count as well
        if server in self._refused:
            logger.warning(
                'the changed tools of MCP server "%s" are refused, so the previous ones stay: %s',
                server,
                self._refused[server][1],
            )
        self._tell()

    async def _take(self, server: str, tools: tuple[Tool, ...]) -> None:
        """Use a list of tools. Raises `DuplicateTool`; its hints are then recorded by own names only."""
        offers = {**self._offers, server: tools}
        try:
            named = catalogue(self._config, offers)
        except DuplicateTool:
            await self._known.take(server, tools)
            raise
        seen = {(tool.server, tool.own_name): tool for tool in named.tools}
        # For all servers, because the name of a tool can depend on the lists of other servers.
        for name, listed in offers.items():
            await self._known.take(name, [seen.get((name, tool.own_name), tool) for tool in listed])
        self._catalogue = named.counting(self._known.counting)
        self._offers = offers

    async def accept(self, name: str, hash: str) -> Tool | NotFound | Literal["changed"]:
        found = [tool for tool in self._catalogue.tools if name in tool.names]
        if not found:
            return NotFound(name, self._catalogue.nearest(name))
        meant = next((tool for tool in found if tool.hash == hash), None)
        if meant is None:
            return "changed"
        await self._known.accept(meant)
        await self._take(meant.server, self._offers[meant.server])
        self._tell()
        return attrs.evolve(meant, hints=meant.listed_hints)

    async def learn(self, server: str) -> None:
        await until_available(lambda: self._known.load([server]))
        if server in self._offers:
            await self._take(server, self._offers[server])
            self._tell()

    def _tell(self) -> None:
        for group in self._catalogue.groups:
            held = tuple(tool for tool in group.tools if tool.held)
            known, hashes = self._held.get(group.server.name), frozenset(tool.hash for tool in held)
            self._held[group.server.name] = hashes
            if held and hashes != known:
                logger.warning(
                    'MCP server "%s" lists weaker hints; the earlier ones count until a person accepts the '
                    "new ones (stopgo tools accept): %s",
                    group.server.name,
                    changes(held),
                )
        self._publish(self._catalogue, {name: reason for name, (_, reason) in self._refused.items()})

    def resolve(self, name: str, arguments: Mapping[str, Any]) -> Resolved | NotFound | Unusable:
        entry = self._catalogue.entries.get(name)
        match entry:
            case None:
                return NotFound(name, self._catalogue.nearest(name))
            case Tool():
                return Resolved(entry, self._servers[entry.server], arguments)
            case ToolGroup():
                return self._unwrapped(entry, name, arguments)
            case _:
                assert_never(entry)

    def resolve_of(self, server: str, name: str, arguments: Mapping[str, Any]) -> Resolved | NotFound:
        tool = self._catalogue.of_server(server, name)
        return NotFound(name) if tool is None else Resolved(tool, self._servers[server], arguments)

    def _unwrapped(
        self, group: ToolGroup, name: str, arguments: Mapping[str, Any]
    ) -> Resolved | NotFound | Unusable:
        try:
            inner = unwrap(name, arguments)
        except Malformed as error:
            return Unusable(str(error))
        tool = self._catalogue.of_server(group.server.name, inner.tool)
        if tool is None:
            names = [tool.own_name for tool in group.tools]
            return NotFound(f"{inner.tool} of {name}", near(inner.tool, names))
        return Resolved(tool, self._servers[tool.server], inner.arguments, facade=name)
