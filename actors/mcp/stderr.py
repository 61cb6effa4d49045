"""What a child says on stderr: in the log, as far as that has room for it, and its last words."""

from __future__ import annotations

import logging
import math
from collections import deque

import trio

MAX_LINE = 2_000
"""Bytes of a line that are kept."""
MAX_LOGGED = 100_000
"""Characters of a child's that the log takes in a period; a child that floods it would fill the disk."""
PERIOD = 60.0
"""Seconds."""
LINE_COST = 60
"""Characters that a line takes in the log besides its own."""
TAIL = 20
"""Lines that are remembered."""
MAX_LAST_WORDS = 2_000
"""Characters of them that go into an error."""


class Stderr:
    """Hears the lines of one child."""

    def __init__(self, log: logging.Logger) -> None:
        self._log = log
        self._tail: deque[str] = deque(maxlen=TAIL)
        self._period_ends = -math.inf
        self._room = 0
        self._left_out = 0

    def hear(self, line: bytes) -> None:
        """Log a line, and remember it."""
        text = line[:MAX_LINE].decode(errors="replace").rstrip()
        if not text:
            return
        self._tail.append(text)
        now = trio.current_time()
        if now >= self._period_ends:
            self.tell_left_out()
            self._period_ends, self._room = now + PERIOD, MAX_LOGGED
        if self._left_out or len(text) + LINE_COST > self._room:
            if not self._left_out:
                self._log.warning(
                    "writes too much to stderr: left out for the next %.0f s", self._period_ends - now
                )
            self._left_out += 1
            return
        self._room -= len(text) + LINE_COST
        self._log.info("%s", text)

    def tell_left_out(self) -> None:
        """Log how much was left out, if anything was."""
        if self._left_out:
            self._log.warning("%d lines of stderr were left out", self._left_out)
            self._left_out = 0

    def last_words(self) -> str:
        """The end of what it said."""
        return "\n".join(self._tail)[-MAX_LAST_WORDS:]
