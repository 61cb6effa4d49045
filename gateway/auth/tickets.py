"""Tickets: credentials for one stream, for programs that can set no headers on it, such as browsers.

A ticket is part of a URL, which may end up in logs. So it is valid once, for `TICKET_SECONDS`, and only for
streams. Its stream ends with the credential that the ticket was made with.
"""

from __future__ import annotations

import hashlib
import re
import secrets

import attrs
import trio

from ..http.identity import Identity
from ..http.request import Request
from .verifiers import RequestKind, Unverified

TICKET = "ticket"
"""The query parameter."""
TICKET_SECONDS = 30
MOST_TICKETS = 32
"""Maximum number of unused tickets of a principal. A further one replaces the oldest."""


_STREAM = re.compile(r"/events(/ws)?|/conversations/[^/]+/(events|ws)")


def is_stream(path: str) -> bool:
    """Whether a path is that of a stream, which takes a ticket."""
    return _STREAM.fullmatch(path) is not None


@attrs.frozen
class _Ticket:
    identity: Identity
    expires: float


@attrs.define(eq=False)
class Tickets:
    """The unused tickets, in memory. Expired ones are removed when further ones are made."""

    _unused: dict[bytes, _Ticket] = attrs.field(factory=dict)
    """By digest, the oldest first."""

    def make(self, identity: Identity) -> str:
        now = trio.current_time()
        self._unused = {key: each for key, each in self._unused.items() if each.expires > now}
        id = identity.principal.id
        own = [key for key, each in self._unused.items() if each.identity.principal.id == id]
        if len(own) >= MOST_TICKETS:
            del self._unused[own[0]]
        ticket = secrets.token_urlsafe(32)
        self._unused[_digest(ticket)] = _Ticket(identity, now + TICKET_SECONDS)
        return ticket

    def use(self, ticket: str) -> Identity | None:
        """The credential behind an unused ticket, which is used up; None if there is no such ticket."""
        found = self._unused.pop(_digest(ticket), None)
        if found is None or found.expires <= trio.current_time() or found.identity.lifetime.has_ended:
            return None
        return found.identity


@attrs.frozen(eq=False)
class TicketVerifier:
    tickets: Tickets
    kind: RequestKind = "ticket"

    def presents(self, request: Request) -> bool:
        """See `RequestVerifier`. Other routes refuse the parameter as unknown."""
        return TICKET in request.args and is_stream(request.path)

    async def verify(self, request: Request) -> Identity:
        identity = self.tickets.use(request.args[TICKET])
        if identity is None:
            raise Unverified("the ticket was used before, or is too old")
        return identity


def _digest(ticket: str) -> bytes:
    return hashlib.sha256(ticket.encode(errors="replace")).digest()
