"""How deep JSON from outside may be nested. Pure."""

from __future__ import annotations

MAX_DEPTH = 100
"""Objects and arrays within one another. Parsers and writers of JSON give up somewhere above that, each at
another depth: what is taken in has to come out everywhere else."""


def depth(value: object) -> int:
    """How many objects and arrays are within one another at the deepest place of a JSON value."""
    level, found = [value], 0
    while level := [each for each in level if isinstance(each, dict | list)]:
        found += 1
        level = [inner for each in level for inner in (each.values() if isinstance(each, dict) else each)]
    return found
