"""The bearer token of the call being made: beside the message, never in it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from ...config.mcp import McpServerConfig

_USER = re.compile(r"[^:]+://[^/?#]*@")
"""An address with a user, and perhaps a password, in front of its host (RFC 3986, section 3.2.1)."""
_bearer: ContextVar[str | None] = ContextVar("stopgo_mcp_bearer", default=None)


def forwards_bearer(config: McpServerConfig) -> bool:
    """Whether the bearer of a call reaches this server: only those that speak HTTP get it, and of these only
    those that have no credentials of their own. Whom users trust with their tokens is theirs to say, and
    what the server was given by its configuration must not be replaced."""
    if config.url is None:
        return False
    in_headers = any(name.lower() == "authorization" for name in config.headers)
    return config.oauth is None and not in_headers and _USER.match(config.url) is None


@contextmanager
def forwarding(token: str | None) -> Iterator[None]:
    """Forward `token` with whatever HTTP requests are sent for this block, and with no others."""
    reset = _bearer.set(token)
    try:
        yield
    finally:
        _bearer.reset(reset)


def forward_from_here(token: str | None) -> None:
    """Forward `token` with whatever the present task still sends."""
    _bearer.set(token)


def current_bearer() -> str | None:
    """The token to forward with the request at hand; the SDK sends each one in its caller's context."""
    return _bearer.get()
