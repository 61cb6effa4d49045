"""The key of the fleet, which the members have from the journal, and never send.

1. A request to a member is signed for the address that this member advertises, so it is of no use at another
   one: not at that of a machine which got the address of a dead member, either.
2. A member takes a signature once, and within `VALID` seconds by the clock of the journal.
3. The answer is signed for the request. A member that cannot sign it does not hold the key: it is told
   nothing more, and nothing that it sends is used.
4. When the key changes, all connections that began with the old one end.

The signature is an HMAC with SHA-256 (RFC 2104) over the lines below.
"""

from __future__ import annotations

import hashlib
import hmac
import logging
import secrets
from collections.abc import Mapping
from typing import Self

import attrs
import trio

from ...runtime.clock import WallClock
from ...runtime.journal.followed_notes import FollowedNotes, made_once
from ...runtime.journal.protocol import Json, Notes

NOTE = "fleet"
"""The kind of the note with the key, and its key."""
FIELD = "key"
PROOF = "Stopgo-Fleet-Proof"
"""The header of an answer with its signature."""
VALID = 30.0
"""Seconds."""
MOST_SEEN = 10_000
"""Maximum number of signatures that are remembered, each for `VALID` seconds. Beyond it, none is taken."""
_SCHEME = "Stopgo-Fleet"

log = logging.getLogger(__name__)


@attrs.frozen
class Signed:
    """What a signature is for."""

    method: str
    url: str
    """The address that the receiver advertises, with path and query."""
    body: bytes
    at: str
    """UTC seconds, as sent."""
    nonce: str

    def by(self, key: bytes, what: str) -> str:
        digest = hashlib.sha256(self.body).hexdigest()
        lines = (f"stopgo fleet {what}", self.method, self.url, digest, self.at, self.nonce)
        return hmac.new(key, "\n".join(lines).encode(errors="surrogateescape"), "sha256").hexdigest()


def _made() -> str:
    return secrets.token_hex(32)


@attrs.define(eq=False)
class FleetKey:
    """The key that the members have now. Made by `open`."""

    _wall: WallClock
    _key: bytes = attrs.field(default=b"", repr=False)
    changed: trio.Event = attrs.field(factory=trio.Event)
    """Set when another key takes the place of this one; the attribute is then a new event."""
    _seen: dict[str, float] = attrs.field(factory=dict)
    """Nonces of signatures that were taken, and when; the oldest first."""

    @classmethod
    async def open(cls, notes: FollowedNotes) -> Self:
        """Read the key, or make it; and follow it. Raises `JournalError`."""
        opened = cls(notes.wall)
        await made_once(notes.notes, NOTE, NOTE, FIELD, _made)
        await notes.follow(NOTE, opened._apply)
        return opened

    async def _apply(self, notes: Mapping[str, Json | None]) -> None:
        if NOTE not in notes:
            return
        text = (notes[NOTE] or {}).get(FIELD)
        if not isinstance(text, str) or not text:
            log.error("the key of the fleet cannot be read; make a new one with `stopgo fleet rotate-key`")
            text = _made()  # unknown to all other members, so no request is accepted
        if self._key != text.encode():
            self._key = text.encode()
            self.changed.set()
            self.changed = trio.Event()

    def sign(self, method: str, url: str, body: bytes = b"") -> tuple[Mapping[str, str], str]:
        """The headers of a request to another member, and the proof that its answer has to have."""
        signed = Signed(method, url, body, f"{self._wall():.3f}", secrets.token_hex(16))
        value = f"{_SCHEME} {signed.at} {signed.nonce} {signed.by(self._key, 'request')}"
        return {"Authorization": value}, signed.by(self._key, "answer")

    def proof_for(self, authorization: str, method: str, url: str, body: bytes = b"") -> str | None:
        """The proof for the answer to a request; None if no member with the key has sent this request here,
        or if it comes again."""
        match authorization.split(" "):
            case [scheme, at, nonce, signature] if scheme == _SCHEME and at.isascii():
                signed = Signed(method, url, body, at, nonce)
            case _:
                return None
        if not hmac.compare_digest(
            signature.encode(errors="replace"), signed.by(self._key, "request").encode()
        ):
            return None
        now = self._wall()
        self._seen = {each: then for each, then in self._seen.items() if now - then <= 2 * VALID}
        # A member with the key has written the time, so it is a number.
        if abs(now - float(at)) > VALID or nonce in self._seen or len(self._seen) >= MOST_SEEN:
            return None
        self._seen[nonce] = now
        return signed.by(self._key, "answer")


async def rotate(notes: Notes) -> None:
    """Put a new key in the place of the old one. The members follow it. Raises `JournalError`."""
    while True:
        at = (await notes.note_revisions()).get(NOTE, 0)
        if await notes.write_notes(NOTE, {NOTE: {FIELD: _made()}}, at=at):
            return


def is_proof(given: str, expected: str) -> bool:
    return hmac.compare_digest(given.encode(errors="replace"), expected.encode())
