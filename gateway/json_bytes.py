"""JSON as it leaves for a client. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import orjson

_ANY = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))


def encode(body: Mapping[str, Any]) -> bytes:
    """One line, whatever is in its strings and numbers: half of a surrogate pair is ``?``."""
    try:
        return orjson.dumps(body)
    except orjson.JSONEncodeError:  # that half, or a whole number of more than 64 bits
        return _ANY.encode(body).encode("utf-8", "replace")
