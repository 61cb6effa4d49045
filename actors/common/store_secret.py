"""The secret of a store, which all of its nodes share, for ids and cursors that tell nothing of others. Pure.

* An id is derived from names, such as an idempotency key. Without the secret, nobody can tell which id the
  name of another client has.
* A cursor is the number of an item, which counts those of all clients. So it is encrypted, and valid for one
  principal only. The construction is that of a synthetic initialization vector (RFC 5297, section 2.6), with
  HMAC-SHA-256 for both of its functions: equal numbers have equal cursors, and a changed one is refused.
"""

from __future__ import annotations

import base64
import hmac
import json
import uuid

import attrs

from ...runtime.journal import cursor as cursors
from ...runtime.journal.cursor import Listing
from ...runtime.journal.errors import BadCursor

_TAG = 16
"""Bytes of the authentication tag."""
_NUMBER = 8
"""Bytes of a number."""


@attrs.frozen
class StoreSecret:
    _key: bytes = attrs.field(repr=False)

    def id_of(self, *names: str) -> str:
        """The id that these names stand for: a UUID that looks like a random one."""
        return str(uuid.UUID(bytes=self._digest("id", *names)[:16], version=4))

    def seal(self, listing: Listing, by: str, cursor: str) -> str:
        """The cursor for the principal `by`, from one of the journal. Raises `BadCursor`."""
        number = cursors.read(listing, cursor).to_bytes(_NUMBER, "big")
        tag = self._digest("tag", listing, by, number.hex())[:_TAG]
        return base64.urlsafe_b64encode(tag + self._hidden(tag, number)).decode()

    def unseal(self, listing: Listing, by: str, sealed: str) -> str:
        """The cursor that `seal` was given. Raises `BadCursor` for any other text."""
        try:
            found = base64.b64decode(sealed, altchars=b"-_", validate=True)
        except ValueError:
            raise BadCursor("this cursor was not made by this agent") from None
        tag, hidden = found[:_TAG], found[_TAG:]
        cursor = cursors.write(listing, int.from_bytes(self._hidden(tag, hidden), "big"))
        if not hmac.compare_digest(self.seal(listing, by, cursor), sealed):
            raise BadCursor("this cursor was not made for this list and this principal")
        return cursor

    def _hidden(self, tag: bytes, number: bytes) -> bytes:
        """The number encrypted, or decrypted: at most `_NUMBER` bytes."""
        pad = self._digest("pad", tag.hex())[:_NUMBER]
        return bytes(one ^ other for one, other in zip(number, pad, strict=False))

    def _digest(self, *parts: str) -> bytes:
        return hmac.digest(self._key, json.dumps(parts).encode(), "sha256")
