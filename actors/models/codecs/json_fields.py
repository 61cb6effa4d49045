"""Fields of a provider's JSON: a field of the wrong type counts as absent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs

from ....runtime.json_text import dump, dump_wire, load_values, mend, same

MAX_COUNT = 2**53
"""A larger number of tokens counts as absent: it could not even be multiplied by a price."""
MAX_ENCODED = 3
"""A text of arguments may be inside a text, and that in another."""
_ARGUMENTS_SHOWN = 120
"""Characters of malformed arguments that the model is shown."""


def mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def array(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def text(value: object) -> str:
    return mend(value) if isinstance(value, str) else ""


def piece(value: object) -> str:
    """Like `text`, of a text that goes on in another event: halves of characters at its ends are kept."""
    return value if isinstance(value, str) else ""


def count(value: object) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 < value <= MAX_COUNT else 0


class Unclear(str):
    """The text of arguments whose pieces may belong to different calls."""

    __slots__ = ()


@attrs.frozen
class ReadArguments:
    """The arguments of a call, as far as they have one meaning."""

    value: dict[str, Any] = attrs.field(factory=dict)
    problem: str | None = None
    """Why they cannot be used, for the model."""
    repeated: bool = False
    """The text has the same object more than once."""


def read_arguments(raw: object) -> ReadArguments:
    """Read the arguments of a tool call, which providers send as an object or as its text.

    * Null, blank and the text `null` mean that there are none.
    * A text inside a text is read, because some gateways encode twice.
    * An empty object before another is dropped: the opening of a call, which some gateways pass on.
    * The same object twice is one. Different objects, and other values, are a problem.
    """
    if isinstance(raw, Unclear):
        return ReadArguments(problem="the pieces of the arguments may belong to different calls")
    try:
        values = _decoded(raw, MAX_ENCODED)
    except ValueError as error:
        shown = raw if isinstance(raw, str) else dump_wire(raw).decode()
        shown = shown if len(shown) <= _ARGUMENTS_SHOWN else shown[:_ARGUMENTS_SHOWN] + "..."
        return ReadArguments(problem=f"the arguments are not valid JSON ({error}): {shown}")
    if len(values) == 1 and isinstance(values[0], dict):  # most calls
        return ReadArguments(values[0])
    while len(values) > 1 and values[0] in (None, {}):
        del values[0]
    if values in ([], [None]):
        return ReadArguments()
    if not all(isinstance(value, dict) for value in values):
        return ReadArguments(problem="the arguments are not a JSON object")
    first, *others = values
    if others and not all(same(dump(first), dump(other)) for other in others):
        return ReadArguments(problem="the arguments are more than one JSON object")
    return ReadArguments(first or {}, repeated=bool(others and first))


def load_arguments(raw: object) -> tuple[dict[str, Any], str | None]:
    """The arguments of a tool call and, if they cannot be used, the reason."""
    read = read_arguments(raw)
    return read.value, read.problem


def _decoded(raw: object, levels: int) -> list[Any]:
    """The values in a text, and in the texts inside it. Raises ValueError."""
    if not isinstance(raw, str):
        return [raw]
    if levels == 0:
        raise ValueError("it is encoded too many times")
    return [found for value in load_values(raw) for found in _decoded(value, levels - 1)]
