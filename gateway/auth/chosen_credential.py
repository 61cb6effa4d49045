"""The credential of a request, and its token for tools. Pure.

    ===========  =================  ======================  ===================  ==================
    `X-API-Key`  session or ticket  `Authorization: Bearer`  the credential is    the token for tools
    ===========  =================  ======================  ===================  ==================
    K            any                B                        K                    T, else B
    none         S                  B                        S                    T, else B
    none         none               B                        B                    T; rule 4
    none         none               none                     none: 401
    ===========  =================  ======================  ===================  ==================

1. T is the token of `X-Tool-Authorization: Bearer T`.
2. A request of a trusted proxy has an identity like a session. Its `Authorization` is the proxy's, so its
   token for tools is T only, whatever its credential is.
3. A token for tools that has the form of an API key, or is a JWT for the agent's audience, is refused: it is
   a credential of an agent, and servers that receive it could use it.
4. With `auth.forward_credential`, a JWT for the agent's audience is also a token for tools, for the servers
   and agents that are listed there: B, even as the credential, or T.
5. The first credential of this order counts. If it is malformed or not valid, the request is refused,
   whatever else it has. So is a request that repeats a header.
6. A bearer token that begins like an API key is one.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TypeAlias

import attrs

from ..http.errors import RequestError, unauthenticated
from ..http.headers import bearer_of, invalid_token
from ..http.request import Headers
from .jwt_verifier import is_for
from .principal_names import KEY_MARK
from .verifiers import RequestKind, without_credential

KEY = "X-API-Key"
AUTHORIZATION = "Authorization"
TOOL_AUTHORIZATION = "X-Tool-Authorization"
_ORDER: tuple[RequestKind, ...] = ("ticket", "session", "proxy")


@attrs.frozen
class GivenKey:
    """An API key."""

    text: str = attrs.field(repr=False)


@attrs.frozen
class GivenToken:
    """A token of an issuer."""

    text: str = attrs.field(repr=False)


@attrs.frozen
class GivenByRequest:
    """A session, a ticket or the identity of a proxy."""

    kind: RequestKind


Credential: TypeAlias = GivenKey | GivenToken | GivenByRequest


@attrs.frozen
class ChosenCredential:
    credential: Credential
    tool_token: str | None = attrs.field(default=None, repr=False)
    forward_to: tuple[str, ...] | None = None
    """The servers and agents (`a2a:NAME`) that may get the token for tools; None: all that forward tokens."""


def choose(
    headers: Headers,
    presented: Collection[RequestKind] = (),
    *,
    audience: str | None = None,
    forward_credential: Sequence[str] = (),
) -> ChosenCredential:
    """Find credential and token for tools.

    Args:
        presented: the other kinds of credentials that the request has.
        audience: the audience of the tokens that are credentials; None: tokens are not accepted.
        forward_credential: servers and agents that may get such a token.

    Raises:
        RequestError: 401 ``unauthenticated``; 400 ``invalid_token``, ``credential_as_tool_token``, or
            ``invalid_request`` for a repeated header.
    """
    key, authorization, tool = (_only(headers, name) for name in (KEY, AUTHORIZATION, TOOL_AUTHORIZATION))
    credential = _credential(key, authorization, presented)
    if tool is not None:
        token = bearer_of(tool)
        if token is None:
            raise invalid_token(TOOL_AUTHORIZATION)
    elif "proxy" in presented or authorization is None:
        return ChosenCredential(credential)
    elif key is not None or presented:
        token = bearer_of(authorization)
    elif isinstance(credential, GivenToken) and forward_credential and _is_for(credential.text, audience):
        return ChosenCredential(credential, credential.text, tuple(forward_credential))
    else:  # it is only the credential
        return ChosenCredential(credential)
    is_key = token is not None and token.startswith(KEY_MARK)
    if token is None or not (is_key or _is_for(token, audience)):
        return ChosenCredential(credential, token)
    if is_key or not forward_credential:
        raise _credential_as_tool_token(is_key)
    return ChosenCredential(credential, token, tuple(forward_credential))


def _is_for(token: str, audience: str | None) -> bool:
    return audience is not None and is_for(token, audience)


def _credential(key: str | None, authorization: str | None, presented: Collection[RequestKind]) -> Credential:
    if key is not None:
        return GivenKey(key)
    for kind in _ORDER:
        if kind in presented:
            return GivenByRequest(kind)
    if authorization is None:
        raise without_credential()
    try:
        token = bearer_of(authorization)
    except RequestError:
        raise unauthenticated() from None
    if token is None:
        raise unauthenticated()
    return GivenKey(token) if token.startswith(KEY_MARK) else GivenToken(token)


def _only(headers: Headers, name: str) -> str | None:
    """The value of a header. Raises `RequestError` if the header is repeated."""
    values = headers.getlist(name)
    if len(values) > 1:
        raise RequestError(400, "invalid_request", f"the header {name} is repeated", details={"field": name})
    return values[0].strip() if values else None


def _credential_as_tool_token(is_key: bool) -> RequestError:
    if is_key:
        message = "the token for tools is an API key of an agent"
        hint = f"Send the key as `{KEY}`, and a token of the tools as `{TOOL_AUTHORIZATION}: Bearer TOKEN`."
    else:
        message = "the token for tools is a credential of this agent"
        hint = "To let servers have it, list them in the agent file: `auth: {forward_credential: [NAME]}`."
    return RequestError(400, "credential_as_tool_token", message, hint=hint)
