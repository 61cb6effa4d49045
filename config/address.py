"""The user in front of the host of an address. Pure."""

from __future__ import annotations

import re

USER = re.compile(r"(?<=://)[^/?#]*(?=@)")
"""The user, and perhaps a password, of each address in a text (RFC 3986, section 3.2.1)."""


def has_user(address: str) -> bool:
    """Whether this address, not one in its path or query, has a user."""
    return USER.match(address, address.find("://") + len("://")) is not None
