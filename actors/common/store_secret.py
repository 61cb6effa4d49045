"""The secret of a store, which its members share, for ids and cursors that tell nothing of others. Pure.

* An id is derived from names, such as an idempotency key. Without the secret, a client cannot tell
  which id the name of another one has.
* A cursor is the number of an item, which counts those of all clients. So it is encrypted, and valid for one
  principal only, by AES-SIV (RFC 5297): equal numbers have equal cursors, and a changed one is refused.
"""

from __future__ import annotations

import base64
import hmac
import json
import uuid
from typing import TYPE_CHECKING

import attrs

from ...runtime.journal import cursor as cursors
from ...runtime.journal.cursor import Listing
from ...runtime.journal.errors import BadCursor

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESSIV

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
        return base64.urlsafe_b64encode(self._cipher.encrypt(number, _about(listing, by))).decode()

    def unseal(self, listing: Listing, by: str, sealed: str) -> str:
        """The cursor that `seal` was given. Raises `BadCursor` for any other text."""
        from cryptography.exceptions import InvalidTag

        try:
            hidden = base64.b64decode(sealed, altchars=b"-_", validate=True)
            number = self._cipher.decrypt(hidden, _about(listing, by))
        except (ValueError, InvalidTag):
            raise BadCursor("this cursor was not made for this list and this principal") from None
        return cursors.write(listing, int.from_bytes(number, "big"))

    @property
    def _cipher(self) -> AESSIV:
        from cryptography.hazmat.primitives.ciphers.aead import AESSIV  # most processes need none

        return AESSIV(hmac.digest(self._key, b"cursors", "sha512"))

    def _digest(self, *parts: str) -> bytes:
        return hmac.digest(self._key, json.dumps(parts).encode(), "sha256")


def _about(listing: Listing, by: str) -> list[bytes]:
    return [listing.encode(), by.encode(errors="surrogatepass")]
