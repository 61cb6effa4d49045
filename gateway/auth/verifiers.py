"""The interfaces of the verifiers of credentials."""

from __future__ import annotations

from typing import Literal, Protocol, TypeAlias

from ..http.errors import CHALLENGE, RequestError
from ..http.identity import Identity
from ..http.request import HttpRequest

RequestKind: TypeAlias = Literal["ticket", "session", "proxy"]
"""Credentials that are not in `X-API-Key` or `Authorization`."""


class Unverified(Exception):
    """A credential that does not verify. The text says why, and quotes nothing of it."""


class BearerVerifier(Protocol):
    """Verifies the tokens of an issuer."""

    async def verify(self, token: str) -> Identity:
        """The identity of the token, without a token for tools. Raises `Unverified`, and `RequestError`."""
        ...


class RequestVerifier(Protocol):
    """Verifies sessions, tickets, or the identities of a proxy."""

    @property
    def kind(self) -> RequestKind: ...

    def presents(self, request: HttpRequest) -> bool:
        """Whether the request has such a credential, valid or not."""
        ...

    async def verify(self, request: HttpRequest) -> Identity:
        """The identity of the credential that `presents` has found. Raises as `BearerVerifier.verify`."""
        ...


def without_credential() -> RequestError:
    """The answer to a request without any credential."""
    return RequestError(
        401,
        "unauthenticated",
        "this agent requires a credential",
        hint="Send an API key as `X-API-Key`, or a token as `Authorization: Bearer TOKEN`.",
        headers=CHALLENGE,
    )
