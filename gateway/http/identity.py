"""The identity behind a request: its principal, the token for tools, and how long the credential is valid."""

from __future__ import annotations

import math
from collections.abc import Collection

import attrs
import trio

from ...actors.access.principal import Principal
from .stream_count import StreamCount


@attrs.frozen(eq=False)
class Lifetime:
    """How long a credential is valid. Streams end with it."""

    expires: float | None = None
    """On trio's clock; None: it does not expire."""
    revoked: trio.Event = attrs.field(factory=trio.Event)

    @property
    def has_ended(self) -> bool:
        """Whether the credential has expired or was revoked."""
        return self.revoked.is_set() or (self.expires is not None and self.expires <= trio.current_time())

    async def ended(self) -> None:
        """Return when the credential has expired or was revoked."""
        with trio.move_on_at(math.inf if self.expires is None else self.expires):
            await self.revoked.wait()


@attrs.frozen(eq=False)
class Identity:
    """The verified sender of a request."""

    principal: Principal
    token: str | None = attrs.field(default=None, repr=False)
    """The bearer token that calls of tools and agents forward. Never the credential itself, unless
    `auth.forward_credential` allows it."""
    lifetime: Lifetime = attrs.field(factory=Lifetime)
    streams: StreamCount | None = None
    """The open streams of the principal, if they are limited."""

    def with_token(self, token: str, servers: Collection[str] | None) -> Identity:
        """The same identity with this token for tools. `servers`: the tool servers and agents (`a2a:NAME`)
        that may get it, if it is a credential; None: all that get bearer tokens."""
        principal = self.principal
        if servers is not None:
            principal = attrs.evolve(principal, token_servers=frozenset(servers))
        return attrs.evolve(self, principal=principal, token=token)
