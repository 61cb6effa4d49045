"""Bodies as JSON text: compact, exact, and always something a disk can hold."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import orjson


def _plain(value: object) -> object:
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"a {type(value).__name__} is not JSON")


def _encoder(*, ascii_only: bool = False, sort_keys: bool = False) -> Callable[[object], str]:
    return json.JSONEncoder(
        ensure_ascii=ascii_only,
        allow_nan=False,
        check_circular=False,
        sort_keys=sort_keys,
        separators=(",", ":"),
        default=_plain,
    ).encode


_compact = _encoder()
_ascii = _encoder(ascii_only=True)
_canonical = _encoder(ascii_only=True, sort_keys=True)
_DECODER = json.JSONDecoder()
_ONLY_JSON = orjson.OPT_PASSTHROUGH_DATACLASS | orjson.OPT_PASSTHROUGH_DATETIME


def dump(value: object) -> str:
    """The compact text of a JSON value.

    Raises:
        TypeError, ValueError: it is not JSON; NaN and infinity are not.
        RecursionError: it holds itself, or a thousand levels.
    """
    try:
        text = orjson.dumps(value, _plain, _ONLY_JSON).decode()
    except orjson.JSONEncodeError:  # it may be JSON: whole numbers of any size, half of a surrogate pair
        return _thorough(value)
    # Where it writes null, NaN or infinity may have been; those are not equal to what is read back.
    if "null" in text and orjson.loads(text) != value:
        return _thorough(value)
    return text


def _thorough(value: object) -> str:
    text = _compact(value)
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            # JSON may hold half of a surrogate pair, UTF-8 may not: write such a text with escapes.
            return _ascii(value)
    return text


def load(text: str) -> Any:
    """The value of a text of `dump`. Raises ValueError when it is not JSON."""
    # `decode` looks for blanks around it, which takes as long as a short text does.
    value, end = _DECODER.raw_decode(text)
    if end < len(text):
        raise ValueError(f"there is more after the JSON, at character {end}")
    return value


def same(one: str, other: str) -> bool:
    """Do two texts hold the same value? The order of keys does not count; 1, 1.0 and true differ."""
    return one == other or _canonical(load(one)) == _canonical(load(other))


def fold(text: str) -> str:
    """What is compared when case is ignored."""
    return text.casefold().encode(errors="replace").decode()


# ----------------------------------------------------------------- JSON from outside

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
