"""An actor's own tasks, beside its behaviour."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol, TypeVarTuple, cast

import trio

from .errors import leaf

Ts = TypeVarTuple("Ts")


class TaskHost(Protocol):
    """Where tasks can be started: a trio nursery, or another actor's background."""

    def start_soon(
        self, async_fn: Callable[[*Ts], Awaitable[object]], *args: *Ts, name: object = None
    ) -> object: ...


class Background:
    """Tasks that live in the host, each in a scope of its own, and that `close` ends and waits for.

    Not a nursery, for a behaviour cannot open one half-way: a further task would have to keep it open,
    and would cost an actor that starts one task as much again.
    """

    __slots__ = ("_closed", "_ended", "_host", "_on_crash", "_scopes")

    def __init__(self, host: TaskHost, on_crash: Callable[[Exception], None]) -> None:
        self._host = host
        self._on_crash = on_crash
        self._scopes: dict[trio.CancelScope, None] = {}
        self._closed = False
        self._ended: trio.Event | None = None
        """What `close` waits for, from when it began."""

    def start_soon(
        self, async_fn: Callable[[*Ts], Awaitable[object]], *args: *Ts, name: object = None
    ) -> trio.CancelScope:
        """Start a task; its scope is for cancelling it alone. When the others are being cancelled it is, too,
        from its start. It inherits the context of the caller, as in any nursery.

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
        """The same for what enters the scope itself."""
        if self._closed:
            raise RuntimeError("the actor has ended")
        if self._ended is not None:
            scope.cancel()
        self._scopes[scope] = None
        self._host.start_soon(self._run, scope, async_fn, name=name)

    async def close(self) -> None:
        """Cancel every task and wait until the last has gone.

        The wait is shielded, and has no deadline, because it stands for the end of a
        nursery block: what is cancelled is still owned until it has unwound.
        """
        for scope in self._scopes:
            scope.cancel()
        while self._scopes:  # once more for what was started after the last had gone, and before we heard
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
