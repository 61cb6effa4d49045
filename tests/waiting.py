"""Waiting for what other processes and real sockets do: there is no event for it."""

from __future__ import annotations

import threading
from collections.abc import Callable

import trio

PATIENCE = 60.0
"""Seconds after which what has to happen counts as not happening: only a test that fails waits for so long.
What would happen later anyway, and must not be waited for, happens later than this."""


async def until(condition: Callable[[], bool]) -> None:
    with trio.fail_after(PATIENCE):
        while not condition():  # noqa: ASYNC110 - there is no event for it
            await trio.sleep(0.01)


def pause(seconds: float) -> None:
    """Let real time pass, in tests of processes whose leases and faults take some."""
    threading.Event().wait(seconds)
