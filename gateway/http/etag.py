"""Names of versions, so that a client keeps what it has (RFC 9110, section 8.8.3). Pure."""

from __future__ import annotations

import hashlib

from .request import Headers


def etag_of(body: bytes) -> str:
    return f'"{hashlib.sha256(body).hexdigest()[:32]}"'


def has_it(headers: Headers, etag: str) -> bool:
    """Whether a client says that it has this version."""
    known = {each.strip().removeprefix("W/") for each in headers.get("If-None-Match", "").split(",")}
    return bool(known & {etag, "*"})
