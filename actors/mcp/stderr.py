"""The stderr of a child process: logged within a limit, and remembered for error messages."""

from __future__ import annotations

import logging
import math
from collections import deque

import trio

MAX_LINE = 2_000
"""Bytes of a line that are kept."""
MAX_LOGGED = 100_000
"""Characters that are logged for one child per period; otherwise a child could fill the disk."""
PERIOD = 60.0
"""Seconds."""
LINE_COST = 60
"""Characters that count for a line in addition to its own."""
TAIL = 20
"""Lines that are remembered."""
MAX_TAIL = 2_000
"""Characters of them in an error."""


class Stderr:
    """Receives the lines of one child."""

    def __init__(self, log: logging.Logger) -> None:
        self._log = log
        self._tail: deque[str] = deque(maxlen=TAIL)
        self._period_ends = -math.inf
        self._room = 0
        self._dropped = 0

    def add(self, line: bytes) -> None:
        """Log a line and remember it."""
        text = line[:MAX_LINE].decode(errors="replace").rstrip()
        if not text:
            return
        self._tail.append(text)
        now = trio.current_time()
        if now >= self._period_ends:
            self.log_dropped()
            self._period_ends, self._room = now + PERIOD, MAX_LOGGED
        if self._dropped or len(text) + LINE_COST > self._room:
            if not self._dropped:
                self._log.warning(
                    "writes too much to stderr; not logging it for the next %.0f s", self._period_ends - now
                )
            self._dropped += 1
            return
        self._room -= len(text) + LINE_COST
        self._log.info("%s", text)

    def log_dropped(self) -> None:
        """Log how many lines were dropped, if any."""
        if self._dropped:
            self._log.warning("%d lines of stderr were dropped", self._dropped)
            self._dropped = 0

    def tail(self) -> str:
        """Return the last lines."""
        return "\n".join(self._tail)[-MAX_TAIL:]
