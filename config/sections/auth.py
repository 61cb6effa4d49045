"""The `auth:` section of an agent file, as frozen values: who may use the agent, and for what."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal, TypeAlias, get_args

import attrs

from ..described.shape import About, about, default
from .address import HEADERS, HTTPS

Role: TypeAlias = Literal["viewer", "operator", "approver", "relay", "admin"]
ROLES: tuple[Role, ...] = get_args(Role)
Algorithm: TypeAlias = Literal[
    "RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "EdDSA"
]
"""Only asymmetric algorithms: with a symmetric one, the issuer's public key could sign tokens."""
ApprovalKind: TypeAlias = Literal["tool", "proxy", "outcome_unknown", "elicitation", "checkpoint"]

_A_HEADER: Mapping[str, Any] = {name: getattr(HEADERS["keys"], name) for name in ("pattern", "meaning")}


@attrs.frozen(kw_only=True)
class ScopeConfig:
    """A role that approves in a part of the agent only. An omitted key matches everything."""

    NOT_EMPTY: ClassVar = True

    servers: tuple[str, ...] | None = default(
        None, "Names of tool servers, and `a2a:` with names of agents; `*` and `?` are wildcards."
    )
    tools: tuple[str, ...] | None = default(None, "Names of tools; `*` and `?` are wildcards.")
    nodes: tuple[str, ...] | None = default(None, "Names of nodes; `*` and `?` are wildcards.")
    kinds: tuple[ApprovalKind, ...] | None = default(None, "Kinds of approvals.")


@attrs.frozen(kw_only=True)
class LoginConfig:
    """The login of the page: authorization code with PKCE at the issuer."""

    client_id: str = attrs.field(metadata=about("Id of this client at the issuer.", not_empty=True))
    client_secret: str | None = default(
        None, "Client secret; write it as `${VAR}`. Default: a public client.", not_empty=True, repr=False
    )
    scopes: tuple[str, ...] = default(("openid", "profile"), "Scopes that the login requests.")
    session_hours: float = default(8.0, "Hours until a session ends.", above=0, maximum=720.0)


@attrs.frozen(kw_only=True)
class OidcConfig:
    """Bearer tokens of an OpenID Connect issuer as credentials, and the login of the page."""

    issuer: str = attrs.field(metadata=about("Address of the issuer, exactly as in its tokens.", **HTTPS))
    audience: str = attrs.field(metadata=about("The audience that a token must have.", not_empty=True))
    algorithms: tuple[Algorithm, ...] = default(("RS256",), "Signature algorithms that are accepted.")
    subject_claim: str = default("sub", "The claim that names the person.", not_empty=True)
    roles_claim: str = default(
        "roles",
        "The claim with the roles: a list, or a text with spaces. Dots lead into objects, as in "
        "`realm_access.roles` of Keycloak.",
        not_empty=True,
    )
    group_roles: Mapping[str, str] = default(
        attrs.Factory(dict),
        "The role of each value of that claim, such as the name or the id of a group. If given, other "
        "values mean nothing. Default: each value is the name of a role.",
    )
    login: LoginConfig | None = default(None, "The login of the page. Default: none.")


@attrs.frozen(kw_only=True)
class TrustedProxyConfig:
    """Identity headers of a proxy that authenticates. Requests need the secret, or arrive at the socket."""

    subject_header: str = default("X-Forwarded-User", "The header that names the person.", **_A_HEADER)
    roles_header: str = default(
        "X-Forwarded-Groups", "The header with the roles, separated by commas.", **_A_HEADER
    )
    secret: str | None = default(
        None,
        "Shared secret that the proxy sends as `X-Proxy-Secret`; write it as `${VAR}`.",
        not_empty=True,
        repr=False,
    )
    socket: str | None = default(
        None, "Path of a Unix socket to listen on; its requests come from the proxy.", not_empty=True
    )


@attrs.frozen(kw_only=True)
class PrincipalLimits:
    """Limits of each principal. A request beyond a limit gets 429."""

    requests_per_minute: int | None = default(None, "Requests in a minute. Default: no limit.", minimum=1)
    streams: int | None = default(None, "Open streams and websockets. Default: no limit.", minimum=1)
    runs: int | None = default(None, "Runs that have not ended. Default: no limit.", minimum=1)
    cost_usd_per_day: float | None = default(
        None, "US dollars for models in a day (UTC). Default: no limit.", above=0
    )


@attrs.frozen(kw_only=True)
class AuthConfig:
    """Who may use the agent, and for what. Requests need a credential, except to a few public paths."""

    api_keys: bool = default(False, "Whether API keys are accepted, which `stopgo keys` makes.")
    oidc: OidcConfig | None = default(
        None, "An OpenID Connect issuer whose tokens are accepted. Default: none."
    )
    proxy: TrustedProxyConfig | None = default(
        None, "A proxy whose identity headers are accepted. Default: none."
    )
    roles: Mapping[str, ScopeConfig] = default(
        attrs.Factory(dict),
        "Roles of your own, by name: approvers of a part of the agent. The roles `viewer`, `operator`, "
        "`approver`, `relay` and `admin` always exist.",
        keys=About("", pattern=r"[A-Za-z0-9_.@-]{1,64}", meaning="a name of at most 64 characters"),
    )
    forward_credential: tuple[str, ...] = default(
        (),
        "Tool servers and agents (`a2a:NAME`) that get the caller's JWT, although it is a credential of "
        "this agent. Default: none.",
        needs="oidc",
        empty="nothing",
    )
    limits: PrincipalLimits = default(PrincipalLimits(), "Limits of each principal.")
