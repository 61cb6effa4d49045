"""Which failed model calls are tried again, and when."""

from __future__ import annotations

from collections.abc import Callable

MAX_ATTEMPTS = 3
FIRST_DELAY = 0.5
"""Seconds; the ceiling of the first delay, doubled by every further one."""
LONGEST_DELAY = 8.0
"""Seconds."""


def is_retryable(status: int) -> bool:
    """Whether an HTTP status says that the same call may well succeed a little later."""
    return status in (408, 409, 429) or 500 <= status <= 599


def full_jitter(attempt: int, random: Callable[[], float]) -> float:
    """Seconds to wait after the failed try number `attempt`, from 1; `random` returns [0, 1).

    Anything between nothing and the ceiling: callers that failed together do not come back together.
    """
    return random() * min(LONGEST_DELAY, FIRST_DELAY * 2.0 ** (attempt - 1))
