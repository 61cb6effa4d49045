"""Principals in notes, for sessions and tickets, which all members accept."""

from __future__ import annotations

import attrs
import trio

from ...actors.access.principal import Grants, Principal, granted
from ..http.identity import Lifetime


@attrs.frozen
class PrincipalNote:
    """A principal whose credential ends at `expires`, in UTC seconds; None: it does not expire."""

    subject: str
    roles: tuple[str, ...]
    credential: str
    person: bool
    expires: float | None
    ended: bool = False
    """Whether it has ended before it expires."""

    @classmethod
    def of(cls, principal: Principal, expires: float | None) -> PrincipalNote:
        roles = tuple(grant.name for grant in principal.grants)
        return cls(principal.id, roles, principal.credential, principal.is_person, expires)

    def principal(self, grants: Grants) -> Principal:
        return Principal(
            id=self.subject,
            grants=granted(self.roles, grants),
            credential=self.credential,
            is_person=self.person,
        )

    def lifetime(self, now: float) -> Lifetime:
        """The lifetime of a credential that cannot be revoked."""
        return Lifetime(None if self.expires is None else trio.current_time() + self.expires - now)

    def has_expired(self, now: float) -> bool:
        return self.expires is not None and self.expires <= now
