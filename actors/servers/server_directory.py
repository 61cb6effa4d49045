"""The last published state of the registry and the servers, readable without asking an actor.

Also the actor that updates the registry when lists of tools change.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import attrs
import trio

from ...runtime.context import Behaviour, background
from ...runtime.message import Message
from ...runtime.ref import ActorRef
from ..tools.catalogue import Catalogue
from ..tools.delegation import RemoteAgentStatus
from ..tools.registry import RegistryMessage, Update
from ..tools.slots import Slots
from ..tools.tool import Tool
from .server_status import ServerStatus


@attrs.define(eq=False)
class ServerDirectory:
    catalogue: Catalogue = attrs.field(factory=Catalogue)
    refused: Mapping[str, str] = attrs.field(factory=dict)
    """The servers whose changed tools were refused as duplicates, with the reasons."""
    servers: dict[str, ServerStatus] = attrs.field(factory=dict)
    agents: dict[str, RemoteAgentStatus] = attrs.field(factory=dict)
    """The other agents, by name."""
    slots: dict[str, Slots] = attrs.field(factory=dict)
    """The slots of servers and agents, by name."""
    warnings: tuple[str, ...] = ()
    """Warnings about tools and rules that do not match, for the current lists."""
    unapproved: str | None = None
    """The logged summary of the tools that may do harm and run without approval."""
    changed: dict[str, None] = attrs.field(factory=dict)
    """The servers that have reported a change that the registry does not know yet."""
    news: trio.Event = attrs.field(factory=trio.Event)

    def set_catalogue(self, catalogue: Catalogue, refused: Mapping[str, str]) -> None:
        self.catalogue, self.refused = catalogue, refused

    def set_server(self, status: ServerStatus) -> None:
        self.servers[status.name] = status
        self.changed[status.name] = None
        self.news.set()

    def set_agents(self, names: Iterable[str], status: RemoteAgentStatus) -> None:
        """Set the status of an agent under each of its names."""
        self.agents.update(dict.fromkeys(names, status))

    @property
    def listed(self) -> Mapping[str, tuple[Tool, ...]]:
        """The tools that each server has listed; servers without a list are left out."""
        registered = {group.server.name: group.tools for group in self.catalogue.groups if group.tools}
        reported = {
            name: each.tools for name, each in self.servers.items() if each.state == "connected" or each.tools
        }
        return {**registered, **reported}


def tool_lists(
    directory: ServerDirectory, registry: ActorRef[RegistryMessage], changed: Callable[[], None]
) -> Behaviour[Message[Any]]:
    """Return the behaviour that updates the registry. Servers only report, because they must not wait for it.

    Args:
        changed: called after a change of the catalogue, and when a server has listed its tools for the first
        time.
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
