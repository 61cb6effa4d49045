"""Limits of addresses and headers in configuration files. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable

from ..described.shape import About

USER = re.compile(r"(?<=://)[^/?#]*(?=@)")
"""The user, with the password if there is one, of each address in a text (RFC 3986, section 3.2.1)."""

ADDRESS = {"pattern": r"https?://[^/\s]+\S*", "meaning": "an http:// or https:// address"}
"""Limits of an address."""
HTTPS = {
    "pattern": r"https://[^/\s?#]+[^\s?#]*|http://(localhost|127\.0\.0\.1|\[::1\])(:\d{1,5})?(/[^\s?#]*)?",
    "meaning": "an https:// address, or http:// and localhost",
}
"""Limits of an address whose answers have to be authentic."""
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
    """Whether the address has a user. Addresses in its path or query do not count."""
    return USER.match(address, address.find("://") + len("://")) is not None


def authorizes(headers: Iterable[str]) -> bool:
    """Whether one of these header names is `Authorization`."""
    return any(name.lower() == "authorization" for name in headers)
