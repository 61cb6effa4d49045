"""The bearer token of the current call. It travels beside the message, never in it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_bearer: ContextVar[str | None] = ContextVar("stopgo_mcp_bearer", default=None)


@contextmanager
def forwarding(token: str | None) -> Iterator[None]:
    """Forward `token` with the HTTP requests that are sent for this block, and with no others."""
    reset = _bearer.set(token)
    try:
        yield
    finally:
        _bearer.reset(reset)


def forward_from_here(token: str | None) -> None:
    """Forward `token` with all further requests of the current task."""
    _bearer.set(token)


def current_bearer() -> str | None:
    """Return the token to forward. The SDK sends each request in the context of its caller."""
    return _bearer.get()
