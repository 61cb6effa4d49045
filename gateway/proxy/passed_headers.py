"""Which headers are passed on, in either direction. Pure.

1. To the agent go the headers that mean something to it, and no other: neither cookies of the page's host nor
   what a browser says of the page (`Origin`, `Sec-Fetch-*`), for that was checked here.
2. To the client go all headers of the agent but those of the connection (RFC 9110, section 7.6.1), those that
   speak for the host that sends them, and those that would let pages of other sites in.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

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
    "X-Session-ID",
)
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
_OF_HOST = frozenset({"alt-svc", "date", "server", "set-cookie", "strict-transport-security"})
_LETS_IN = "access-control-"


def to_agent(headers: Headers, address: AgentAddress) -> list[tuple[bytes, bytes]]:
    """The headers of a request as they are sent on, without `Host`."""
    named = _tokens(headers.getlist("Connection"))
    sent = [
        (name.encode(), value.encode("latin-1"))
        for name in _TO_AGENT
        if name.lower() not in named
        for value in headers.getlist(name)
    ]
    if address.authorization is not None and "Authorization" not in headers:
        sent.append((b"Authorization", address.authorization.encode()))
    return [*sent, (b"User-Agent", b"stopgo-web")]


def to_client(headers: Iterable[tuple[str, str]], address: AgentAddress) -> Mapping[str, str]:
    """The headers of an answer as they are sent on; several of one name as one."""
    given: dict[str, list[str]] = {}
    for name, value in headers:
        given.setdefault(name.lower(), []).append(value)
    left_out = {*_OF_CONNECTION, *_OF_HOST, *_tokens(given.get("connection", ()))}
    if "transfer-encoding" in given:  # it counts, and not the length (RFC 9112, section 6.3)
        left_out.add("content-length")
    passed = {
        name.title(): ", ".join(values)
        for name, values in given.items()
        if name not in left_out and not name.startswith(_LETS_IN)
    }
    if "Location" in passed:
        passed["Location"] = address.relative(passed["Location"])
    return passed


def _tokens(values: Iterable[str]) -> set[str]:
    return {token.strip().lower() for value in values for token in value.split(",")}
