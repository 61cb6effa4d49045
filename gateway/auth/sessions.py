"""Sessions of the page, and their tokens against forged requests (CSRF).

A session has a random id of 256 bits, which only its cookie has. The server finds it by its digest, which is
in the journal, so that all members accept the session. Each login makes a new one.

The cookie is `__Host-` (for this host only; other hosts cannot set it) and `Strict` (not sent with requests
that other sites cause). Browsers count other ports of a host as the same site, so every request that changes
something also needs the session's CSRF token, which only pages of the agent's origin can read.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Mapping

import attrs

from ...actors.access.principal import Grants, Principal
from ...actors.common.stored_json import readable, to_json
from ...runtime.journal.followed_notes import FollowedNotes
from ...runtime.journal.protocol import Json
from ..http.errors import RequestError
from ..http.identity import Identity, Lifetime
from ..http.request import HttpRequest
from .principal_note import PrincipalNote
from .verifiers import RequestKind, Unverified

COOKIE = "__Host-stopgo"
NOTE = "session"
"""The kind of the notes; their keys are digests."""
SESSION = "session:"
"""The beginning of the ids of these credentials."""
CSRF_HEADER = "X-CSRF-Token"
SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
MOST_SESSIONS = 10_000
"""Maximum number of sessions. A further one ends the oldest."""


@attrs.frozen(eq=False)
class Session:
    digest: str
    identity: Identity
    note: PrincipalNote


@attrs.define(eq=False)
class Sessions:
    """The sessions, which are notes of the journal. Call `load` before the first use."""

    seconds: float
    """Seconds until a session ends."""
    _notes: FollowedNotes
    _grants: Grants
    _open: dict[str, Session] = attrs.field(factory=dict)
    """By digest, the oldest first."""

    async def load(self) -> None:
        """Read the sessions, and follow those that begin and end at other members. Raises `JournalError`."""
        await self._notes.follow(NOTE, self._apply)

    async def begin(self, principal: Principal) -> str:
        """Begin a session. Returns its id, for the cookie. Raises `JournalError`."""
        now = self._notes.wall()
        for old in tuple(self._open.values()):
            if old.note.has_expired(now):
                self._forget(old)
                await self._notes.notes.take_note(NOTE, old.digest)
            elif len(self._open) >= MOST_SESSIONS:
                await self.end(old)
        id = secrets.token_urlsafe(32)
        digest = _digest(id)
        named = attrs.evolve(principal, credential=f"{SESSION}{digest[:16]}")
        note = PrincipalNote.of(named, now + self.seconds)
        await self._notes.notes.write_notes(NOTE, {digest: to_json(note)})
        self._add(digest, note)
        return id

    async def find(self, id: str) -> Session | None:
        """The session with this id, if it has not ended. Raises `JournalError`."""
        digest = _digest(id)
        if digest not in self._open:
            await self._notes.poll()  # it may have begun at another member just now
        found = self._open.get(digest)
        return None if found is None or found.identity.lifetime.has_ended else found

    def lifetime(self, credential: str) -> Lifetime | None:
        """The lifetime of a session by the id of its credential; None if it has ended."""
        sessions = (each for each in self._open.values() if each.note.credential == credential)
        return next((each.identity.lifetime for each in sessions), None)

    async def end(self, session: Session) -> None:
        """End a session, with its streams. Raises `JournalError`."""
        ended = attrs.evolve(session.note, ended=True)  # kept until it expires, so that other members see it
        await self._notes.notes.write_notes(NOTE, {session.digest: to_json(ended)})
        self._forget(session)

    async def _apply(self, notes: Mapping[str, Json | None]) -> None:
        now = self._notes.wall()
        for digest, body in notes.items():
            note, known = readable(body, PrincipalNote), self._open.get(digest)
            if note is None or note.ended or note.has_expired(now):
                if known is not None:
                    self._forget(known)
            elif known is None:
                self._add(digest, note)

    def _add(self, digest: str, note: PrincipalNote) -> None:
        identity = Identity(note.principal(self._grants), lifetime=note.lifetime(self._notes.wall()))
        self._open[digest] = Session(digest, identity, note)

    def _forget(self, session: Session) -> None:
        self._open.pop(session.digest, None)
        session.identity.lifetime.revoked.set()


@attrs.frozen(eq=False)
class SessionVerifier:
    sessions: Sessions
    kind: RequestKind = "session"

    def presents(self, request: HttpRequest) -> bool:
        return COOKIE in request.cookies

    async def verify(self, request: HttpRequest) -> Identity:
        """See `RequestVerifier`. Raises also `RequestError` ``invalid_csrf_token``."""
        id = request.cookies[COOKIE]
        session = await self.sessions.find(id)
        if session is None:
            raise Unverified("the session has ended")
        given = request.headers.get(CSRF_HEADER, "")
        if request.method not in SAFE_METHODS and not is_csrf_token(id, given):
            raise RequestError(
                403,
                "invalid_csrf_token",
                f"a request with a session that changes something needs its {CSRF_HEADER}",
                hint="`csrf` of GET /session is the value of the header.",
            )
        return session.identity


def csrf_token(id: str) -> str:
    """The CSRF token of a session. It does not reveal the id."""
    return hmac.digest(id.encode(errors="replace"), b"csrf", "sha256").hex()


def is_csrf_token(id: str, given: str) -> bool:
    return hmac.compare_digest(given.encode(), csrf_token(id).encode())


def cookie(name: str, value: str, *, seconds: float, same_site: str = "Strict") -> str:
    """The header `Set-Cookie` of a cookie for this host only; with 0 seconds, the cookie is removed."""
    return f"{name}={value}; Path=/; Max-Age={seconds:.0f}; Secure; HttpOnly; SameSite={same_site}"


def _digest(id: str) -> str:
    return hashlib.sha256(id.encode(errors="replace")).hexdigest()
