"""The request headers that mean something here. Pure."""

from __future__ import annotations

import hashlib
import re

from werkzeug.datastructures import Headers

from .errors import RequestError
from .loopback import is_loopback

MAX_KEY = 255
"""Characters of an Idempotency-Key."""
MAX_TOKEN = 8192
"""Characters of a bearer token."""

_PRINTABLE = re.compile(r"[\x20-\x7e]+")
_PORT = re.compile(r":\d*$")
_TOKEN = re.compile(r"[\x21-\x7e]+")


def bearer(headers: Headers) -> str | None:
    """The bearer token, if there is one. Other schemes are not ours to forward.

    A token that cannot be forwarded is refused, for without it the calls would go out anonymously.
    """
    scheme, _, token = headers.get("Authorization", "").strip().partition(" ")
    if scheme.lower() != "bearer":
        return None
    token = token.strip()
    if not _TOKEN.fullmatch(token) or len(token) > MAX_TOKEN:
        raise RequestError(
            400,
            "invalid_token",
            "the bearer token is not valid",
            hint=f"Send `Authorization: Bearer TOKEN`, at most {MAX_TOKEN} characters without spaces.",
        )
    return token


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


def wants_async(headers: Headers) -> bool:
    """Whether the client asks to be answered before the work is done (RFC 7240)."""
    preferences = headers.get("Prefer", "").lower().split(",")
    return any(preference.partition(";")[0].strip() == "respond-async" for preference in preferences)


def refuse_cross_site(headers: Headers) -> None:
    """Refuse what a page of another site makes a browser send.

    Bodies are read as JSON whatever their content type, so without this any page a person looks at could
    talk to an agent on their machine. Browsers set these headers, pages cannot; `Sec-Fetch-Site` only
    over HTTPS and to the machine they run on, so elsewhere `Origin` has to do.
    """
    site, origin = headers.get("Sec-Fetch-Site", "").lower(), headers.get("Origin")
    foreign = origin is not None and origin.partition("://")[2].lower() != headers.get("Host", "").lower()
    if site == "cross-site" or (not site and foreign):
        raise RequestError(
            403,
            "cross_site",
            "a page of another site may not change anything here",
            hint="Pages that come through a proxy have to come by https.",
        )


def refuse_other_hosts(headers: Headers) -> None:
    """Refuse what was sent to another name than that of this machine, for an agent that listens to it alone.

    A page may have its own name lead to 127.0.0.1 (DNS rebinding). To the browser the agent then is that
    page's own site: it could read everything, and approve. A name of one word is given by whoever runs
    the network; nobody can have one on the internet.
    """
    host = headers.get("Host", "")
    name = _PORT.sub("", host).strip("[]")
    if ("." in name or ":" in name) and not is_loopback(name):
        raise RequestError(
            421,
            "wrong_host",
            f"this agent listens to its own machine alone, and {host!r} is not its name",
            hint="Use localhost or 127.0.0.1; a proxy in front of it has to send `Host: localhost`.",
        )
