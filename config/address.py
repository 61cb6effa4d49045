"""The schemas of addresses in the file, and of the headers sent there. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable

from .shape import About

USER = re.compile(r"(?<=://)[^/?#]*(?=@)")
"""The user, and perhaps a password, of each address in a text (RFC 3986, section 3.2.1)."""

ADDRESS = {"pattern": r"https?://[^/\s]+\S*", "meaning": "an http:// or https:// address"}
"""Limits of an address."""
HEADERS = {
    "keys": About("", pattern=r"[A-Za-z0-9!#$%&'*+.^_`|~-]+", meaning="the name of a header"),
    "items": About("", pattern=r"[\t -~]*", meaning="one line of ASCII text"),
}
"""Limits of headers."""
HOST_NAME = r"[A-Za-z0-9_]([A-Za-z0-9_.-]*[A-Za-z0-9_-])?"
ORIGIN = rf"https?://({HOST_NAME}|\[[0-9A-Fa-f:.]+\])(:[0-9]{{1,5}})?"
AN_ORIGIN = About("", pattern=ORIGIN, meaning="scheme and host, such as https://agents.example")
AN_AUTHORIZATION = "an Authorization header"


def has_user(address: str) -> bool:
    """Whether this address, not one in its path or query, has a user."""
    return USER.match(address, address.find("://") + len("://")) is not None


def authorizes(headers: Iterable[str]) -> bool:
    """Whether a header of these names is `AN_AUTHORIZATION`."""
    return any(name.lower() == "authorization" for name in headers)
