"""The rights of a principal. Pure.

    ==============================  ========  ========  =====================  =====================  =====
    may                             viewer    operator  approver               relay                  admin
    ==============================  ========  ========  =====================  =====================  =====
    read a conversation             all       its own   with an approval in    its own                all
                                                        its scope
    create a conversation           no        yes       no                     yes                    yes
    send, cancel, complete, resume  no        its own   no                     its own                all
    delete                          no        its own   no                     no                     all
    decide an approval              no        no        in its scope           its own conversations  all
    see tools and health            yes       yes       yes                    yes                    yes
    accept a tool, halt             no        no        no                     no                     yes
    ==============================  ========  ========  =====================  =====================  =====

A principal with several roles has all their rights. A conversation that a principal may not read does not
exist for it (404); if it may read the conversation, but lacks a right, the error names the roles that have
the right (403).

A conversation without an owner was created without authentication; it belongs to the admins.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

from ...config.sections.auth import ROLES, Role
from ..common.errors import AgentError
from .principal import Principal

Right: TypeAlias = Literal["view", "read", "create", "command", "delete", "decide", "administer"]

_OF_ALL: dict[Right, tuple[Role, ...]] = {
    "view": ROLES,
    "read": ("viewer", "admin"),
    "create": ("operator", "relay", "admin"),
    "command": ("admin",),
    "delete": ("admin",),
    "decide": ("admin",),
    "administer": ("admin",),
}
"""The roles that have a right in every conversation."""

_OF_OWN: dict[Right, tuple[Role, ...]] = {
    "read": ("operator", "relay"),
    "command": ("operator", "relay"),
    "delete": ("operator",),
    "decide": ("relay",),
}
"""The roles that have a right in the conversations that they own."""


def may(principal: Principal, right: Right, owner: str | None = None) -> bool:
    """Whether the principal has the right in a conversation of this owner, apart from the scopes of
    approvers."""
    owns = bool(owner) and owner == principal.id
    return principal.has(*_OF_ALL[right]) or (owns and principal.has(*_OF_OWN.get(right, ())))


def reads_own(principal: Principal) -> bool:
    """Whether the principal may read the conversations that it owns."""
    return may(principal, "read", principal.id)


def covers(principal: Principal, *, kind: str, server: str, tool: str, node: str) -> bool:
    """Whether an approval is in a scope of the principal."""
    return any(
        each.role == "approver" and each.scope.covers(kind=kind, server=server, tool=tool, node=node)
        for each in principal.grants
    )


def relays(principal: Principal) -> bool:
    """Whether the principal decides for persons behind it, whom it names. A relay sends their decisions in
    structured form, because a text of a person may contain a word that decides."""
    return principal.has("relay") and not principal.has("approver", "admin")


def require(principal: Principal, right: Right, owner: str | None = None) -> None:
    """Raise `AgentError` ``role_required`` if the principal lacks the right."""
    if not may(principal, right, owner):
        raise role_required(principal, right)


def role_required(principal: Principal, right: Right) -> AgentError:
    roles = (*_OF_OWN.get(right, ()), *_OF_ALL[right], *(("approver",) if right == "decide" else ()))
    wanted = " or ".join(dict.fromkeys(roles))
    has = ", ".join(each.name for each in principal.grants) or "none"
    return AgentError(
        "role_required",
        f"this needs the role {wanted}",
        hint=f"{principal.id} has: {has}",
        details={"roles": list(dict.fromkeys(roles))},
    )
