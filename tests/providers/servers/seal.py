"""Signatures and ids that a server can verify when a client sends them back."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from typing import Any

_SECRET = b"known to the servers only"


def _mac(*about: Any) -> str:
    text = json.dumps(about, sort_keys=True)
    return hmac.new(_SECRET, text.encode(), hashlib.sha256).hexdigest()


def seal(*about: Any) -> str:
    """A signature of the values, in base64 like those of providers."""
    return base64.b64encode(f"sealed by {_mac(*about)[:24]}".encode()).decode()


def is_sealed(signature: str, *about: Any) -> bool:
    return hmac.compare_digest(signature.encode(), seal(*about).encode())


def marked_id(nonce: str, *about: Any) -> str:
    """An id of 20 letters and digits that depends on its context."""
    digits = hashlib.sha256(nonce.encode()).hexdigest()[:8]
    return f"{digits}{_mac(digits)[:4]}{_mac(digits, *about)[:8]}"


def is_ours(id: str) -> bool:
    """Whether it is a marked id, whatever it came with."""
    return len(id) == 20 and id[8:12] == _mac(id[:8])[:4]


def came_with(id: str, *about: Any) -> bool:
    return is_ours(id) and id[12:] == _mac(id[:8], *about)[:8]
