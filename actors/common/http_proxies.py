"""The proxy for each address, found in the environment as curl finds it.

* An address of this machine has none, because few environments except those.
* Nor has an address that `NO_PROXY` excepts: a list of names, with all names below them (`example.com`,
  `.example.com`, `*.example.com`), addresses and networks (`10.0.0.0/8`, `10.*`, `fd00::/8`, `[::1]`), each
  perhaps with a scheme or a port, and `*` for all. The proxies are not even read for it, so a wrong one does
  no harm.
* Others have `HTTPS_PROXY` or `HTTP_PROXY`, by their scheme, else `ALL_PROXY`. A value without a scheme is a
  proxy over HTTP, and `socks://`, which desktops set, is SOCKS 5.

Of two spellings of a name, lower case wins.
"""

from __future__ import annotations

import ipaddress
import os
import re
import ssl
from fnmatch import fnmatchcase
from functools import lru_cache
from http import HTTPStatus

import httpx2

from .loopback import is_loopback
from .tls import is_of_tls, why_unreached

NAMES = "HTTPS_PROXY, HTTP_PROXY, ALL_PROXY"
_UNSPECIFIED = ("0.0.0.0", "::")
"""Addresses that lead to this machine."""
_MAX_ADDRESSES = 64
"""Addresses whose proxies one client remembers."""
_PORT = re.compile(r"(\[[^\]]*\]|[^:]*):(\d+)")


def proxy_to(url: httpx2.URL) -> str | None:
    """The address of the proxy; None: connect directly."""
    return _proxy_of(url.scheme, url.host, url.port)


def _proxy_of(scheme: str, host: str, port: int | None) -> str | None:
    host = host.rstrip(".").lower()
    if (
        is_loopback(host)
        or host in _UNSPECIFIED
        or _is_excepted(host, port or (443 if scheme == "https" else 80))
    ):
        return None
    found = _variable(f"{scheme}_proxy") or _variable("all_proxy")
    if not found:
        return None
    its_scheme, separator, rest = found.partition("://")
    if not separator:
        return f"http://{found}"
    return f"socks5://{rest}" if its_scheme.lower() == "socks" else found


def _variable(name: str) -> str:
    # As in curl: a server gives programs of CGI a header of the request as HTTP_PROXY.
    names = (name,) if name == "http_proxy" and "REQUEST_METHOD" in os.environ else (name, name.upper())
    return next((value for each in names if (value := os.environ.get(each, "").strip())), "")


def _is_excepted(host: str, port: int) -> bool:
    entries = re.split(r"[,\s]+", _variable("no_proxy").lower())
    return any(_covers(entry, host, port) for entry in entries if entry)


def _covers(entry: str, host: str, port: int) -> bool:
    entry = entry.rpartition("://")[2].rstrip("/") if "://" in entry else entry
    if entry == "*":
        return True
    if found := _PORT.fullmatch(entry):
        entry, wanted = found.groups()
        if int(wanted) != port:
            return False
    entry = entry.removeprefix("[").removesuffix("]").rstrip(".")
    if "*" in entry and fnmatchcase(host, entry):
        return True
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        name = entry.removeprefix("*").removeprefix(".")
        return bool(name) and (host == name or host.endswith(f".{name}"))
    try:
        return address in ipaddress.ip_network(entry, strict=False)
    except ValueError:
        return False


class Routed(httpx2.AsyncBaseTransport):
    """Sends each request directly or over the proxy of its address, which is found once. For a client with
    `trust_env=False`.

    A proxy whose address is not valid raises `httpx2.UnsupportedProtocol` for each request that needs it, and
    one that refuses a request, or cannot be reached, `httpx2.ProxyError`.
    """

    def __init__(
        self, limits: httpx2.Limits, verify: ssl.SSLContext, direct: httpx2.AsyncBaseTransport | None = None
    ) -> None:
        """
        Args:
            direct: the transport of requests without a proxy; None: that of httpx2.
        """
        self._limits = limits
        self._verify = verify
        self._by_proxy: dict[str | None, httpx2.AsyncBaseTransport] = {} if direct is None else {None: direct}
        # Reading the environment for each request would cost as much as writing a small one.
        self._proxy_of = lru_cache(_MAX_ADDRESSES)(_proxy_of)

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        url = request.url
        proxy = self._proxy_of(url.scheme, url.host, url.port)
        try:
            response = await self._to(proxy).handle_async_request(request)
        except (httpx2.ConnectError, httpx2.ConnectTimeout) as error:
            # TLS is that of the server, inside the tunnel.
            if proxy is None or is_of_tls(error):
                raise
            raise httpx2.ProxyError("no connection", request=request) from error
        if proxy is not None and _is_of_proxy(response):
            await response.aclose()
            raise httpx2.ProxyError(f"{response.status_code} for a request without a tunnel")
        return response

    def _to(self, proxy: str | None) -> httpx2.AsyncBaseTransport:
        if proxy not in self._by_proxy:
            try:
                made = httpx2.AsyncHTTPTransport(limits=self._limits, proxy=proxy, verify=self._verify)
            except (ValueError, httpx2.InvalidURL) as error:
                raise httpx2.UnsupportedProtocol(INVALID) from error
            self._by_proxy[proxy] = made
        return self._by_proxy[proxy]

    async def aclose(self) -> None:
        for each in self._by_proxy.values():
            await each.aclose()


def _is_of_proxy(response: httpx2.Response) -> bool:
    """Whether a proxy, which passes requests of `http` on itself, has refused one instead (RFC 9110, 15.5.8;
    RFC 9209; Squid)."""
    status = response.status_code
    named = "proxy-status" in response.headers or "x-squid-error" in response.headers
    return status == HTTPStatus.PROXY_AUTHENTICATION_REQUIRED or (status == HTTPStatus.FORBIDDEN and named)


INVALID = f"a proxy in the environment has no valid address ({NAMES})"


def said_by_proxy(error: httpx2.ProxyError) -> str:
    """Why a proxy does not pass on a request. Only the status of its answer is used: the text of an HTTP
    library may quote a header."""
    if isinstance(error.__cause__, httpx2.ConnectError | httpx2.ConnectTimeout):
        why = why_unreached(error.__cause__)
        return "the proxy of the environment cannot be reached" + (f": {why}" if why else "")
    found = re.match(r"\d{3}\b", str(error))
    if found is None:
        return "the proxy of the environment does not reach it"
    hint = " (its address needs a user and a password)" if found[0] == "407" else ""
    return f"the proxy of the environment answers HTTP {found[0]}{hint}"
