"""Names as rules and filters write them, with wildcards. Pure."""

from __future__ import annotations

from fnmatch import fnmatchcase


def has_wildcards(pattern: str) -> bool:
    """Whether the pattern may say more than one name."""
    return "*" in pattern or "?" in pattern


def is_named(name: str, pattern: str) -> bool:
    """Whether the pattern says this name: `*` stands for any characters, `?` for any one, and everything
    else, brackets too, for itself."""
    return fnmatchcase(name, pattern.replace("[", "[[]"))
