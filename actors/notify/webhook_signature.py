"""Signatures of webhooks, as standardwebhooks.com defines them. Pure.

The signed bytes are the id, the time of the attempt in Unix seconds, and the body, joined by dots. Repeats
have the same id and another time, so each attempt is signed anew.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Mapping, Sequence

PREFIX = "whsec_"


def signed_headers(id: str, at: int, body: bytes, secrets: Sequence[str]) -> Mapping[str, str]:
    """The headers of an attempt, with a signature by each of the secrets. `id` has no dot."""
    content = b"%b.%d.%b" % (id.encode(), at, body)
    signatures = (f"v1,{_signature(secret, content)}" for secret in secrets)
    return {
        "Content-Type": "application/json",
        "User-Agent": "agent-stop-and-go",
        "webhook-id": id,
        "webhook-timestamp": str(at),
        "webhook-signature": " ".join(signatures),
    }


def _signature(secret: str, content: bytes) -> str:
    key = base64.b64decode(secret.removeprefix(PREFIX), validate=True)
    return base64.b64encode(hmac.digest(key, content, hashlib.sha256)).decode()
