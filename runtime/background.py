"""The nursery of an actor's own tasks, opened when it first needs one."""

from __future__ import annotations

import contextvars
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Protocol, TypeVarTuple, cast

import trio

from stopgo.runtime.errors import leaf

Ts = TypeVarTuple("Ts")


class TaskHost(Protocol):
    """Where tasks can be started: a trio nursery, or another actor's background."""

    def start_soon(
        self, async_fn: Callable[[*Ts], Awaitable[object]], *args: *Ts, name: object = None
    ) -> None: ...


class Background:
    """Tasks beside an actor's behaviour, in a nursery that a task of its own keeps open.

    Most actors never start one, and an open nursery for each would cost a tenth of an idle
    actor's memory. A behaviour cannot open one half-way, so a neighbouring task does.
    """

    def __init__(self, host: TaskHost, name: str, on_crash: Callable[[Exception], None]) -> None:
        self._scope = trio.CancelScope()
        self._nursery: trio.Nursery | None = None
        self._waiting: list[Callable[[], None]] = []
        self._on_crash = on_crash
        self._ended = trio.Event()
        host.start_soon(self._keep_open, name=f"{name}<background>")

    def start_soon(
        self, async_fn: Callable[[*Ts], Awaitable[object]], *args: *Ts, name: object = None
    ) -> None:
        """Start a task. It inherits the context of the caller, as in any nursery.

        Raises RuntimeError when the actor has ended.
        """
        if self._nursery is not None:
            self._nursery.start_soon(async_fn, *args, name=name)
            return
        if self._ended.is_set():
            raise RuntimeError("the actor has ended")
        context = contextvars.copy_context()
        self._waiting.append(lambda: context.run(partial(self.start_soon, async_fn, *args, name=name)))

    async def close(self) -> None:
        """Cancel every task and wait until the last has gone.

        The wait is shielded, and has no deadline, because it stands for the end of a
        nursery block: what is cancelled is still owned until it has unwound.
        """
        self._scope.cancel()
        with trio.CancelScope(shield=True):
            await self._ended.wait()

    async def _keep_open(self) -> None:
        try:
            with self._scope:
                async with trio.open_nursery() as self._nursery:
                    for start in self._waiting:
                        start()
                    self._waiting.clear()
                    await trio.sleep_forever()
        except* Exception as group:
            self._on_crash(cast(Exception, leaf(group)))
        finally:
            self._nursery = None
            self._ended.set()
