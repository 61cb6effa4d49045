"""The parts of an input schema that models without a provider use: names and types of arguments."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

_INTEGER = re.compile(r"[+-]?[0-9]+")
_DECIMAL = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?")
_LONGEST_NUMBER = 300
"""Characters. Python refuses to parse a number of thousands of digits."""


def properties(schema: Mapping[str, Any]) -> Mapping[str, Mapping[str, Any]]:
    """The schemas of the arguments by name. A malformed part of a server's schema counts as absent."""
    declared = schema.get("properties")
    if not isinstance(declared, Mapping):
        return {}
    return {name: each if isinstance(each, Mapping) else {} for name, each in declared.items()}


def required(schema: Mapping[str, Any]) -> tuple[str, ...]:
    """The names of the required arguments."""
    names = schema.get("required")
    return tuple(name for name in names if isinstance(name, str)) if isinstance(names, list) else ()


def accepted_types(schema: Mapping[str, Any]) -> frozenset[str]:
    """The JSON types that an argument may have, alternatives included; empty if the schema names none."""
    declared = schema.get("type")
    names = [declared] if isinstance(declared, str) else declared
    types = {name for name in names if isinstance(name, str)} if isinstance(names, list) else set()
    for keyword in ("anyOf", "oneOf"):
        alternatives = schema.get(keyword)
        for alternative in alternatives if isinstance(alternatives, list) else ():
            if isinstance(alternative, Mapping):
                types |= accepted_types(alternative)
    return frozenset(types)


def parse_number(text: str, types: frozenset[str]) -> int | float | None:
    """The number in a text if `types` accept one, else None.

    If they accept text too, the number must be spelled as Python prints it: `007` stays a text.
    """
    value: int | float
    if len(text) > _LONGEST_NUMBER:
        return None
    if types & {"integer", "number"} and _INTEGER.fullmatch(text):
        value = int(text)
    elif "number" in types and _DECIMAL.fullmatch(text) and math.isfinite(float(text)):
        value = float(text)
    else:
        return None
    return value if "string" not in types or str(value) == text else None
