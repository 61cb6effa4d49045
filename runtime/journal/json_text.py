"""Bodies as JSON text: compact, exact, and always something a disk can hold."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any


def _plain(value: object) -> object:
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"a {type(value).__name__} is not JSON")


def _encoder(*, ascii_only: bool = False, sort_keys: bool = False) -> json.JSONEncoder:
    return json.JSONEncoder(
        ensure_ascii=ascii_only,
        allow_nan=False,
        sort_keys=sort_keys,
        separators=(",", ":"),
        default=_plain,
    )


_COMPACT = _encoder()
_ASCII = _encoder(ascii_only=True)
_CANONICAL = _encoder(ascii_only=True, sort_keys=True)
_DECODER = json.JSONDecoder()


def dump(value: object) -> str:
    """The compact text of a JSON value.

    Raises:
        TypeError, ValueError: it is not JSON; NaN and infinity are not.
    """
    text = _COMPACT.encode(value)
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            # JSON may hold half of a surrogate pair, UTF-8 may not: write such a text with escapes.
            return _ASCII.encode(value)
    return text


def load(text: str) -> Any:
    return _DECODER.decode(text)


def same(one: str, other: str) -> bool:
    """Do two texts hold the same value? The order of keys does not count; 1, 1.0 and true differ."""
    return one == other or _CANONICAL.encode(load(one)) == _CANONICAL.encode(load(other))


def fold(text: str) -> str:
    """What is compared when case is ignored."""
    return text.casefold().encode(errors="replace").decode()
