"""JSON as it leaves for a client. Pure."""

from __future__ import annotations

import json

import orjson

_ANY = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))


def encode(value: object) -> bytes:
    """One line, whatever is in its strings and numbers: half of a surrogate pair is ``?``."""
    try:
        return orjson.dumps(value)
    except orjson.JSONEncodeError:  # that half, or a whole number of more than 64 bits
        return _ANY.encode(value).encode("utf-8", "replace")
