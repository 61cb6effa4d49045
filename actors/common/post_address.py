"""The addresses that may receive notifications. Pure.

A client chooses the address, and the agent connects to it from inside its own network. Without a check, a
client could reach services that only the agent can reach (SSRF). Host names are checked by their IP
addresses.
"""

from __future__ import annotations

import re
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Literal, TypeAlias
from urllib.parse import urlsplit

import attrs

LONGEST_URL = 2048
"""Characters."""

Reach: TypeAlias = Literal["public", "private", "never"]

_CHARACTERS = re.compile(r"[A-Za-z0-9._~:/?#\[\]@!$&'()*+,;=%-]+")
_HOST_NAME = re.compile(r"[a-z0-9_]([a-z0-9_.-]*[a-z0-9_])?\.?")
_PORTS = {"http": 80, "https": 443}
_NAT64 = IPv6Network("64:ff9b::/96")
_METADATA = tuple(
    map(
        ip_network,
        (
            "100.100.100.200",  # Alibaba Cloud
            "168.63.129.16",  # Azure, the wire server: a public address that each machine reaches
            "192.0.0.192",  # Oracle Cloud, besides the link-local address
            "fd00:42::42",  # Scaleway
            "fd00:a9fe:a9fe::1",  # Akamai (Linode)
            "fd00:c1::a9fe:a9fe",  # Oracle Cloud
            "fd00:ec2::/32",  # AWS: the machine (::254), containers (::23), time and names
            "fd20:ce::/32",  # Google Cloud
        ),
    )
)
"""The addresses outside the link-local range at which clouds serve credentials of the machine, as their
documentation of instance metadata gives them."""
_TRANSLATED = IPv6Network("64:ff9b:1::/48")
"""Prefixes for translation to IPv4 that a network chooses (RFC 8215): which address is meant is unknown."""
_ISATAP = (0x0000_5EFE, 0x0200_5EFE)
"""The first half of an interface identifier whose second half is an IPv4 address (RFC 5214, section 6.1)."""


class BadAddress(Exception):
    """An address that is refused. The text is a predicate, such as "is not a URL"."""


@attrs.frozen
class Target:
    """A parsed URL. `host` is an IP address or a name that is not resolved yet."""

    scheme: str
    host: str
    """In lower case, without brackets."""
    port: int
    path: str
    """With the query; it begins with a slash."""

    @property
    def is_literal(self) -> bool:
        return _literal(self.host) is not None

    @property
    def host_header(self) -> str:
        name = _bracketed(self.host)
        return name if self.port == _PORTS[self.scheme] else f"{name}:{self.port}"

    @property
    def origin(self) -> str:
        """The part that may be logged. Paths and queries of such URLs often contain a secret."""
        return f"{self.scheme}://{self.host_header}"

    def at(self, address: str) -> str:
        """The URL with an IP address in place of the name."""
        return f"{self.scheme}://{_bracketed(address)}:{self.port}{self.path}"


def target_of(url: str) -> Target:
    """Raises `BadAddress`."""
    if len(url) > LONGEST_URL:
        raise BadAddress(f"is longer than {LONGEST_URL} characters")
    if not _CHARACTERS.fullmatch(url):
        raise BadAddress("has characters that are not allowed in a URL")
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise BadAddress("is not a URL") from None
    if parts.scheme not in _PORTS:
        raise BadAddress("must begin with https:// or http://")
    if "@" in parts.netloc:
        raise BadAddress("must not name a user; credentials belong in `authentication`")
    host = parts.hostname or ""
    if not (_HOST_NAME.fullmatch(host) or (_literal(host) and "%" not in host)) or port == 0:
        raise BadAddress("must name a host")
    path = parts.path or "/"
    return Target(
        parts.scheme, host, port or _PORTS[parts.scheme], f"{path}?{parts.query}" if parts.query else path
    )


def reach_of(address: str) -> Reach:
    """Whether an IP address is public, private (local network or this machine), or never allowed.

    Link-local addresses and those of `_METADATA` are never allowed, because clouds serve credentials of the
    machine there.
    """
    meant = _meant(ip_address(address))
    if any(meant in network for network in _METADATA):
        return "never"
    if meant.is_loopback:
        return "private"
    if meant.is_multicast or meant.is_unspecified or meant.is_link_local or meant.is_reserved:
        return "never"
    if isinstance(meant, IPv6Address):
        if meant.is_site_local or meant.teredo or meant in _TRANSLATED:
            return "never"
        first, last = int(meant) >> 32 & 0xFFFF_FFFF, int(meant) & 0xFFFF_FFFF
        if first in _ISATAP and reach_of(str(IPv4Address(last))) == "never":
            return "never"
    return "public" if meant.is_global else "private"


def is_allowed(address: str, *, to_private: bool) -> bool:
    """`to_private`: private addresses are allowed, too."""
    reach = reach_of(address)
    return reach == "public" or (to_private and reach == "private")


def _meant(address: IPv4Address | IPv6Address) -> IPv4Address | IPv6Address:
    """The IPv4 address embedded in an IPv6 address (mapped, 6to4 or NAT64), else the address itself."""
    if isinstance(address, IPv4Address):
        return address
    if address in _NAT64:
        return IPv4Address(int(address) & 0xFFFF_FFFF)
    return address.ipv4_mapped or address.sixtofour or address


def _literal(host: str) -> IPv4Address | IPv6Address | None:
    try:
        return ip_address(host)
    except ValueError:
        return None


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host
