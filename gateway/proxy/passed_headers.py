"""The headers that the proxy forwards, in both directions. Pure.

1. The agent receives only the headers that it reads. It does not receive `Origin` and `Sec-Fetch-*`, because
   the proxy has checked those, nor the headers of a proxy that authenticates.
2. The client receives all headers of the agent except those of the connection (RFC 9110, section 7.6.1),
   those that describe the sending host, and those that would admit pages of other sites (CORS).
3. Of the cookies, only those of the agent's login pass, in both directions: other cookies belong to other
   programs at the host of the page. An answer sets at most one cookie.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from ..auth.login_transaction import LOGIN_COOKIE
from ..auth.sessions import COOKIE
from ..http.request import Headers
from .agent_address import AgentAddress

_TO_AGENT = (
    "Accept",
    "Authorization",
    "Content-Type",
    "Idempotency-Key",
    "If-None-Match",
    "Last-Event-ID",
    "Prefer",
    "Traceparent",
    "Tracestate",
    "X-API-Key",
    "X-CSRF-Token",
    "X-Session-ID",
    "X-Tool-Authorization",
)
_COOKIE = re.compile(rf"({COOKIE}|{LOGIN_COOKIE})=[^;,\s]*", re.ASCII)
"""A cookie of the agent's login."""
_OF_CONNECTION = frozenset(
    {
        "connection",
        "keep-alive",
        "proxy-authenticate",
        "proxy-authorization",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    }
)
_OF_HOST = frozenset({"alt-svc", "date", "server", "strict-transport-security"})
_LETS_IN = "access-control-"


def to_agent(headers: Headers, address: AgentAddress) -> list[tuple[bytes, bytes]]:
    """The headers of the request to the agent, without `Host`."""
    named = _tokens(headers.getlist("Connection"))
    sent = [
        (name.encode(), value.encode("latin-1"))
        for name in _TO_AGENT
        if name.lower() not in named
        for value in headers.getlist(name)
    ]
    given = (each.strip() for value in headers.getlist("Cookie") for each in value.split(";"))
    if cookies := [each for each in given if _COOKIE.fullmatch(each)]:
        sent.append((b"Cookie", "; ".join(cookies).encode()))
    if address.authorization is not None and "Authorization" not in headers:
        sent.append((b"Authorization", address.authorization.encode()))
    return [*sent, (b"User-Agent", b"stopgo-web")]


def to_client(headers: Iterable[tuple[str, str]], address: AgentAddress) -> Mapping[str, str]:
    """The headers of the answer to the client; repeated headers are joined."""
    given: dict[str, list[str]] = {}
    for name, value in headers:
        given.setdefault(name.lower(), []).append(value)
    left_out = {*_OF_CONNECTION, *_OF_HOST, *_tokens(given.get("connection", ()))}
    if "transfer-encoding" in given:  # it overrides the length (RFC 9112, section 6.3)
        left_out.add("content-length")
    passed = {
        name.title(): ", ".join(values)
        for name, values in given.items()
        if name not in left_out and not name.startswith(_LETS_IN)
    }
    if not _COOKIE.match(passed.get("Set-Cookie", "")) or len(given["set-cookie"]) > 1:
        passed.pop("Set-Cookie", None)
    if "Location" in passed:
        passed["Location"] = address.relative(passed["Location"])
    return passed


def _tokens(values: Iterable[str]) -> set[str]:
    return {token.strip().lower() for value in values for token in value.split(",")}
