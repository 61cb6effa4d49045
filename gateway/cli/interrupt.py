"""Ctrl-C in commands that talk to agents and models."""

from __future__ import annotations

import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TypeVar

import attrs
import trio

from ..signals import distinct

T = TypeVar("T")


@attrs.define(eq=False)
class Interrupt:
    """The meaning of signals: the first cancels the run and waits for its end, the second stops at once.

    Before there is a run the first already stops. Stopping at once is cancellation: what has to be cleaned
    up, such as processes of tool servers, still is.
    """

    scope: trio.CancelScope = attrs.field(factory=trio.CancelScope)
    """Of everything."""
    stop: trio.Event = attrs.field(factory=trio.Event)
    """Set when the run has to be cancelled."""
    running: bool = False
    code: int = 128 + signal.SIGINT
    """The exit code of a run that was cancelled."""

    async def listen(self, signals: AsyncIterator[int]) -> None:
        async for number in distinct(signals):
            self.code = 128 + number
            if not self.running or self.stop.is_set():
                self.scope.cancel()
            self.stop.set()


def run_until_interrupted(work: Callable[[], Awaitable[T]]) -> T:
    """The result of the work. Ctrl-C raises a bare KeyboardInterrupt, whatever groups it comes in."""
    try:
        return trio.run(work)
    except BaseExceptionGroup as group:
        if group.split(KeyboardInterrupt)[1] is not None:
            raise
    raise KeyboardInterrupt
