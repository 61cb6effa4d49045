"""One life of an actor, and the seat in which lives follow one another."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import cast

import attrs
import trio

from stopgo.runtime import trace
from stopgo.runtime.background import Background, TaskHost
from stopgo.runtime.errors import leaf
from stopgo.runtime.events import EventBus
from stopgo.runtime.mailbox import Mailbox, handling
from stopgo.runtime.ref import Address


@attrs.define(eq=False)
class Life:
    """From one call of a behaviour to its end."""

    mailbox: Mailbox
    bus: EventBus
    host: TaskHost
    """Where the actor's background lives: beside the actor itself."""
    on_serving: Callable[[], None]
    """Called once, when the behaviour begins to serve."""
    began_serving: float | None = None
    """trio's clock."""
    progressed: bool = False
    """The behaviour has said so."""
    _over: bool = False
    _crash: Exception | None = None
    _background: Background | None = None
    _scope: trio.CancelScope = attrs.field(factory=trio.CancelScope)

    async def run(self, behaviour: Callable[[], Awaitable[None]]) -> Exception | None:
        """Live to the end; return the crash, if that was the end. Cancellation passes through."""
        # An actor is nested in nothing, whoever happened to start it.
        handling.set(None)
        trace.current.set(trace.NO_TRACE)
        try:
            with self._scope:
                await behaviour()
        except* Exception as group:
            self._fail(cast(Exception, leaf(group)))
        finally:
            self._over = True
            self.mailbox.end(self._crash)
            if self._background is not None:
                await self._background.close()
        return self._crash

    def serving(self) -> None:
        if self.began_serving is None:
            self.began_serving = trio.current_time()
            self.on_serving()

    @property
    def served(self) -> float:
        """For how many seconds this life has been serving."""
        return 0.0 if self.began_serving is None else trio.current_time() - self.began_serving

    @property
    def background(self) -> Background:
        """The tasks beside the behaviour. Raises RuntimeError when the life is over."""
        if self._background is None:
            if self._over:
                raise RuntimeError(f"{self.mailbox.name} has ended")
            self._background = Background(self.host, self.mailbox.name, self._background_crashed)
        return self._background

    def cancel(self) -> None:
        self._scope.cancel()
        if self._background is not None:
            self._background.cancel()

    def _background_crashed(self, error: Exception) -> None:
        self._fail(error)
        self._scope.cancel()

    def _fail(self, error: Exception) -> None:
        """Record a crash and tell the askers at once; tear-down may take its time."""
        if self._crash is not None:
            error = ExceptionGroup(f"{self.mailbox.name} crashed", [self._crash, error])
        self._crash = error
        self.mailbox.end(error)


@attrs.define(eq=False)
class Seat(Address):
    """An address with lives behind it, one at a time, rests between them, and one way to end it."""

    incarnation: int = 0
    stopping: bool = False
    """No further life begins."""
    ended: trio.Event = attrs.field(factory=trio.Event)
    life: Life | None = None
    _resting: trio.CancelScope | None = None

    async def live(self, life: Life, behaviour: Callable[[], Awaitable[None]]) -> Exception | None:
        """Live that life here; return its crash."""
        self.incarnation += 1
        self.life, self.mailbox = life, life.mailbox
        self.absence = "has stopped"
        try:
            return await life.run(behaviour)
        finally:
            self.life = self.mailbox = None

    async def rest(self, seconds: float) -> None:
        """Wait for the next life; not longer than until this is stopped."""
        if self.stopping:
            return
        self.absence = "is waiting to be started again"
        with trio.CancelScope() as self._resting:
            await trio.sleep(seconds)
        self._resting = None

    def close(self) -> None:
        """Begin to end: what was accepted is still served."""
        self.stopping = True
        if self.life is not None:
            self.life.mailbox.close()
        elif self._resting is not None:
            self._resting.cancel()

    async def stop(self, deadline: float) -> None:
        """Close, let it finish until `deadline` (trio's clock), cancel it then; wait for its end."""
        self.close()
        with trio.CancelScope(deadline=deadline):
            await self.ended.wait()
            return
        if self.life is not None:
            self.life.cancel()
        await self.ended.wait()
