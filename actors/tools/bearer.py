"""The bearer token of the call being made: beside the message, never in it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_bearer: ContextVar[str | None] = ContextVar("stopgo_mcp_bearer", default=None)


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
