"""Timestamps as RFC 3339 texts (A2A version 1.0.1, section 5.6.1). Pure."""

from __future__ import annotations

import re
from datetime import UTC, datetime

_RFC_3339 = re.compile(r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d{1,9})?([Zz]|[+-]\d\d:\d\d)")


def write_time(at: float) -> str:
    """Write UTC seconds with milliseconds and a Z."""
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def read_time(text: str) -> float:
    """Read a timestamp with any offset as UTC seconds.

    Raises:
        ValueError: it is not a timestamp.
    """
    # `fromisoformat` accepts much more than RFC 3339.
    if not _RFC_3339.fullmatch(text):
        raise ValueError("not RFC 3339")
    return datetime.fromisoformat(text.upper()).timestamp()
