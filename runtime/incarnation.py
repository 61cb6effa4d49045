"""One life of an actor, and the seat in which lives follow one another."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar, cast

import attrs
import trio

from .envelope import NO_TRACE, current_trace, handling
from .errors import leaf
from .event_bus import ACTORS, Crashed, EventBus, Started, Stopped
from .mailbox import Mailbox
from .ref import Address
from .tasks import Background, TaskHost

C = TypeVar("C")
"""A behaviour's context."""


@attrs.define(eq=False)
class Incarnation:
    """From one call of a behaviour to its end."""

    address: Address
    mailbox: Mailbox
    bus: EventBus
    host: TaskHost
    """Where the actor's background lives: beside the actor itself."""
    incarnation: int = 1
    withdraws: bool = True
    """Who withdraws a request cancels its handler. Not needed where handlers never wait, nor where the life
    exists for one request: who withdraws that ends the life."""
    starter: trio.TaskStatus[None] | None = None
    """Who waits for this life to serve, and hears of its crash instead of the bus."""
    began_serving: float | None = None
    """trio's clock."""
    progressed: bool = False
    """The behaviour has said so."""
    _over: bool = False
    _crash: Exception | None = None
    _background: Background | None = None
    _ended: trio.Event | None = None
    """Made by who waits for it."""
    scope: trio.CancelScope = attrs.field(factory=trio.CancelScope)
    """Of the behaviour."""

    def __attrs_post_init__(self) -> None:
        self.address.mailbox = self.mailbox

    async def run(self, behaviour: Callable[[C], Awaitable[None]], context: C) -> Exception | None:
        """Live to the end; return the crash, if that was the end. Cancellation passes through."""
        # An actor is nested in nothing, whoever happened to start it.
        # Set only where it differs, for changing a task's context takes memory.
        if handling.get() is not None:
            handling.set(None)
        if current_trace.get() is not NO_TRACE:
            current_trace.set(NO_TRACE)
        try:
            with self.scope:
                await behaviour(context)
        except* Exception as group:
            self._fail(cast(Exception, leaf(group)))
        finally:
            self._over = True
            self.mailbox.end(self._crash)
            if self._background is not None:
                await self._background.close()
                self._background = None  # it tells us of crashes: both would be left to the garbage collector
            self.address.mailbox = None
            if self._ended is not None:
                self._ended.set()
            if self.starter is None:
                name = self.address.name
                self.bus.publish(ACTORS, Crashed(name, self._crash) if self._crash else Stopped(name))
        return self._crash

    @property
    def ended(self) -> bool:
        """The behaviour is over and all its background is gone."""
        return self.address.mailbox is not self.mailbox

    async def wait_ended(self) -> None:
        """Return when it has `ended`. One task waits."""
        if not self.ended:
            self._ended = trio.Event()
            await self._ended.wait()

    def serving(self) -> None:
        """The behaviour serves: whoever asks from now on need not wait for its set-up."""
        self.began_serving = trio.current_time()
        self.bus.publish(ACTORS, Started(self.address.name, self.incarnation))
        if self.starter is not None:
            self.starter.started()
            self.starter = None

    @property
    def served(self) -> float:
        """For how many seconds this life has been serving."""
        return 0.0 if self.began_serving is None else trio.current_time() - self.began_serving

    @property
    def background(self) -> Background:
        """The tasks beside the behaviour. Raises RuntimeError when the life is over."""
        if self._background is None:
            if self._over:
                raise RuntimeError(f"{self.address.name} has ended")
            self._background = Background(self.host, self._background_crashed)
        return self._background

    def cancel(self) -> None:
        self.scope.cancel()

    def _background_crashed(self, error: Exception) -> None:
        self._fail(error)
        self.scope.cancel()

    def _fail(self, error: Exception) -> None:
        """Record a crash and tell the askers at once; tear-down may take its time."""
        if self._crash is not None:
            error = ExceptionGroup(f"{self.address.name} crashed", [self._crash, error])
        self._crash = error
        self.mailbox.end(error)


@attrs.define(eq=False)
class Seat(Address):
    """An address with lives behind it, one at a time, rests between them, and one way to end it."""

    incarnation: int = 0
    stopping: bool = False
    """No further life begins."""
    life: Incarnation | None = None
    """The present one, or the last."""
    _resting: trio.CancelScope | None = None
    _over: bool = False
    _ended: trio.Event | None = None
    """Made by the first who waits: hardly any actor is waited for."""

    def begin(self, size: int, bus: EventBus, host: TaskHost) -> Incarnation:
        """A new life here, whose mailbox already accepts `size` messages."""
        self.incarnation += 1
        self.life = Incarnation(self, Mailbox(self.name, size), bus, host, self.incarnation)
        return self.life

    async def rest(self, seconds: float) -> None:
        """Wait for the next life; not longer than until this is stopped."""
        self.absence = "is waiting to be started again"
        with trio.CancelScope() as self._resting:
            await trio.sleep(seconds)

    def close(self) -> None:
        """Begin to end: what was accepted is still served."""
        self.stopping = True
        if self.mailbox is not None:
            self.mailbox.close()
        if self._resting is not None:
            self._resting.cancel()

    async def stop(self, deadline: float) -> None:
        """Close, let it finish until `deadline` (trio's clock), cancel it then; wait for its end."""
        self.close()
        if self._over:
            return
        if self._ended is None:
            self._ended = trio.Event()
        with trio.CancelScope(deadline=deadline):
            await self._ended.wait()
            return
        if self.life is not None:
            self.life.cancel()
        await self._ended.wait()

    def end(self) -> None:
        """There will be no further life."""
        self.absence = "has stopped"
        self._over = True
        self.life = None  # it has us for an address
        if self._ended is not None:
            self._ended.set()
