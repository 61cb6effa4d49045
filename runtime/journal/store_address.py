"""Addresses of journals: a URL of PostgreSQL, or a directory."""

from __future__ import annotations

from pathlib import Path

LEASE = 10.0
"""Default length of the leases of members, in seconds."""

_URLS = ("postgresql://", "postgres://")


def is_postgres(address: Path | str) -> bool:
    """Whether an address is that of a PostgreSQL database."""
    return isinstance(address, str) and address.startswith(_URLS)
