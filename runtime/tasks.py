"""Background tasks of an actor."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol, TypeVarTuple, cast

import trio

from .errors import leaf

Ts = TypeVarTuple("Ts")


class TaskHost(Protocol):
    """A trio nursery, or the background of another actor."""

    def start_soon(
        self, async_fn: Callable[[*Ts], Awaitable[object]], *args: *Ts, name: object = None
    ) -> object: ...


class Background:
    """The background tasks of one actor. They run in a host, each in its own cancel scope; `close` cancels
    them and waits for them.

    This is not a nursery, because an actor could only have one if another task held it open, which would
    double the cost of an actor with one background task.
    """

    __slots__ = ("_closed", "_ended", "_host", "_on_crash", "_scopes")

    def __init__(self, host: TaskHost, on_crash: Callable[[Exception], None]) -> None:
        self._host = host
        self._on_crash = on_crash
        self._scopes: dict[trio.CancelScope, None] = {}
        self._closed = False
        self._ended: trio.Event | None = None
        """Set by the last task. None until `close` is called."""

    def start_soon(
        self, async_fn: Callable[[*Ts], Awaitable[object]], *args: *Ts, name: object = None
    ) -> trio.CancelScope:
        """Start a task and return its cancel scope. The task inherits the caller's context variables. If
        `close` has been called, the task starts cancelled.

        Raises RuntimeError when the actor has ended.
        """
        scope = trio.CancelScope()

        async def within() -> None:
            with scope:
                await async_fn(*args)

        self.start_in(scope, within, name=name)
        return scope

    @trio.lowlevel.enable_ki_protection
    def start_in(
        self, scope: trio.CancelScope, async_fn: Callable[[], Awaitable[object]], *, name: object = None
    ) -> None:
        """Like `start_soon`, for a function that enters `scope` itself."""
        if self._closed:
            raise RuntimeError("the actor has ended")
        if self._ended is not None:
            scope.cancel()
        self._scopes[scope] = None
        self._host.start_soon(self._run, scope, async_fn, name=name)

    async def close(self) -> None:
        """Cancel all tasks and wait until they have ended.

        The wait is shielded and has no deadline, as at the end of a nursery block: a cancelled task belongs
        to the actor until it has unwound.
        """
        for scope in self._scopes:
            scope.cancel()
        while self._scopes:  # again, if a task was started between the end of the last one and our wake-up
            self._ended = trio.Event()
            with trio.CancelScope(shield=True):
                await self._ended.wait()
        self._closed = True

    @trio.lowlevel.enable_ki_protection
    async def _run(self, scope: trio.CancelScope, async_fn: Callable[[], Awaitable[object]]) -> None:
        try:
            await async_fn()
        except* Exception as group:
            self._on_crash(cast(Exception, leaf(group)))
        finally:
            del self._scopes[scope]
            if self._ended is not None and not self._scopes:
                self._ended.set()
