"""Sessions of the page, and their tokens against forged requests (CSRF).

A session has a random id of 256 bits, which only its cookie has. The server finds it by its digest, in
memory, so a restart ends all sessions. Each login makes a new one.

The cookie is `__Host-` (for this host only; other hosts cannot set it) and `Strict` (not sent with requests
that other sites cause). Browsers count other ports of a host as the same site, so every request that changes
something also needs the session's CSRF token, which only pages of the agent's origin can read.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets

import attrs
import trio

from ...actors.access.principal import Principal
from ..http.errors import RequestError
from ..http.identity import Identity, Lifetime
from ..http.request import Request
from .verifiers import RequestKind, Unverified

COOKIE = "__Host-stopgo"
CSRF_HEADER = "X-CSRF-Token"
SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
MOST_SESSIONS = 10_000
"""Maximum number of sessions. A further one ends the oldest."""


@attrs.frozen(eq=False)
class Session:
    digest: bytes
    identity: Identity
    csrf: str = attrs.field(repr=False)


@attrs.define(eq=False)
class Sessions:
    seconds: float
    """Seconds until a session ends."""
    _secret: bytes = attrs.field(factory=lambda: secrets.token_bytes(32), repr=False)
    _open: dict[bytes, Session] = attrs.field(factory=dict)
    """By digest, the oldest first."""

    def begin(self, principal: Principal) -> str:
        """Begin a session. Returns its id, for the cookie."""
        for old in list(self._open.values()):
            if old.identity.lifetime.has_ended or len(self._open) >= MOST_SESSIONS:
                self.end(old)
        id = secrets.token_urlsafe(32)
        digest = _digest(id)
        identity = Identity(
            attrs.evolve(principal, credential=f"session:{digest.hex()[:16]}"),
            lifetime=Lifetime(trio.current_time() + self.seconds),
        )
        csrf = hmac.digest(self._secret, digest, "sha256").hex()
        self._open[digest] = Session(digest, identity, csrf)
        return id

    def find(self, id: str) -> Session | None:
        found = self._open.get(_digest(id))
        return None if found is None or found.identity.lifetime.has_ended else found

    def end(self, session: Session) -> None:
        """End a session, with its streams."""
        self._open.pop(session.digest, None)
        session.identity.lifetime.revoked.set()


@attrs.frozen(eq=False)
class SessionVerifier:
    sessions: Sessions
    kind: RequestKind = "session"

    def presents(self, request: Request) -> bool:
        return COOKIE in request.cookies

    async def verify(self, request: Request) -> Identity:
        """See `RequestVerifier`. Raises also `RequestError` ``invalid_csrf_token``."""
        session = self.sessions.find(request.cookies[COOKIE])
        if session is None:
            raise Unverified("the session has ended")
        given = request.headers.get(CSRF_HEADER, "")
        if request.method not in SAFE_METHODS and not is_csrf_token(session, given):
            raise RequestError(
                403,
                "invalid_csrf_token",
                f"a request with a session that changes something needs its {CSRF_HEADER}",
                hint="`csrf` of GET /session is the value of the header.",
            )
        return session.identity


def is_csrf_token(session: Session, given: str) -> bool:
    return hmac.compare_digest(given.encode(), session.csrf.encode())


def cookie(name: str, value: str, *, seconds: float, same_site: str = "Strict") -> str:
    """The header `Set-Cookie` of a cookie for this host only; with 0 seconds, the cookie is removed."""
    return f"{name}={value}; Path=/; Max-Age={seconds:.0f}; Secure; HttpOnly; SameSite={same_site}"


def _digest(id: str) -> bytes:
    return hashlib.sha256(id.encode(errors="replace")).digest()
