"""JSON to and from other services."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any, NoReturn

from ...runtime.journal.json_text import MAX_DEPTH, depth

MOST = 2**53
"""Nothing is counted beyond it: a number that is longer still could not even be multiplied with a price."""
_ARGUMENTS_SHOWN = 120
"""Characters of malformed arguments that the model is shown."""


def _no_number(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _finite(digits: str) -> float:
    number = float(digits)
    if not math.isfinite(number):
        raise ValueError("a number is too large")
    return number


def _plain(value: object) -> object:
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"a {type(value).__name__} is not JSON")


_ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=_plain)
_DECODER = json.JSONDecoder(parse_constant=_no_number, parse_float=_finite)


def dump(value: object) -> bytes:
    """The compact text of a JSON value; half of a surrogate pair, which UTF-8 cannot hold, is replaced."""
    text = _ENCODER.encode(value)
    try:
        return text.encode()
    except UnicodeEncodeError:
        return _repaired(text).encode()


def load(raw: bytes | str) -> Any:
    """The value of a JSON text, halves of surrogate pairs replaced.

    Raises:
        ValueError: it has none, or one that is nested more than `MAX_DEPTH` deep.
    """
    text = raw.decode(errors="replace") if isinstance(raw, bytes) else raw
    try:
        value = _DECODER.decode(text)
        # Counted first, for hardly any text has so many.
        if text.count("{") + text.count("[") > MAX_DEPTH and depth(value) > MAX_DEPTH:
            raise ValueError("nested too deeply")
        # Halves can only come from escapes: what was decoded holds none.
        return value if "\\u" not in text else _DECODER.decode(_repaired(_ENCODER.encode(value)))
    except RecursionError:
        raise ValueError("nested too deeply") from None


def _repaired(text: str) -> str:
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def load_arguments(raw: object) -> tuple[dict[str, Any], str | None]:
    """The arguments of a tool call, and why they are of no use if they are not.

    Providers send an object, or its text; nothing at all means that there are none.
    """
    if raw is None or raw == "":
        return {}, None
    value = raw
    if isinstance(raw, str):
        try:
            value = load(raw)
        except ValueError as error:
            shown = raw if len(raw) <= _ARGUMENTS_SHOWN else raw[:_ARGUMENTS_SHOWN] + "..."
            return {}, f"the arguments are not valid JSON ({error}): {shown}"
    if isinstance(value, dict):
        return value, None
    return {}, "the arguments are not a JSON object"


# What others wrote has the type it should have, or counts as absent.


def mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def array(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def text(value: object) -> str:
    return value if isinstance(value, str) else ""


def count(value: object) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 < value <= MOST else 0
