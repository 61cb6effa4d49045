"""Principals: the persons and programs on whose behalf commands run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeAlias

import attrs

from ...config.sections.auth import ROLES, Role, ScopeConfig
from ...config.text.wildcards import is_named

KEY_PREFIX = "key:"
"""Begins the ids of principals whose API key has no subject. So no subject may begin with it."""


@attrs.frozen
class Scope:
    """The approvals that an approver may decide. None matches everything."""

    servers: tuple[str, ...] | None = None
    tools: tuple[str, ...] | None = None
    nodes: tuple[str, ...] | None = None
    kinds: tuple[str, ...] | None = None

    def covers(self, *, kind: str, server: str, tool: str, node: str) -> bool:
        given = ((self.servers, server), (self.tools, tool), (self.nodes, node), (self.kinds, kind))
        return all(wanted is None or any(is_named(value, each) for each in wanted) for wanted, value in given)


@attrs.frozen
class Grant:
    """A role that a principal has."""

    name: str
    """Its name: that of a role, or a name in `auth.roles`."""
    role: Role
    scope: Scope = Scope()
    """Only for approvers."""


@attrs.frozen(kw_only=True)
class Principal:
    """A person or a program, as a verified credential names it."""

    id: str
    """The subject of the credential; for an API key without one, ``key:`` and its name. It owns
    conversations and idempotency keys, and is stored as the author of commands and decisions."""
    grants: tuple[Grant, ...]
    credential: str = ""
    """The id of the credential, such as the id of an API key. A vote lapses with its credential."""
    is_person: bool = True
    """Whether the credential names a person, and no program. See also `is_known_person`."""
    token_servers: frozenset[str] | None = None
    """The tool servers and agents that get the bearer token of its request, because the token is also its
    credential; None: all that get bearer tokens."""

    def has(self, *roles: Role) -> bool:
        """Whether the principal has one of the roles."""
        return any(each.role in roles for each in self.grants)

    @property
    def is_known_person(self) -> bool:
        """Whether it is known which person sends its requests, so that its votes count towards a quorum. A
        relay is a person that passes on the words of others."""
        return self.is_person and not self.has("relay")

    @property
    def names(self) -> frozenset[str]:
        """The names by which rules can list the principal as an approver."""
        return frozenset({f"subject:{self.id}", *(each.name for each in self.grants)})


Grants: TypeAlias = Mapping[str, Grant]
"""Every role of an agent, by name."""


def all_grants(own: Mapping[str, ScopeConfig]) -> Grants:
    """The built-in roles, and the agent's own ones."""
    built_in: dict[str, Grant] = {role: Grant(role, role) for role in ROLES}
    scoped = {
        name: Grant(name, "approver", Scope(each.servers, each.tools, each.nodes, each.kinds))
        for name, each in own.items()
    }
    return {**scoped, **built_in}


def granted(names: Iterable[str], known: Grants) -> tuple[Grant, ...]:
    """The grants with these names; unknown names grant nothing."""
    return tuple(known[name] for name in dict.fromkeys(names) if name in known)
