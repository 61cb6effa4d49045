"""Waits for a store that cannot be reached."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import TypeVar

import trio

from .errors import JournalUnavailable

T = TypeVar("T")

RETRY = 1.0
"""Seconds between two attempts."""

logger = logging.getLogger(__name__)


async def until_available(operation: Callable[[], Awaitable[T]]) -> T:
    """Repeat an operation of the journal until the store can be reached. The operation may be made twice."""
    level = logging.WARNING
    while True:
        try:
            return await operation()
        except JournalUnavailable as error:
            logger.log(level, "the journal cannot be reached: %s", error)
            level = logging.DEBUG  # one line is enough for all attempts
            await trio.sleep(RETRY)
