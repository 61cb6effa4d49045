"""What tools are called where models see them. Pure.

Providers refuse a whole request for one name they do not like, so every name is made of what all of them
take: up to 64 of the characters A-Z, a-z, 0-9, _ and -, the first one a letter or _.
"""

from __future__ import annotations

import hashlib
import re

MAX_LENGTH = 64
PREFIX = "mcp__"
"""Of every prefixed name, before the server's."""
_REFUSED = re.compile(r"[^A-Za-z0-9_-]")
_HASH = 8


def plain_name(own: str) -> str:
    """A name near to the tool's own."""
    name = _REFUSED.sub("_", own)
    if not name or not (name[0].isalpha() or name[0] == "_"):
        name = f"_{name}"
    return name if len(name) <= MAX_LENGTH else hashed(name, own)


def looks_prefixed(own: str) -> bool:
    """Whether the tool's own name has the form of a `prefixed_name`, whatever the server in it."""
    return plain_name(own).startswith(PREFIX)


def prefixed_name(server: str, own: str) -> str:
    """A name that says whose tool it is."""
    name = f"{PREFIX}{server}__{_REFUSED.sub('_', own)}"
    return name if len(name) <= MAX_LENGTH else hashed(name, server, own)


def hashed(name: str, *origin: str) -> str:
    """The name, cut if need be, with a suffix that tells it from others that were made of something else."""
    suffix = hashlib.sha256("\0".join(origin).encode("utf-8", "surrogatepass")).hexdigest()[:_HASH]
    return f"{name[: MAX_LENGTH - _HASH - 1]}_{suffix}"
