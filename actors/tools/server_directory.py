"""The last published state of the registry and the servers, readable without asking an actor.

Also the actor that tells the registry of changed lists of tools.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import attrs
import trio

from ...runtime.context import Behaviour, background
from ...runtime.message import Message
from ...runtime.ref import ActorRef
from .catalogue import Catalogue
from .delegation import RemoteAgentStatus
from .registry import RegistryMessage, Update
from .server_status import ServerStatus
from .tool import Tool


@attrs.define(eq=False)
class ServerDirectory:
    catalogue: Catalogue = attrs.field(factory=Catalogue)
    refused: Mapping[str, str] = attrs.field(factory=dict)
    """Servers whose tools have changed in a way that collides with others', and how."""
    servers: dict[str, ServerStatus] = attrs.field(factory=dict)
    agents: dict[str, RemoteAgentStatus] = attrs.field(factory=dict)
    """The other agents, by name."""
    warnings: tuple[str, ...] = ()
    """Sentences on tools and rules that fit each other badly, as of what is listed now."""
    changed: dict[str, None] = attrs.field(factory=dict)
    """Servers that have said something since the registry was told."""
    news: trio.Event = attrs.field(factory=trio.Event)

    def set_catalogue(self, catalogue: Catalogue, refused: Mapping[str, str]) -> None:
        self.catalogue, self.refused = catalogue, refused

    def set_server(self, status: ServerStatus) -> None:
        self.servers[status.name] = status
        self.changed[status.name] = None
        self.news.set()

    def set_agents(self, names: Iterable[str], status: RemoteAgentStatus) -> None:
        """Take note of how an agent is, under each name that it has."""
        self.agents.update(dict.fromkeys(names, status))

    @property
    def listed(self) -> Mapping[str, tuple[Tool, ...]]:
        """What each server has listed; those that have not listed anything yet are left out."""
        registered = {shelf.server.name: shelf.tools for shelf in self.catalogue.shelves if shelf.tools}
        reported = {
            name: each.tools for name, each in self.servers.items() if each.state == "connected" or each.tools
        }
        return {**registered, **reported}


def tool_lists(
    directory: ServerDirectory, registry: ActorRef[RegistryMessage], changed: Callable[[], None]
) -> Behaviour[Message[Any]]:
    """Keeps the registry up to date with what servers list: they report, and must not wait for it.

    Args:
        changed: told when there are other tools, or when a server has listed its own for the first time.
    """

    async def watch() -> None:
        known = directory.catalogue, directory.listed.keys()
        while True:
            await directory.news.wait()
            directory.news = trio.Event()
            while directory.changed:
                name = next(iter(directory.changed))
                del directory.changed[name]
                await registry.ask(Update(name, directory.servers[name].tools))
            before, known = known, (directory.catalogue, directory.listed.keys())
            if known != before:
                changed()

    return background(watch)
