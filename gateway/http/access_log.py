"""The access log: one line for each request."""

from __future__ import annotations

import logging
from http import HTTPStatus
from typing import TYPE_CHECKING

from hypercorn.logging import Logger

from .request_observer import OBSERVERS, TRACEPARENT, client_traceparent

if TYPE_CHECKING:
    from hypercorn.typing import ResponseSummary, WWWScope

    from .identity import Identity

MAX_PATH = 300
"""Characters of a path that are logged."""
CLIENT_LEFT = 499
"""The logged status of a request whose client left before its answer."""
SENT_STATUS = "answered"
"""Key in the state of a request's scope: the status of an answer that was passed to Hypercorn in full."""

access = logging.getLogger("stopgo.access")

IDENTITY = "identity"
"""Key in the state of a request's scope: the verified sender (`Identity`)."""
RPC = "rpc"
"""Key in the state of a request's scope: the method of JSON-RPC that it calls."""

LINE = "%s %s %d %.1fms conversation=%s sid=%s"
FIELDS = ("method", "path", "status", "duration_ms", "conversation", "session", "by", RPC, "trace")
"""The names of the arguments of a line in JSON."""


class ServerLog(Logger):
    """Hypercorn's logger. Hypercorn calls it when a request ends, with or without an answer."""

    async def access(self, request: WWWScope, response: ResponseSummary | None, request_time: float) -> None:
        status = int(response["status"]) if response is not None else None
        log_request(request, status or request["state"].get(SENT_STATUS, CLIENT_LEFT), request_time)


def _level(status: int) -> int:
    # 503 is expected during a shutdown, and before the agent is ready.
    if status == HTTPStatus.SERVICE_UNAVAILABLE:
        return logging.WARNING
    return logging.ERROR if status >= 500 else logging.INFO


def log_request(request: WWWScope, status: int, seconds: float) -> None:
    """Log a request once; further calls for it are ignored."""
    known = request["state"]
    # A client that disconnects with the last byte of its answer is reported twice: disconnected and answered.
    if "logged" in known:
        return
    known["logged"] = True
    for observer in known.get(OBSERVERS, ()):
        observer.request_ended(request, status, seconds)
    # The raw path is still percent-encoded, so it cannot forge a log line.
    path = request["raw_path"].decode("ascii", "replace")
    trace = (known.get(TRACEPARENT) or client_traceparent(request) or "")[3:35]
    # Quoted, because a subject may look like further fields.
    tail = {"by": ("%r", _sender(known.get(IDENTITY))), RPC: ("%s", known.get(RPC)), "trace": ("%s", trace)}
    access.log(
        _level(status),
        # `%.0s` shows nothing: each line has all arguments, so that JSON can name them.
        LINE + "".join(f" {name}={form}" if value else "%.0s" for name, (form, value) in tail.items()),
        request.get("method", "GET"),
        path if len(path) <= MAX_PATH else f"{path[:MAX_PATH]}...",
        status,
        seconds * 1000,
        known.get("conversation", "-"),
        known.get("sid", "-"),
        *(value or "-" for _, value in tail.values()),
    )


def _sender(identity: Identity | None) -> str | None:
    return None if identity is None else identity.principal.id
