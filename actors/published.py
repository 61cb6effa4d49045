"""What registry and servers last said of themselves; read by whoever wants to know, asked of nobody."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs
import trio

from stopgo.actors.models.menu import Menu, menu
from stopgo.actors.tools.catalogue import Catalogue
from stopgo.actors.tools.registry import RegistryMessage, Update
from stopgo.actors.tools.status import ServerStatus
from stopgo.runtime.context import Behaviour, background
from stopgo.runtime.message import Message
from stopgo.runtime.ref import ActorRef


@attrs.define(eq=False)
class Published:
    catalogue: Catalogue = attrs.field(factory=Catalogue)
    menu: Menu = attrs.field(factory=Menu)
    refused: Mapping[str, str] = attrs.field(factory=dict)
    """Servers whose tools have changed in a way that collides with others', and how."""
    servers: dict[str, ServerStatus] = attrs.field(factory=dict)
    changed: dict[str, None] = attrs.field(factory=dict)
    """Servers that have said something since the registry was told."""
    news: trio.Event = attrs.field(factory=trio.Event)

    def set_catalogue(self, catalogue: Catalogue, refused: Mapping[str, str]) -> None:
        self.catalogue, self.menu, self.refused = catalogue, menu(catalogue), refused

    def set_server(self, status: ServerStatus) -> None:
        self.servers[status.name] = status
        self.changed[status.name] = None
        self.news.set()


def tool_lists(published: Published, registry: ActorRef[RegistryMessage]) -> Behaviour[Message[Any]]:
    """Keeps the registry up to date with what servers list: they report, and must not wait for it."""

    async def watch() -> None:
        while True:
            await published.news.wait()
            published.news = trio.Event()
            while published.changed:
                name = next(iter(published.changed))
                del published.changed[name]
                await registry.ask(Update(name, published.servers[name].tools))

    return background(watch)
