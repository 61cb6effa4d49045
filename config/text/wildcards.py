"""Wildcards in names of rules and filters. Pure."""

from __future__ import annotations

from fnmatch import fnmatchcase


def has_wildcards(pattern: str) -> bool:
    """Whether the pattern can match more than one name."""
    return "*" in pattern or "?" in pattern


def is_named(name: str, pattern: str) -> bool:
    """Whether the pattern matches the name. `*` matches any characters, `?` any one character, and everything
    else, including brackets, itself."""
    return fnmatchcase(name, pattern.replace("[", "[[]"))
