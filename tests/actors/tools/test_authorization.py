"""Servers that list nothing without a token are shown one, and what they list then is known at once."""

from __future__ import annotations

from typing import Any, cast

import attrs
import pytest
import trio

from stopgo.actors.servers.authorization import Authorization
from stopgo.actors.servers.server_directory import ServerDirectory
from stopgo.actors.servers.server_status import ServerStatus
from stopgo.actors.tools.needs import Wanted
from stopgo.actors.tools.registry import Update
from stopgo.actors.tools.tokens import Token
from stopgo.actors.tools.tool import Authenticate, Tool
from stopgo.runtime.errors import ActorCrashed, ActorUnavailable

GOOD = "tok-good"


@attrs.define
class Locked:
    """A server that takes one token, or is gone."""

    name: str
    directory: ServerDirectory
    gone: Exception | None = None
    shown: list[str] = attrs.field(factory=list)

    def __attrs_post_init__(self) -> None:
        self.directory.servers[self.name] = ServerStatus(
            self.name, "auth_required", wanted=Wanted(self.name, 401)
        )

    @property
    def tools(self) -> tuple[Tool, ...]:
        return (Tool("look", "", {}, self.name),)

    async def ask(self, request: Authenticate) -> None:
        await trio.lowlevel.checkpoint()
        self.shown.append(request.bearer)
        if self.gone is not None:
            raise self.gone
        if request.bearer == GOOD:
            self.directory.servers[self.name] = ServerStatus(self.name, "connected", tools=self.tools)


@attrs.define
class Registry:
    updates: list[Update] = attrs.field(factory=list)

    async def ask(self, request: Update) -> None:
        await trio.lowlevel.checkpoint()
        self.updates.append(request)


def authorization(directory: ServerDirectory, registry: Registry, *servers: Locked) -> Authorization:
    return Authorization(directory, cast(Any, registry), cast(Any, {each.name: each for each in servers}))


async def test_the_registry_knows_of_the_tools_before_anybody_goes_on() -> None:
    directory, registry = ServerDirectory(), Registry()
    server = Locked("safe", directory)
    shows = authorization(directory, registry, server)
    assert shows.wanted() == shows.wanted(["safe"]) == Wanted("safe", 401)
    assert shows.wanted(["other"]) is None
    assert not await shows.present(Token("tok-bad"))
    assert await shows.present(Token(GOOD))
    assert registry.updates == [Update("safe", ()), Update("safe", server.tools)]
    assert shows.wanted() is None


async def test_token_is_presented_only_to_the_servers_that_may_get_it() -> None:
    directory, registry = ServerDirectory(), Registry()
    safe, other = Locked("safe", directory), Locked("other", directory)
    shows = authorization(directory, registry, safe, other)
    assert not await shows.present(Token(GOOD, {"third"}))
    assert not await shows.present(Token(GOOD, {"safe"}), ["other"])
    assert (safe.shown, other.shown) == ([], [])
    assert await shows.present(Token(GOOD, {"safe"}))
    assert await shows.present(Token(GOOD), ["other"])
    assert (safe.shown, other.shown) == ([GOOD], [GOOD])


async def test_no_token_is_shown_to_nobody() -> None:
    directory, registry = ServerDirectory(), Registry()
    server = Locked("safe", directory)
    assert not await authorization(directory, registry, server).present(None)
    assert (server.shown, registry.updates) == ([], [])


@pytest.mark.parametrize("gone", [ActorCrashed("it crashed"), ActorUnavailable("it is stopping")])
async def test_a_server_that_is_gone_keeps_no_other_from_its_token(gone: Exception) -> None:
    directory, registry = ServerDirectory(), Registry()
    safe, broken = Locked("safe", directory), Locked("broken", directory, gone)
    shows = authorization(directory, registry, safe, broken)
    assert await shows.present(Token(GOOD))
    assert shows.wanted() == Wanted("broken", 401)
    assert registry.updates == [Update("safe", safe.tools)]
