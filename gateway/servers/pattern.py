"""Matches untrusted regular expressions, with a time limit.

Python's engine backtracks: a pattern of six characters can keep it busy for years, and nothing else runs in
the process meanwhile. But the engine checks for signals, so an alarm interrupts it.
"""

from __future__ import annotations

import re
import signal
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from types import FrameType

MAX_LENGTH = 1_000
"""Characters of a pattern."""
MAX_SECONDS = 1.0
"""Seconds for all matching of one request."""


class InvalidPattern(Exception):
    """The pattern cannot be used; the text says why."""


class _TookTooLong(Exception):
    pass


def matching(pattern: str, names: Iterable[str]) -> list[str]:
    """Return the names that contain a match of the pattern. Main thread only.

    Raises:
        InvalidPattern: the pattern is too long, is not a regular expression, or takes too long.
    """
    if len(pattern) > MAX_LENGTH:
        raise InvalidPattern(f"invalid pattern: longer than {MAX_LENGTH} characters")
    try:
        with _alarm(MAX_SECONDS):
            compiled = re.compile(pattern)
            return [name for name in names if compiled.search(name)]
    except (re.error, RecursionError, OverflowError) as error:
        raise InvalidPattern(f"invalid pattern: {error}") from error
    except _TookTooLong as error:
        raise InvalidPattern(f"invalid pattern: matching took longer than {MAX_SECONDS:g} s") from error


@contextmanager
def _alarm(seconds: float) -> Iterator[None]:
    armed = True

    def ring(_number: int, _frame: FrameType | None) -> None:
        if armed:
            raise _TookTooLong

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        armed = False
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
