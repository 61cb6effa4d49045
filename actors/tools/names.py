"""The names of tools for models. Pure.

A provider refuses the whole request for one invalid name. So each name has the form that all providers
accept: up to 64 of the characters A-Z, a-z, 0-9, _ and -, beginning with a letter or _.
"""

from __future__ import annotations

import hashlib
import re

from ...config.sections.mcp import plain_server_name

MAX_LENGTH = 64
PREFIX = "mcp__"
"""The beginning of every prefixed name, before the name of the server."""
_REFUSED = re.compile(r"[^A-Za-z0-9_-]")
_HASH = 8


def plain_name(own: str) -> str:
    """Return a valid name similar to the tool's own name."""
    name = _REFUSED.sub("_", own)
    if not name or not (name[0].isalpha() or name[0] == "_"):
        name = f"_{name}"
    return name if len(name) <= MAX_LENGTH else hashed(name, own)


def seems_prefixed(own: str) -> bool:
    """Return whether an own name has the form of a `prefixed_name`, with any server."""
    return plain_name(own).startswith(PREFIX)


def prefix_of(server: str) -> str:
    """Return the beginning of the prefixed names of a server."""
    return f"{PREFIX}{plain_server_name(server)}__"


def prefixed_name(server: str, own: str) -> str:
    """Return a name that contains the name of the server."""
    name = f"{prefix_of(server)}{_REFUSED.sub('_', own)}"
    return name if len(name) <= MAX_LENGTH else hashed(name, server, own)


def parse_tool_name(name: str) -> tuple[str, str] | None:
    """Return the server and the tool that a prefixed name, `mcp__<server>__<tool>`, stands for; None if it is
    another name.

    The server's name ends at the first `__`. Characters that no name may have are `_` in both, and a name
    that was too long ends with a hash.
    """
    server, separator, own = name.removeprefix(PREFIX).partition("__")
    return (server, own) if name.startswith(PREFIX) and separator else None


def hashed(name: str, *origin: str) -> str:
    """Return the name, shortened if necessary, with a suffix that depends on `origin` and so makes it
    unique."""
    suffix = hashlib.sha256("\0".join(origin).encode("utf-8", "surrogatepass")).hexdigest()[:_HASH]
    return f"{name[: MAX_LENGTH - _HASH - 1]}_{suffix}"
