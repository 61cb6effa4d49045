"""Ctrl-C in commands that run agents."""

from __future__ import annotations

import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Literal, TypeAlias, TypeVar

import attrs
import trio

from ...signals import distinct, stops
from .options import FAILED, WAITING

T = TypeVar("T")

TurnEnd: TypeAlias = Literal["finished", "failed", "waiting", "cancelled"]
"""How the run of a command ended."""


@attrs.define(eq=False)
class Interrupt:
    """Handles the signals that stop a process: the first cancels the run and waits for its end, the second
    stops at once.

    Before there is a run, the first stops at once. Stopping is trio's cancellation, so cleanup, such as
    ending the processes of tool servers, still happens.
    """

    stop: trio.Event = attrs.field(factory=trio.Event)
    """Set when the run has to be cancelled."""
    running: bool = False
    """Whether there is a run."""
    code: int = 128 + signal.SIGINT
    """The exit code of a cancelled run."""

    @asynccontextmanager
    async def listening(self) -> AsyncIterator[None]:
        """Handle signals in the block. A stop ends the block silently."""
        with trio.open_signal_receiver(*stops()) as signals:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self.listen, signals, nursery.cancel_scope)
                yield
                nursery.cancel_scope.cancel()

    async def listen(self, signals: AsyncIterator[int], scope: trio.CancelScope) -> None:
        async for number in distinct(signals):
            self.code = 128 + number
            if not self.running or self.stop.is_set():
                scope.cancel()
            self.stop.set()

    def exit_code(self, outcome: TurnEnd) -> int:
        return {"finished": 0, "failed": FAILED, "waiting": WAITING, "cancelled": self.code}[outcome]


def run_until_interrupted(work: Callable[[], Awaitable[T]]) -> T:
    """The result of the work. Ctrl-C raises a bare KeyboardInterrupt, even out of exception groups."""
    try:
        return trio.run(work)
    except BaseExceptionGroup as group:
        if group.split(KeyboardInterrupt)[1] is not None:
            raise
    raise KeyboardInterrupt
