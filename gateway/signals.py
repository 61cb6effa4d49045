"""Signals, as wishes of people."""

from __future__ import annotations

import math
from collections.abc import AsyncGenerator, AsyncIterator

import trio

SAME_WISH = 0.5
"""Seconds after a signal in which another one says nothing new: Ctrl-C reaches every process of a terminal,
and whoever started us may send it on."""


async def wishes(signals: AsyncIterator[int]) -> AsyncGenerator[int, None]:
    """The signals that say something new."""
    last = -math.inf
    async for number in signals:
        if trio.current_time() >= last + SAME_WISH:
            last = trio.current_time()
            yield number
