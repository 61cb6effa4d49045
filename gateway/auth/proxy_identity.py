"""Identities that a trusted proxy states in headers.

===========================  ============================  ===========================
the request                  has an identity header or     has neither
                             `X-Proxy-Secret`
===========================  ============================  ===========================
arrived at the socket        comes from that person        has no such credential
has the secret               comes from that person        -
has neither                  is refused                    has no such credential
===========================  ============================  ===========================

A request is also refused if one of the headers is repeated, because the client may have sent the first one,
or if the proxy names no person. It is refused even if it has another credential.
"""

from __future__ import annotations

import hmac
import logging

import attrs

from ...actors.access.principal import Grants, Principal, granted
from ...config.sections.auth import TrustedProxyConfig
from ..http.errors import unauthenticated
from ..http.identity import Identity
from ..http.request import Headers, HttpRequest
from .jwt_verifier import MOST_ROLES, subject_of
from .verifiers import RequestKind, Unverified

log = logging.getLogger(__name__)

SECRET_HEADER = "X-Proxy-Secret"
PROXY = "proxy"
"""The id of the credential of all persons that the proxy names."""


def stated_person(
    headers: Headers, config: TrustedProxyConfig, known: Grants, *, via_socket: bool
) -> Principal | None:
    """The person that the proxy names; None if the request does not claim to come from it. Pure.

    `via_socket`: whether the request arrived at the socket of the proxy. Raises `Unverified`.
    """
    names = (config.subject_header, config.roles_header, SECRET_HEADER)
    if not any(name in headers for name in names):
        return None
    if any(len(headers.getlist(name)) > 1 for name in names):
        raise Unverified("a header of the proxy is repeated")
    if not via_socket and not _is_secret(headers.get(SECRET_HEADER, ""), config.secret):
        raise Unverified("the headers of the proxy come without its secret")
    subject = subject_of(_text(headers.get(config.subject_header, "")))
    roles = [name.strip() for name in _text(headers.get(config.roles_header, "")).split(",")[:MOST_ROLES]]
    return Principal(id=subject, grants=granted(roles, known), credential=PROXY)


def _is_secret(given: str, secret: str | None) -> bool:
    return secret is not None and hmac.compare_digest(given.encode("latin-1"), secret.encode())


def _text(value: str) -> str:
    """The text of a header. The server decodes headers as Latin-1, and proxies send UTF-8."""
    try:
        return value.encode("latin-1").decode()
    except UnicodeError:
        raise Unverified("a header of the proxy is not UTF-8") from None


@attrs.frozen(eq=False)
class ProxyVerifier:
    """Verifies the identities of the proxy."""

    config: TrustedProxyConfig
    known: Grants
    kind: RequestKind = "proxy"

    def presents(self, request: HttpRequest) -> bool:
        """See `RequestVerifier`. Raises `unauthenticated` for headers that do not come from the proxy, which
        must not be ignored if the request has another credential."""
        return self._person(request) is not None

    async def verify(self, request: HttpRequest) -> Identity:
        person = self._person(request)
        assert person is not None
        return Identity(person)

    def _person(self, request: HttpRequest) -> Principal | None:
        try:
            return stated_person(request.headers, self.config, self.known, via_socket=request.via_socket)
        except Unverified as error:
            log.warning("a request of the client %s is refused: %s", request.peer or "of the socket", error)
            raise unauthenticated() from None
