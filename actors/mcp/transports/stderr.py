"""The stderr of a child process: logged within a limit, and its end kept for error messages."""

from __future__ import annotations

import logging
import math
from collections import deque

import trio

MAX_LINE = 2_000
"""Maximum bytes of a line; the rest is dropped."""
MAX_LOGGED = 100_000
"""Maximum characters logged per child and period; otherwise a child could fill the disk."""
PERIOD = 60.0
"""Length of a period, in seconds."""
LINE_COST = 60
"""Characters that each line counts in addition to its text."""
TAIL = 20
"""Number of last lines kept for error messages."""
MAX_TAIL = 2_000
"""Maximum characters of these lines in an error message."""


class Stderr:
    """Logs the lines of one child and keeps the last ones."""

    def __init__(self, log: logging.Logger) -> None:
        self._log = log
        self._tail: deque[str] = deque(maxlen=TAIL)
        self._period_ends = -math.inf
        self._budget = 0
        self._dropped = 0

    def add(self, line: bytes) -> None:
        """Log a line, within the limit, and keep it for `tail`."""
        text = line[:MAX_LINE].decode(errors="replace").rstrip()
        if not text:
            return
        self._tail.append(text)
        now = trio.current_time()
        if now >= self._period_ends:
            self.log_dropped()
            self._period_ends, self._budget = now + PERIOD, MAX_LOGGED
        if self._dropped or len(text) + LINE_COST > self._budget:
            if not self._dropped:
                self._log.warning(
                    "the server writes too much to stderr; its lines are not logged for the next %.0f s",
                    self._period_ends - now,
                )
            self._dropped += 1
            return
        self._budget -= len(text) + LINE_COST
        self._log.info("%s", text)

    def log_dropped(self) -> None:
        """Log the number of lines dropped since the last call, if any."""
        if self._dropped:
            self._log.warning("%d lines of stderr were dropped", self._dropped)
            self._dropped = 0

    def tail(self) -> str:
        """Return the last lines, within `MAX_TAIL` characters."""
        return "\n".join(self._tail)[-MAX_TAIL:]
