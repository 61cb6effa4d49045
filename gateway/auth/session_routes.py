"""The routes about the credential of a request: its principal, tickets for streams, the end of a session."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Self

import attrs

from ..contract.system_shapes import SessionBody, TicketBody
from ..http.errors import NotFound
from ..http.identity import Identity
from ..http.request import HttpRequest
from ..http.responses import Reply, View, nothing, reply
from .authenticator import Authenticator
from .sessions import COOKIE, Session, Sessions, cookie, csrf_token
from .tickets import TICKET_SECONDS, Tickets


@attrs.frozen
class SessionRoutes:
    sessions: Sessions | None
    """None: the page has no login."""
    tickets: Tickets | None
    """None: the agent has no `auth:`."""

    @classmethod
    def of(cls, authenticator: Authenticator | None) -> Self:
        """None: the agent has no `auth:`."""
        if authenticator is None:
            return cls(None, None)
        login = authenticator.login
        return cls(login.sessions if login else None, authenticator.tickets)

    def views(self) -> Mapping[str, View]:
        """By id of the operation."""
        return {"getSession": self.session, "createTicket": self.ticket, "endSession": self.logout}

    async def session(self, request: HttpRequest) -> Reply:
        principal = request.principal
        if principal is None:
            return reply(SessionBody(roles=()))
        session = await self._session(request)
        roles = [grant.name for grant in principal.grants]
        csrf = csrf_token(request.cookies[COOKIE]) if session else None
        return reply(SessionBody(subject=principal.id, roles=roles, csrf=csrf))

    async def ticket(self, request: HttpRequest) -> Reply:
        identity = request.identity
        if identity is None or self.tickets is None:  # streams need no ticket
            raise NotFound
        await request.json(())
        # Streams only read, so they need no token for tools.
        ticket = await self.tickets.make(Identity(identity.principal, lifetime=identity.lifetime))
        return reply(TicketBody(ticket=ticket, expires_in=TICKET_SECONDS))

    async def logout(self, request: HttpRequest) -> Reply:
        await request.json(())
        session = await self._session(request)
        if self.sessions is None or session is None:
            return nothing()
        await self.sessions.end(session)
        return nothing({"Set-Cookie": cookie(COOKIE, "", seconds=0)})

    async def _session(self, request: HttpRequest) -> Session | None:
        """The session that is the credential of the request."""
        if self.sessions is None or request.identity is None:
            return None
        found = await self.sessions.find(request.cookies.get(COOKIE, ""))
        return found if found and found.identity.lifetime is request.identity.lifetime else None
