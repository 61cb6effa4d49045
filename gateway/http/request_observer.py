"""Observers of requests, for metrics and traces."""

from __future__ import annotations

import re

from hypercorn.typing import WWWScope

OBSERVERS = "observers"
"""Key in the state of a request's scope: the observers that get its end."""
ROUTE = "route"
"""Key in that state: the path of the route, with its variables in braces."""
TRACEPARENT = "traceparent"
"""Key in that state: the trace that an observer has made the request a part of (W3C Trace Context)."""


_VALID = re.compile(r"(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}(-.{0,200})?")


def valid_traceparent(header: str) -> str | None:
    """The value of a `traceparent` header (W3C Trace Context, section 3.2); None if it is not valid."""
    given = header.strip()
    return given if _VALID.fullmatch(given) else None


def client_traceparent(request: WWWScope) -> str | None:
    """The valid `traceparent` of a request; None if there is none."""
    found = (value for name, value in request["headers"] if name == b"traceparent")
    return valid_traceparent(next(found, b"").decode("latin1"))


class RequestObserver:
    """Does nothing; subclasses override the methods that they need. These must neither wait nor raise."""

    def request_began(self, request: WWWScope) -> None:
        """A request, or the handshake of a websocket, is about to be served."""

    def request_ended(self, request: WWWScope, status: int, seconds: float) -> None:
        """A request, with its stream if it has one, or a websocket has ended."""
