"""The log: lines on stdout, for people and for log collectors.

    2026-11-21T10:00:00.123Z INFO stopgo.access: POST /conversations 201 12.3ms conversation=9b2... sid=1f0c

or one JSON object in each line (`JsonLogLines`).

Bodies, query strings and headers are never logged, because they may contain secrets.
"""

from __future__ import annotations

import logging
import select
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Literal, TextIO, TypeAlias

from ..runtime import json_text
from ..runtime.envelope import current_trace
from ..runtime.visible_text import visible
from .http.access_log import FIELDS, access

LogFormat: TypeAlias = Literal["text", "json"]

LIBRARIES = ("anthropic", "anyio", "httpcore2", "httpx2", "mcp", "opentelemetry", "urllib3")
STALL = 1.0
"""Seconds that the process waits for a log reader that does not read, before lines are dropped."""
PIECE = 1000
"""Characters per write: on Linux a pipe that polls as ready takes at least 4096 bytes."""


def in_one_line(text: str) -> str:
    """Escape every character that could end a line, move the cursor or change the writing direction, because
    parts of a log line come from servers and clients."""
    return visible(text, kept="")


class LogLines(logging.Formatter):
    """Formats each record as one line; only a traceback of our own adds more.

    A line about a run ends with the names of its conversation, its session and its trace.
    """

    def format(self, record: logging.LogRecord) -> str:
        message = in_one_line(record.getMessage())
        line = f"{_time(record)} {record.levelname} {record.name}: {message}"
        for name, value in current_trace.get().items():
            line += f" {name}={value}"
        if record.exc_info:
            # A logging filter may have formatted and masked the traceback already. It is indented, because
            # the text of an error can look like a line of the log.
            lines = (record.exc_text or self.formatException(record.exc_info)).split("\n")
            line = "\n    ".join([line, *map(in_one_line, lines)])
        return line


class JsonLogLines(logging.Formatter):
    """Formats each record as one JSON object in one line: `time`, `level`, `logger` and `message`, for lines
    about a run or a request the names of its conversation, its session and its trace, and for unexpected
    errors `exception`. Lines of requests have the parts of the message as fields, too."""

    def format(self, record: logging.LogRecord) -> str:
        fields: dict[str, object] = {
            "time": _time(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": in_one_line(record.getMessage()),
        }
        if record.name == access.name and isinstance(record.args, tuple):
            named = dict(zip(FIELDS, record.args, strict=False))
            fields |= {name: value for name, value in named.items() if value != "-"}
        fields |= {_NAMES[name]: value for name, value in current_trace.get().items()}
        if record.exc_info:
            lines = (record.exc_text or self.formatException(record.exc_info)).split("\n")
            fields["exception"] = "\n".join(map(in_one_line, lines))
        return json_text.dump(fields)


_NAMES = {"conversation": "conversation", "sid": "session", "trace": "trace"}
"""The names in JSON of the names in text."""
FORMATS: Mapping[LogFormat, type[logging.Formatter]] = {"text": LogLines, "json": JsonLogLines}
LEVELS = ("debug", "info", "warning", "error")


def _time(record: logging.LogRecord) -> str:
    at = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
    return f"{at.removesuffix('+00:00')}Z"


class Unblocked(logging.StreamHandler[TextIO]):
    """A stream handler that drops lines while stdout is not being read. Otherwise a write to a full pipe
    would block the event loop, and with it every request and every signal.

    Raises `OSError` if the stream has no file descriptor.
    """

    def __init__(self, stream: TextIO) -> None:
        super().__init__(stream)
        self._ready = select.poll()
        self._ready.register(stream.fileno(), select.POLLOUT)
        self._dropped = 0
        self._cut = False
        """Only a part of the last line has been written."""

    def emit(self, record: logging.LogRecord) -> None:
        try:
            if self._dropped and self._write(self.format(_dropped(self._dropped))):
                self._dropped = 0
            if self._dropped or not self._write(self.format(record)):
                self._dropped += 1
        except (OSError, ValueError):
            self.handleError(record)

    def _write(self, line: str) -> bool:
        text = f"{self.terminator if self._cut else ''}{line}{self.terminator}"
        for at in range(0, len(text), PIECE):
            if not self._ready.poll(0 if self._dropped else STALL * 1000):
                return False
            self.stream.write(text[at : at + PIECE])
            self.flush()
            self._cut = at + PIECE < len(text)
        return True


def _dropped(lines: int) -> logging.LogRecord:
    text = "%d log lines were dropped because stdout was not being read"
    return logging.LogRecord("stopgo.log", logging.WARNING, "", 0, text, (lines,), None)


def configure(format: LogFormat = "text", level: str = "info") -> None:
    """Set up logging for this process: one level of `LEVELS`, to stdout, no file."""
    try:
        handler: logging.Handler = Unblocked(sys.stdout)
    except (AttributeError, OSError):  # stdout is closed, or an object without a file
        handler = logging.StreamHandler(sys.stdout)
    handler.setFormatter(FORMATS[format]())
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    # When the reader of stdout is gone, each line would otherwise print a traceback to stderr.
    logging.raiseExceptions = False
    # These libraries log each request, some of them with headers and bodies at DEBUG.
    for name in LIBRARIES:
        logging.getLogger(name).setLevel(max(logging.WARNING, logging.getLogger().level))
