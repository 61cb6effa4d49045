"""The additions of `auth:` to the description of an operation. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, TypeAlias

import attrs

from ...config.sections.auth import AuthConfig
from ..auth.tickets import TICKET, is_stream
from ..contract.operation import Operation, error, header, query
from ..contract.system_shapes import Readiness

Scheme: TypeAlias = Literal["apiKey", "bearer"]

SCHEMES: Mapping[Scheme, Mapping[str, str]] = {
    "apiKey": {
        "type": "apiKey",
        "in": "header",
        "name": "X-API-Key",
        "description": "An API key, which `stopgo keys` makes.",
    },
    "bearer": {
        "type": "http",
        "scheme": "bearer",
        "description": "An API key, or a token of the agent's issuer. Beside another credential, "
        "`Authorization` is the token for tools.",
    },
}
"""Security schemes, as OpenAPI writes them."""

_TOOL_TOKEN = header(
    "X-Tool-Authorization",
    "`Bearer TOKEN`, forwarded to tool servers, never stored",
    pattern="^Bearer [!-~]+$",
)
_TICKET = query(TICKET, "A ticket of `POST /ticket`, in place of another credential")
_RESPONSES = (
    error(400, "`invalid_token`, `credential_as_tool_token`, or `invalid_request` for a repeated header"),
    attrs.evolve(
        error(401, "`unauthenticated`: there is no credential, or it is not valid"),
        headers={"WWW-Authenticate": "`Bearer`"},
    ),
    error(
        403,
        "`role_required`: `roles` names the roles that may do this. `invalid_csrf_token`: a request of a "
        "session that changes something lacks its `X-CSRF-Token`",
    ),
    error(429, "`limit_reached`: a limit of the principal"),
    error(503, "`issuer_unavailable`: the issuer of the tokens cannot be reached"),
)


def schemes_of(auth: AuthConfig) -> tuple[Scheme, ...]:
    """The schemes of the credentials that clients send. A proxy and the login of the page have their own."""
    return (*(("apiKey",) if auth.api_keys else ()), *(("bearer",) if auth.api_keys or auth.oidc else ()))


def with_auth(operation: Operation) -> Operation:
    """The operation of an agent with `auth:`."""
    if operation.id == "getReadiness":  # without a credential, the answer is short
        short = (attrs.evolve(each, body=Readiness | Mapping[str, str]) for each in operation.own_responses)
        return attrs.evolve(operation, own_responses=tuple(short))
    if operation.is_public or operation.otherwise is not None:
        return operation
    success = operation.own_responses[0]
    by_status = {each.status: each for each in operation.responses}
    for each in _RESPONSES:
        known = by_status.get(each.status)
        text = each.description if known is None else f"{known.description}; {each.description}"
        by_status[each.status] = attrs.evolve(each, description=text)
    parameters = operation.own_parameters
    if any(each.name == "Authorization" for each in parameters):
        parameters = (*parameters, _TOOL_TOKEN)
    if is_stream(operation.path):
        parameters = (*parameters, _TICKET)
    del by_status[success.status]
    return attrs.evolve(operation, own_responses=(success, *by_status.values()), own_parameters=parameters)


def security(operation: Operation, schemes: tuple[Scheme, ...]) -> list[dict[str, Any]]:
    """The alternatives of which a request needs one; none if the operation is public."""
    return [] if operation.is_public else [{scheme: []} for scheme in schemes]
