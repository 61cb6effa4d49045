"""The log: lines on stdout for people and for what collects them.

    2026-11-21T10:00:00.123Z INFO stopgo.access: POST /conversations 201 12.3ms conversation=9b2... sid=1f0c

Bodies, query strings and headers are never logged: they may hold what is secret.
"""

from __future__ import annotations

import logging
import re
import select
import sys
from datetime import UTC, datetime
from typing import TextIO

STALL = 1.0
"""Seconds that everything waits for a reader of the log that does not read, before it misses lines."""
PIECE = 1000
"""Characters that are written at once: on Linux a pipe that is ready takes 4096 bytes."""
_UNSAFE = re.compile(
    "[\x00-\x1f\x7f-\x9f\xad\u061c\u200b-\u200f\u2028-\u202f\u2060-\u206f\ufeff\ufff9-\ufffb\ud800-\udfff]"
)


def in_one_line(text: str) -> str:
    """The text with everything escaped that could end a line, move a cursor or turn the direction of writing:
    servers and clients have written part of what is logged."""
    return _UNSAFE.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


class Lines(logging.Formatter):
    """One line for each record, whatever is in it; only a traceback of our own adds more."""

    def format(self, record: logging.LogRecord) -> str:
        at = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        message = in_one_line(record.getMessage())
        line = f"{at.removesuffix('+00:00')}Z {record.levelname} {record.name}: {message}"
        if record.exc_info:
            # A logging filter may have formatted and masked the traceback already. It is indented, because
            # the text of an error can look like a line of the log.
            lines = (record.exc_text or self.formatException(record.exc_info)).split("\n")
            line = "\n    ".join([line, *map(in_one_line, lines)])
        return line


class Unblocked(logging.StreamHandler[TextIO]):
    """Goes on without the log while nobody reads it: a write to a full pipe would hold up the event loop, and
    with it every request and every signal.

    Raises OSError when there is no file behind the stream.
    """

    def __init__(self, stream: TextIO) -> None:
        super().__init__(stream)
        self._ready = select.poll()
        self._ready.register(stream.fileno(), select.POLLOUT)
        self._left_out = 0
        self._cut = False
        """The last line is there in part."""

    def emit(self, record: logging.LogRecord) -> None:
        try:
            if self._left_out and self._write(self.format(_left_out(self._left_out))):
                self._left_out = 0
            if self._left_out or not self._write(self.format(record)):
                self._left_out += 1
        except (OSError, ValueError):
            self.handleError(record)

    def _write(self, line: str) -> bool:
        text = f"{self.terminator if self._cut else ''}{line}{self.terminator}"
        for at in range(0, len(text), PIECE):
            if not self._ready.poll(0 if self._left_out else STALL * 1000):
                return False
            self.stream.write(text[at : at + PIECE])
            self.flush()
            self._cut = at + PIECE < len(text)
        return True


def _left_out(lines: int) -> logging.LogRecord:
    text = "%d log lines were dropped because stdout was not being read"
    return logging.LogRecord("stopgo.log", logging.WARNING, "", 0, text, (lines,), None)


def configure() -> None:
    """Set up the logging of this process: everything goes to stdout, one level, no file."""
    try:
        handler: logging.Handler = Unblocked(sys.stdout)
    except (AttributeError, OSError):  # it is closed, or a program's own
        handler = logging.StreamHandler(sys.stdout)
    handler.setFormatter(Lines())
    logging.basicConfig(level=logging.INFO, handlers=[handler], force=True)
    # A reader of our stdout that went away is no reason to fill stderr with tracebacks.
    logging.raiseExceptions = False
    # Libraries speak up when something is wrong; what they do all day is not news.
    for name in ("httpx2", "httpcore2", "mcp", "anthropic"):
        logging.getLogger(name).setLevel(logging.WARNING)
