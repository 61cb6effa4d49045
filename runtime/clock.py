"""The wall clock, injected wherever a time is written down.

Timeouts and delays never use it: they run on trio's clock.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeAlias

WallClock: TypeAlias = Callable[[], float]
"""Returns UTC seconds since the epoch."""


def system_clock() -> float:
    return time.time()
