"""The proxies of the environment, for tool servers."""

from __future__ import annotations

import ipaddress
from urllib.request import getproxies, proxy_bypass

import httpx2


def proxy_to(url: httpx2.URL) -> str | None:
    """The address of the proxy that leads to a server, as curl and the models find theirs; None if none does.

    None leads to what runs on this machine: environments are often made with only the others in mind.
    """
    if _is_here(url.host):
        return None
    proxies = getproxies()
    if proxy_bypass(url.netloc.decode("ascii"), proxies):
        return None
    found = proxies.get(url.scheme) or proxies.get("all")
    if found is None:
        return None
    return found if "://" in found else f"http://{found}"


def _is_here(host: str) -> bool:
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
