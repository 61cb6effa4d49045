"""Servers that list their tools only to a client with a token: they get the tokens of runs."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import attrs
import trio

from ...runtime.errors import ActorCrashed, ActorUnavailable
from ...runtime.ref import ActorRef
from ..tools.needs import Wanted
from ..tools.registry import RegistryMessage, Update
from ..tools.tokens import Token
from ..tools.tool import Authenticate, ServerMessage
from .server_directory import ServerDirectory


@attrs.frozen(eq=False)
class Authorization:
    _directory: ServerDirectory
    _registry: ActorRef[RegistryMessage]
    _servers: Mapping[str, ActorRef[ServerMessage]]
    _required: Collection[str] = ()

    def wanted(self, servers: Collection[str] | None = None, *, required: bool = False) -> Wanted | None:
        """The credential that the first waiting server wants, among `servers` if given; None if no server
        waits.

        Args:
            required: leave out servers that the agent can do without.
        """
        for name, wanted in self._waiting().items():
            if (servers is None or name in servers) and (not required or name in self._required):
                return wanted
        return None

    async def present(self, token: Token | None, servers: Collection[str] | None = None) -> bool:
        """Give a token to all servers, or to these, that wait for one. Return, after they tried it, whether
        one accepted it."""
        waiting = self._waiting()
        if token is None or not waiting:
            return False
        async with trio.open_nursery() as nursery:
            for name in waiting if servers is None else waiting.keys() & servers:
                if (bearer := token.for_server(name)) is not None:
                    nursery.start_soon(self._present_to, name, bearer)
        return self._waiting().keys() != waiting.keys()

    async def _present_to(self, name: str, bearer: str) -> None:
        try:
            await self._servers[name].ask(Authenticate(bearer))
        except (ActorCrashed, ActorUnavailable):
            return
        # Update the registry now, because the report of the server reaches it later than this run continues.
        await self._registry.ask(Update(name, self._directory.servers[name].tools))

    def _waiting(self) -> dict[str, Wanted]:
        servers = self._directory.servers
        return {name: status.wanted for name, status in servers.items() if status.wanted is not None}
