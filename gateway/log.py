"""The log: lines on stdout for people and for what collects them.

    2026-11-21T10:00:00.123Z INFO stopgo.access: POST /conversations 201 12.3ms conversation=9b2... sid=1f0c

Bodies, query strings and headers are never logged: they may hold what is secret.
"""

from __future__ import annotations

import logging
import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from hypercorn.logging import Logger

if TYPE_CHECKING:
    from hypercorn.typing import ResponseSummary, WWWScope

MAX_PATH = 300
"""Characters of a path that are logged."""
CLIENT_LEFT = 499
"""What the log says when the client went away before its answer."""
ANSWERED = "answered"
"""In the state of a request's scope: the status of an answer that was handed over in full."""

access = logging.getLogger("stopgo.access")


class Lines(logging.Formatter):
    """One line for each record, whatever is in it; only a traceback of our own adds more."""

    def format(self, record: logging.LogRecord) -> str:
        at = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        message = record.getMessage().replace("\r", "\\r").replace("\n", "\\n")
        line = f"{at.removesuffix('+00:00')}Z {record.levelname} {record.name}: {message}"
        if record.exc_info:
            line = f"{line}\n{self.formatException(record.exc_info)}"
        return line


def configure() -> None:
    """Set up the logging of this process: everything goes to stdout, one level, no file."""
    handler = logging.StreamHandler(sys.stdout)
    handler.setFormatter(Lines())
    logging.basicConfig(level=logging.INFO, handlers=[handler], force=True)
    # What no line tells need not be found out for each: where in the code it was said, and in which thread of
    # which process ("Optimization" in the logging HOWTO of Python).
    logging._srcfile = None
    logging.logThreads = logging.logProcesses = logging.logMultiprocessing = False
    # A reader of our stdout that went away is no reason to fill stderr with tracebacks.
    logging.raiseExceptions = False
    # Libraries speak up when something is wrong; what they do all day is not news.
    for name in ("httpx2", "httpcore2", "mcp", "anthropic"):
        logging.getLogger(name).setLevel(logging.WARNING)


class ServerLog(Logger):
    """What Hypercorn calls when a request is over, answered or not."""

    async def access(self, request: WWWScope, response: ResponseSummary | None, request_time: float) -> None:
        status = int(response["status"]) if response is not None else None
        log_request(request, status or request["state"].get(ANSWERED, CLIENT_LEFT), request_time)


def log_request(request: WWWScope, status: int, seconds: float) -> None:
    """The line of a request; only the first counts."""
    known = request["state"]
    # A client that leaves with the last byte of its answer is reported twice: as gone, and as answered.
    if "logged" in known:
        return
    known["logged"] = True
    # The raw path is what came over the wire: percent-encoded, so it cannot forge a line.
    path = request["raw_path"].decode("ascii", "replace")
    access.log(
        logging.ERROR if status >= 500 else logging.INFO,
        "%s %s %d %.1fms conversation=%s sid=%s",
        request.get("method", "GET"),
        path if len(path) <= MAX_PATH else f"{path[:MAX_PATH]}...",
        status,
        seconds * 1000,
        known.get("conversation", "-"),
        known.get("sid", "-"),
    )
