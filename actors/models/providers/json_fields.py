"""Fields of a provider's JSON: a field of the wrong type counts as absent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ....runtime.json_text import load_provider

MAX_COUNT = 2**53
"""A larger number of tokens counts as absent: it could not even be multiplied by a price."""
_ARGUMENTS_SHOWN = 120
"""Characters of malformed arguments that the model is shown."""


def mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def array(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def text(value: object) -> str:
    return value if isinstance(value, str) else ""


def count(value: object) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 < value <= MAX_COUNT else 0


def load_arguments(raw: object) -> tuple[dict[str, Any], str | None]:
    """The arguments of a tool call and, if they cannot be used, the reason.

    Providers send an object or its text. None and the empty text mean that there are no arguments.
    """
    if raw is None or raw == "":
        return {}, None
    value = raw
    if isinstance(raw, str):
        try:
            value = load_provider(raw)
        except ValueError as error:
            shown = raw if len(raw) <= _ARGUMENTS_SHOWN else raw[:_ARGUMENTS_SHOWN] + "..."
            return {}, f"the arguments are not valid JSON ({error}): {shown}"
    if isinstance(value, dict):
        return value, None
    return {}, "the arguments are not a JSON object"
