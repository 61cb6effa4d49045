"""Names and addresses that lead to this machine alone. Pure."""

from __future__ import annotations

import ipaddress


def is_loopback(host: str) -> bool:
    """Whether a name or an address, without a port, is that of the machine itself.

    Names below `localhost` are: browsers ask nobody where they lead (RFC 6761).
    """
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return f".{host.lower()}".endswith(".localhost")
