"""Loopback names and addresses. Pure."""

from __future__ import annotations

import ipaddress


def is_loopback(host: str) -> bool:
    """Whether a host name or an address, without a port, always means this machine.

    Names below `localhost` do, because browsers resolve them without DNS (RFC 6761).
    """
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return f".{host.lower()}".endswith(".localhost")
