"""Whether two names are the same to people. Pure."""

from __future__ import annotations

from unicodedata import normalize


def is_same_name(one: str, other: str) -> bool:
    """Whether two names differ in case, or in the way in which their letters are encoded, at most: a
    compatibility caseless match (The Unicode Standard, section 3.13, definition D146)."""
    return one == other or _normal(one) == _normal(other)


def _normal(name: str) -> str:
    folded = normalize("NFKD", normalize("NFD", name).casefold())
    return normalize("NFKD", folded.casefold())
