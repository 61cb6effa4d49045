"""Entity tags, which let a client reuse its copy (RFC 9110, section 8.8.3). Pure."""

from __future__ import annotations

import hashlib

from .request import Headers


def etag_of(body: bytes) -> str:
    return f'"{hashlib.sha256(body).hexdigest()[:32]}"'


def matches(headers: Headers, etag: str) -> bool:
    """Whether the client already has the version with this entity tag (`If-None-Match`)."""
    known = {each.strip().removeprefix("W/") for each in headers.get("If-None-Match", "").split(",")}
    return bool(known & {etag, "*"})
