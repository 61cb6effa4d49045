"""Tickets: credentials for one stream, for programs that can set no headers on it, such as browsers.

A ticket is part of a URL, which may end up in logs. So it is valid once, for `TICKET_SECONDS`, and only for
streams. Its stream ends with the credential that the ticket was made with.
"""

from __future__ import annotations

import hashlib
import re
import secrets
from collections.abc import Callable
from typing import TypeAlias

import attrs
import trio

from ...actors.access.principal import Grants
from ...actors.common.stored_json import readable, to_json
from ...runtime.journal.followed_notes import FollowedNotes
from ..http.identity import Identity, Lifetime
from ..http.request import HttpRequest
from .principal_note import PrincipalNote
from .verifiers import RequestKind, Unverified

TICKET = "ticket"
"""The query parameter."""
NOTE = "ticket"
"""The kind of the notes; their keys are digests."""
TICKET_SECONDS = 30
MOST_TICKETS = 32
"""Maximum number of unused tickets of a principal that a member has made. One more replaces the oldest."""


_STREAM = re.compile(r"/events(/ws)?|/conversations/[^/]+/(events|ws)")


def is_stream(path: str) -> bool:
    """Whether a path is that of a stream, which takes a ticket."""
    return _STREAM.fullmatch(path) is not None


@attrs.frozen
class _Ticket:
    by: PrincipalNote
    """The credential that it was made with."""
    until: float
    """UTC seconds."""


LifetimeOf: TypeAlias = Callable[[PrincipalNote], Lifetime | None]
"""The lifetime of a credential; None if it has ended, or is not known here."""


@attrs.define(eq=False)
class Tickets:
    """The unused tickets, which are notes of the journal, so that every member accepts them."""

    _notes: FollowedNotes
    _grants: Grants
    _lifetime_of: LifetimeOf
    _made: dict[str, tuple[str, float]] = attrs.field(factory=dict)
    """The principals and the ends of the tickets that this member has made, by digest, the oldest first."""

    async def load(self) -> None:
        """Remove the tickets that earlier processes have left. Raises `JournalError`."""
        now = self._notes.wall()
        for digest, body in (await self._notes.notes.notes(NOTE)).items():
            found = readable(body, _Ticket)
            if found is None or found.until <= now:
                await self._notes.notes.take_note(NOTE, digest)

    async def make(self, identity: Identity) -> str:
        """Raises `JournalError`."""
        now, id = self._notes.wall(), identity.principal.id
        old = [digest for digest, (_, until) in self._made.items() if until <= now]
        live = {digest: made for digest, made in self._made.items() if digest not in old}
        own = [digest for digest, (principal, _) in live.items() if principal == id]
        for digest in (*old, *own[: max(0, len(own) - MOST_TICKETS + 1)]):
            self._made.pop(digest, None)
            await self._notes.notes.take_note(NOTE, digest)
        end, until = identity.lifetime.expires, now + TICKET_SECONDS
        by = PrincipalNote.of(identity.principal, None if end is None else now + end - trio.current_time())
        ticket = secrets.token_urlsafe(32)
        await self._notes.notes.write_notes(NOTE, {_digest(ticket): to_json(_Ticket(by, until))})
        self._made[_digest(ticket)] = id, until
        return ticket

    async def use(self, ticket: str) -> Identity | None:
        """The credential behind an unused ticket, which is used up; None if there is no such ticket. Raises
        `JournalError`."""
        found = readable(await self._notes.notes.take_note(NOTE, _digest(ticket)), _Ticket)
        self._made.pop(_digest(ticket), None)
        if found is None or found.until <= self._notes.wall():
            return None
        lifetime = self._lifetime_of(found.by)
        if lifetime is None:
            await self._notes.poll()  # its credential may have been made at another member just now
            lifetime = self._lifetime_of(found.by)
        if lifetime is None or lifetime.has_ended:
            return None
        return Identity(found.by.principal(self._grants), lifetime=lifetime)


@attrs.frozen(eq=False)
class TicketVerifier:
    tickets: Tickets
    kind: RequestKind = "ticket"

    def presents(self, request: HttpRequest) -> bool:
        """See `RequestVerifier`. Other routes refuse the parameter as unknown."""
        return TICKET in request.args and is_stream(request.path)

    async def verify(self, request: HttpRequest) -> Identity:
        identity = await self.tickets.use(request.args[TICKET])
        if identity is None:
            raise Unverified("the ticket was used before, or is too old")
        return identity


def _digest(ticket: str) -> str:
    return hashlib.sha256(ticket.encode(errors="replace")).hexdigest()
