"""Timestamps as RFC 3339 texts (A2A version 1.0.1, section 5.6.1). Pure."""

from __future__ import annotations

import re
from datetime import UTC, datetime

_RFC_3339 = re.compile(r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d{1,9})?([Zz]|[+-]\d\d:\d\d)")


def write_time(at: float) -> str:
    """Format seconds since the epoch as a UTC timestamp with milliseconds and `Z`."""
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def read_time(text: str) -> float:
    """Parse a timestamp with any offset into seconds since the epoch.

    Raises:
        ValueError: the text is not an RFC 3339 timestamp.
    """
    # Check the format first, because `fromisoformat` also accepts other ISO 8601 forms.
    if not _RFC_3339.fullmatch(text):
        raise ValueError(f"{text!r} is not an RFC 3339 timestamp")
    return datetime.fromisoformat(text.upper()).timestamp()
