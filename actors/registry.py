"""The tool registry: the one map from tool names to the servers that offer them.

It serves its mailbox serially and never waits for a server, so a lookup is quick whatever servers do.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable
from typing import Any, TypeAlias, assert_never

import attrs

from stopgo.actors.slots import Slots
from stopgo.actors.tools import ServerMessage, Tool
from stopgo.runtime.context import Behaviour, Context
from stopgo.runtime.errors import Refused
from stopgo.runtime.message import Request
from stopgo.runtime.ref import ActorRef


@attrs.frozen(eq=False)
class Server:
    """What the registry knows of a tool server."""

    name: str
    ref: ActorRef[ServerMessage]
    slots: Slots
    """Calls at the same time, first come first served; taken before a call's intent is written."""
    forwards_bearer: bool


@attrs.frozen(eq=False)
class Resolved:
    tool: Tool
    server: Server


@attrs.frozen
class NotFound:
    nearest: tuple[str, ...]


@attrs.frozen(eq=False)
class Register(Request["RegistryMessage", None]):
    """Offer a server's tools. Raises `DuplicateTool`; then nothing of it is registered."""

    server: Server
    tools: tuple[Tool, ...]


@attrs.frozen
class Resolve(Request["RegistryMessage", Resolved | NotFound]):
    tool: str


RegistryMessage: TypeAlias = Register | Resolve


class DuplicateTool(Refused):
    """Two servers offer tools of the same name; a line for each tool."""


def registry(publish: Callable[[tuple[Tool, ...]], None]) -> Behaviour[RegistryMessage]:
    """`publish` is told of all tools, by server in the order they registered, whenever they change."""

    async def behaviour(ctx: Context[RegistryMessage]) -> None:
        offers: dict[str, Resolved] = {}

        def register(server: Server, tools: tuple[Tool, ...]) -> None:
            duplicates = [
                f'duplicate tool name "{tool.name}" found in MCP servers'
                f' "{offers[tool.name].server.name}" and "{server.name}"'
                for tool in tools
                if tool.name in offers
            ]
            if duplicates:
                raise DuplicateTool("\n".join(duplicates))
            offers.update((tool.name, Resolved(tool, server)) for tool in tools)
            publish(tuple(offer.tool for offer in offers.values()))

        async def handle(message: RegistryMessage) -> Any:
            match message:
                case Register(server=server, tools=tools):
                    return register(server, tools)
                case Resolve(tool=name):
                    found = offers.get(name)
                    return found or NotFound(tuple(difflib.get_close_matches(name, offers, n=3)))
                case _:
                    assert_never(message)

        await ctx.serve(handle)

    return behaviour
