"""Checks of the `auth:` section that compare several of its keys."""

from __future__ import annotations

from ..described.wording import nearest
from ..reading.reader import Reader
from ..sections.agent_config import AgentConfig
from ..sections.auth import ROLES, TrustedProxyConfig
from ..text.values import KeyPath, Table, Value, entry, mark_of

_RESERVED = frozenset(
    {"authorization", "cookie", "host", "x-api-key", "x-proxy-secret", "x-tool-authorization"}
)
"""Headers with another meaning."""


def check_auth(reader: Reader, root: Table, config: AgentConfig) -> None:
    """Report a section that accepts no credential, or that contradicts itself."""
    auth, written = config.auth, root.entries.get("auth")
    if auth is None or written is None:
        return
    if not (auth.api_keys or auth.oidc or auth.proxy):
        mark, hint = root.key_marks.get("auth"), "give api_keys: true, oidc or proxy"
        reader.report("missing_key", "auth accepts no credential", mark, ("auth",), hint=hint)
    roles = entry(written, "roles")
    for name in auth.roles:
        if name in ROLES and isinstance(roles, Table):
            message = f"the role {name} exists already"
            mark = roles.key_marks.get(name)
            reader.report("duplicate_name", message, mark, ("auth", "roles", name), hint="use another name")
    if auth.oidc is not None:
        given = entry(entry(written, "oidc"), "group_roles")
        for group, role in auth.oidc.group_roles.items():
            if role not in ROLES and role not in auth.roles:
                where = mark_of(entry(given, group))
                near = nearest(role, (*ROLES, *auth.roles))
                path: KeyPath = ("auth", "oidc", "group_roles", group)
                reader.report("unknown_role", f"there is no role {role}", where, path, hint=near)
    if auth.proxy is not None:
        _check_proxy(reader, auth.proxy, entry(written, "proxy"))


def _check_proxy(reader: Reader, proxy: TrustedProxyConfig, written: Value | None) -> None:
    path: KeyPath = ("auth", "proxy")
    mark = mark_of(written)

    def report(key: str, message: str) -> None:
        reader.report("conflicting_keys", message, mark_of(entry(written, key) or written), (*path, key))

    if proxy.secret is None and proxy.socket is None:
        message = "secret or socket is required; otherwise any client could send the headers"
        reader.report("missing_key", message, mark, path)
    for key in ("subject_header", "roles_header"):
        name: str = getattr(proxy, key)
        if name.lower() in _RESERVED:
            report(key, f"{name} has another meaning here")
    if proxy.subject_header.lower() == proxy.roles_header.lower():
        report("subject_header", "subject_header and roles_header are the same header")
