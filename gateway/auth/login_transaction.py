"""Logins in progress: the facts that are needed again when the issuer sends the browser back.

The browser keeps them in a signed cookie, so that requests for logins take no memory. The state in the cookie
must equal the one in the address that the issuer sends the browser to; otherwise another browser began the
login.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
import secrets

import attrs

from ...runtime.json_text import dump, load

LOGIN_COOKIE = "__Host-stopgo-login"
LOGIN_SECONDS = 600.0
"""Seconds for a login."""

_OWN_PATH = re.compile(r"/(?![/\\])[\w./?#=&%~:@!,+-]{0,500}", re.ASCII)


@attrs.frozen
class Transaction:
    state: str
    nonce: str
    verifier: str = attrs.field(repr=False)
    """The PKCE code verifier (RFC 7636)."""
    redirect_uri: str
    back: str
    """The path of the page to continue with."""
    expires: float
    """UTC seconds."""

    @classmethod
    def new(cls, redirect_uri: str, back: str, now: float) -> Transaction:
        state, nonce, verifier = (secrets.token_urlsafe(32) for _ in range(3))
        return cls(state, nonce, verifier, redirect_uri, back, now + LOGIN_SECONDS)

    @property
    def challenge(self) -> str:
        """The S256 code challenge."""
        return _text(hashlib.sha256(self.verifier.encode()).digest())

    def sign(self, key: bytes) -> str:
        """The value of the cookie."""
        body = _text(dump(attrs.asdict(self)).encode())
        return f"{body}.{_signature(body, key)}"


def read_transaction(cookie: str, key: bytes, now: float) -> Transaction | None:
    """The transaction in a cookie; None if it is not valid."""
    body, _, signature = cookie.rpartition(".")
    if not hmac.compare_digest(signature.encode(errors="replace"), _signature(body, key).encode()):
        return None
    found = Transaction(**load(base64.urlsafe_b64decode(f"{body}==").decode()))
    return found if now < found.expires else None


def own_path(text: str) -> str:
    """A path of the page to continue with after a login. Addresses of others become ``/``."""
    return text if _OWN_PATH.fullmatch(text) else "/"


def _signature(body: str, key: bytes) -> str:
    return _text(hmac.digest(key, body.encode(errors="replace"), "sha256"))


def _text(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()
