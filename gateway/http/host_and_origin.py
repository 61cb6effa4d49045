"""Admission of requests by `Host`, `Origin` and `Sec-Fetch-Site`. Pure.

A browser lets every page send requests to every address that it can reach. It sets these three headers
itself, so they distinguish the agent's own pages from others. Programs send neither `Origin` nor
`Sec-Fetch-Site`.

Host (421 `wrong_host`). An attacker's page may resolve its own name to the agent's address (DNS rebinding).
To the browser the agent then belongs to that page's site: the page could read everything, and approve.

1. Every host that the request names has to be allowed: that of `Host`, and that of a target such as
   `GET http://name/path`.
2. Allowed are IP addresses, because rebinding needs a name; `localhost`; the host of `server.public_url`; and
   the names in `server.allowed_hosts`. Case and port do not matter. `localhost.` and `agent.localhost` do not
   match `localhost`.
3. A value that is not one host, with or without a port, is refused: user information, two names, an empty
   value. A request without `Host` names no host. Only HTTP/1.0 has such requests; browsers send none.

Origin (403 `cross_site`). The allowed hosts have no effect here.

4. `Sec-Fetch-Site`, if sent, has to be `same-origin` or `none`, even with an origin that rule 5 allows. One
   request may come from any site: a `GET` of exactly `/` that opens a tab or replaces the page in one
   (`Sec-Fetch-Mode: navigate`, `Sec-Fetch-Dest: document`), so that links in mail and chats work. Its answer
   is the static page, which contains no data of the agent. No other site can read, frame or script the page,
   and the page decides nothing by itself. Its own requests are `same-origin`. With a login, the issuer sends
   the browser back in the same way, to the path of the callback, which checks that this browser began it.
5. `Origin`, if sent, has to have the scheme, host and port of `server.public_url`, of an entry of
   `server.allowed_origins`, or of the address that the connection came to: `http`, that address and its port.
   For a loopback address, `localhost`, `127.0.0.1` and `[::1]` with that port are accepted, too. `null`, and
   every other value that is not an http or https origin, is refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from ipaddress import IPv4Address, IPv6Address, ip_address
from urllib.parse import quote, unquote, urlsplit

import attrs
from hypercorn.typing import WWWScope

from ...config.sections.agent_config import ServerConfig
from .errors import RequestError

_HOST_AND_PORT = re.compile(r"([a-z0-9._-]+|\[[0-9a-f:.]+(?:%[a-z0-9._-]+)?\])(?::([0-9]{0,5}))?")
_DEFAULT_PORTS = {"http": 80, "https": 443}
_NO_LINKS = (
    "A page has to come from the agent's own origin, for instance through a proxy. In place of following a "
    "link, enter the address in the browser."
)
_SHOWN = 100
"""Characters of a refused value that the error quotes."""


@attrs.frozen
class WebOrigin:
    scheme: str
    host: str
    """In lower case, an IPv6 address in brackets and in its shortest form."""
    port: int


@attrs.frozen
class Allowed:
    """The hosts and origins that a configuration file allows in addition."""

    hosts: frozenset[str]
    origins: frozenset[WebOrigin]
    linked: frozenset[bytes] = frozenset({b"/"})
    """The paths that other sites may open in a tab (rule 4)."""
    prefix: str = ""
    """See `prefix_of`."""
    how: str = "agent file: `server: {{{}}}`"
    """The location of a setting in that file, for the hints; `format` inserts the setting."""


def allowed_by(server: ServerConfig) -> Allowed:
    public = _origin_of_url(server.public_url or "")
    listed = map(_origin_of_url, server.allowed_origins)
    return Allowed(
        frozenset(name.lower() for name in (*server.allowed_hosts, *([public.host] if public else []))),
        frozenset(origin for origin in (public, *listed) if origin),
        prefix=prefix_of(server.public_url),
    )


def prefix_of(public_url: str | None) -> str:
    """The path of `public_url`, below which a proxy serves the agent: escaped, without a slash at its end."""
    return quote(unquote(urlsplit(public_url or "").path.rstrip("/")))


def check_admission(scope: WWWScope, allowed: Allowed) -> None:
    """Raises `RequestError` for a request, or the handshake of a websocket, that is not admitted."""
    for text in _named_hosts(scope):
        host, _ = _host_and_port(text)
        if not host or not (host in allowed.hosts or host == "localhost" or _is_address(host)):
            raise _wrong_host(text, host, allowed)
    if not {*_values(scope, b"sec-fetch-site")} <= {"same-origin", "none"} and not _follows_link(
        scope, allowed
    ):
        raise _cross_site(_NO_LINKS)
    for text in _values(scope, b"origin"):
        origin = _origin(text)
        if origin is None or not (origin in allowed.origins or origin in _own_origins(scope)):
            setting = f"allowed_origins: ['{text[:_SHOWN]}']"
            raise _cross_site(_how_to_allow(setting, allowed) if origin else None)


def _follows_link(scope: WWWScope, allowed: Allowed) -> bool:
    """Whether a browser opens one of the linked paths in a tab (rule 4)."""
    return (
        scope["type"] == "http"
        and scope["method"] == "GET"
        and scope["raw_path"] in allowed.linked
        and _values(scope, b"sec-fetch-mode") == ["navigate"]
        and _values(scope, b"sec-fetch-dest") == ["document"]
    )


def _values(scope: WWWScope, name: bytes) -> list[str]:
    """All values of a header, in lower case."""
    return [value.decode("latin-1").lower() for key, value in scope["headers"] if key.lower() == name]


def _named_hosts(scope: WWWScope) -> Iterator[str]:
    yield from _values(scope, b"host")
    target = scope["raw_path"].decode("latin-1").lower()
    if not target.startswith("/"):
        yield target.partition("://")[2].partition("/")[0]


def _host_and_port(text: str) -> tuple[str, int | None]:
    """A host and its port, if given; an empty host if the text is not a host."""
    found = _HOST_AND_PORT.fullmatch(text)
    host = found[1] if found else ""
    if host.startswith("["):
        try:
            host = f"[{IPv6Address(host[1:-1])}]"
        except ValueError:
            host = ""
    return host, int(found[2]) if found and found[2] else None


def _is_address(host: str) -> bool:
    if host.startswith("["):
        return True
    try:
        IPv4Address(host)
    except ValueError:
        return False
    return True


def _origin(text: str) -> WebOrigin | None:
    scheme, _, rest = text.partition("://")
    host, port = _host_and_port(rest)
    if not host or scheme not in _DEFAULT_PORTS:
        return None
    return WebOrigin(scheme, host, _DEFAULT_PORTS[scheme] if port is None else port)


def _origin_of_url(url: str) -> WebOrigin | None:
    return _origin("/".join(url.lower().split("/")[:3]))


def _own_origins(scope: WWWScope) -> Iterator[WebOrigin]:
    """The origins of the address that the connection came to (rule 5)."""
    host, port = scope["server"] or ("", None)
    if port is None:
        return
    address = ip_address(host.partition("%")[0])
    names = (f"[{address}]" if address.version == 6 else str(address),)
    for name in (*names, *(("localhost", "127.0.0.1", "[::1]") if address.is_loopback else ())):
        yield WebOrigin("http", name, port)


def _wrong_host(text: str, host: str, allowed: Allowed) -> RequestError:
    hint = "Use an IP address, `localhost`, or a name that the server's file allows."
    if host:
        line = _how_to_allow(f"allowed_hosts: [{host[:_SHOWN]}]", allowed)
        hint = f"{line} A proxy may send `Host: localhost` instead."
    return RequestError(421, "wrong_host", f"{text[:_SHOWN]!r} is not a host of this agent", hint=hint)


def _cross_site(hint: str | None) -> RequestError:
    return RequestError(403, "cross_site", "the request comes from a page of another site", hint=hint)


def _how_to_allow(setting: str, allowed: Allowed) -> str:
    return f"If it is yours, add to the {allowed.how.format(setting)}."
