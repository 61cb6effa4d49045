"""Parsing of the request headers that the routes use. Pure."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence

from .errors import RequestError
from .request import Headers, HttpRequest

MAX_KEY = 255
"""Characters of an Idempotency-Key."""
MAX_TOKEN = 8192
"""Characters of a bearer token."""

_PRINTABLE = re.compile(r"[\x20-\x7e]+")
_TOKEN = re.compile(r"[\x21-\x7e]+")


def bearer(headers: Headers) -> str | None:
    """The bearer token, if there is one. Other schemes are ignored.

    A token that cannot be forwarded is refused, because otherwise the calls would be sent without one.
    """
    return bearer_of(headers.get("Authorization", ""))


def bearer_of(value: str) -> str | None:
    """`bearer` of the value of a header. Raises `invalid_token`."""
    scheme, _, token = value.strip().partition(" ")
    if scheme.lower() != "bearer":
        return None
    token = token.strip()
    if not _TOKEN.fullmatch(token) or len(token) > MAX_TOKEN:
        raise invalid_token()
    return token


def invalid_token(header: str = "Authorization") -> RequestError:
    return RequestError(
        400,
        "invalid_token",
        "the bearer token is not valid",
        hint=f"Send `{header}: Bearer TOKEN`, at most {MAX_TOKEN} characters without spaces.",
    )


def idempotency_key(headers: Headers, method: str, path: str) -> str | None:
    """The Idempotency-Key, scoped to this route and path."""
    given = headers.get("Idempotency-Key")
    if given is None:
        return None
    if len(given) > MAX_KEY or not _PRINTABLE.fullmatch(given):
        raise RequestError(
            400,
            "invalid_idempotency_key",
            f"Idempotency-Key must be 1 to {MAX_KEY} printable ASCII characters",
        )
    return hashlib.sha256(f"{method}\n{path}\n{given}".encode()).hexdigest()


def tool_token(request: HttpRequest) -> str | None:
    """The bearer token that calls of tools and agents forward. Raises `RequestError` if it is invalid."""
    return bearer(request.headers) if request.identity is None else request.identity.token


def post_key(request: HttpRequest) -> str | None:
    """`idempotency_key` of a request, as a key of its principal."""
    key = idempotency_key(request.headers, request.method, request.path)
    return None if key is None else own_key(request, key)


def own_key(request: HttpRequest, key: str) -> str:
    """A key that no other principal has. It is derived from the id of the principal, not from its credential,
    so that it survives the rotation of an API key."""
    if request.principal is None:
        return key
    return hashlib.sha256(f"{request.principal.id}\n{key}".encode()).hexdigest()


RESPOND_ASYNC = "respond-async"
RETURN_MINIMAL = "return=minimal"


def wants_async(headers: Headers) -> bool:
    """Whether the client wants an answer before the work is done (RFC 7240)."""
    return RESPOND_ASYNC in _preferences(headers)


def wants_minimal(headers: Headers) -> bool:
    """Whether the client wants no more than it needs (RFC 7240)."""
    return RETURN_MINIMAL in _preferences(headers)


def _preferences(headers: Headers) -> Sequence[str]:
    given = (each.partition(";")[0] for each in headers.get("Prefer", "").lower().split(","))
    return ["=".join(part.strip(' \t"') for part in each.split("=")) for each in given]
