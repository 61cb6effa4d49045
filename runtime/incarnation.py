"""One incarnation of an actor, and the lifecycle in which incarnations follow each other.

An `Incarnation` is one execution of a behaviour. It has its own mailbox and background tasks, so nothing of
it reaches the next one. A `Lifecycle` is the address that outlasts them. `supervision.py` and `virtual.py`
each run one task per lifecycle, which starts incarnations until the actor is stopped, ends or crashes too
often.

====================  =============================  ============================================
state of an actor     what an ask gets               left when
====================  =============================  ============================================
starting              it is queued                   the behaviour calls `Context.serve`
serving               it is handled                  stopped, idle, crashed or cancelled
stopping              ActorUnavailable; accepted     the behaviour and its background have ended
                      asks are still answered
waiting to restart    ActorUnavailable               the back-off is over, or it is stopped
ended                 ActorUnavailable
====================  =============================  ============================================

A crash fails all accepted asks immediately, before the behaviour has unwound. `EndsActor` is not a crash of a
virtual actor or a child: it ends as if it had been stopped.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar, cast

import attrs
import trio

from .envelope import NO_TRACE, current_trace, handling
from .errors import ends_actor, leaf
from .event_bus import ACTORS, Crashed, EventBus, Started, Stopped
from .mailbox import Mailbox
from .ref import Address
from .tasks import Background, TaskHost

C = TypeVar("C")
"""The context of a behaviour."""


@attrs.define(eq=False)
class Incarnation:
    """One execution of a behaviour, from its call until it and its background tasks have ended."""

    address: Address
    mailbox: Mailbox
    bus: EventBus
    host: TaskHost
    """Runs the background tasks, beside the actor's own task."""
    number: int = 1
    may_end: bool = False
    """Whether `EndsActor` ends it without a crash. A supervised actor is always needed, so it crashes and is
    restarted."""
    starter: trio.TaskStatus[None] | None = None
    """Tells the caller of `Supervisor.start` that the actor serves. While it is set, a crash is raised to
    that caller and not published."""
    began_serving: float | None = None
    """The time on trio's clock."""
    progressed: bool = False
    """The behaviour has called `Context.progress`."""
    _behaviour_ended: bool = False
    _crash: Exception | None = None
    _background: Background | None = None
    _ended: trio.Event | None = None
    """Created by the task that waits for the end."""
    scope: trio.CancelScope = attrs.field(factory=trio.CancelScope)
    """The scope around the behaviour."""

    def __attrs_post_init__(self) -> None:
        self.address.mailbox = self.mailbox

    async def run(self, behaviour: Callable[[C], Awaitable[None]], context: C) -> Exception | None:
        """Run the behaviour to its end and return its crash, if any. Cancellation is raised."""
        # An actor is not nested in the message whose handler started it. Only set what differs, because the
        # first change copies the task's context, which takes memory.
        if handling.get() is not None:
            handling.set(None)
        if current_trace.get() is not NO_TRACE:
            current_trace.set(NO_TRACE)
        try:
            with self.scope:
                await behaviour(context)
        except* Exception as group:
            if not (self.may_end and ends_actor(group)):
                self._fail(cast(Exception, leaf(group)))
        finally:
            self._behaviour_ended = True
            self.mailbox.end(self._crash)
            if self._background is not None:
                await self._background.close()
                self._background = None  # breaks a reference cycle: it refers to this incarnation
            self.address.mailbox = None
            if self._ended is not None:
                self._ended.set()
            if self.starter is None:
                name = self.address.name
                self.bus.publish(ACTORS, Crashed(name, self._crash) if self._crash else Stopped(name))
        return self._crash

    @property
    def ended(self) -> bool:
        """Whether the behaviour and all background tasks have ended."""
        return self.address.mailbox is not self.mailbox

    async def wait_ended(self) -> None:
        """Wait until `ended`. At most one task may wait."""
        if not self.ended:
            self._ended = trio.Event()
            await self._ended.wait()

    def serving(self) -> None:
        """Record that the behaviour has finished its set-up and serves."""
        self.began_serving = trio.current_time()
        self.bus.publish(ACTORS, Started(self.address.name, self.number))
        if self.starter is not None:
            self.starter.started()
            self.starter = None

    @property
    def served(self) -> float:
        """The seconds since this incarnation began to serve."""
        return 0.0 if self.began_serving is None else trio.current_time() - self.began_serving

    @property
    def background(self) -> Background:
        """The background tasks. Raises RuntimeError when the behaviour has ended."""
        if self._background is None:
            if self._behaviour_ended:
                raise RuntimeError(f"{self.address.name} has ended")
            self._background = Background(self.host, self._background_crashed)
        return self._background

    def cancel(self) -> None:
        self.scope.cancel()

    def _background_crashed(self, error: Exception) -> None:
        if not (self.may_end and ends_actor(error)):
            self._fail(error)
        self.scope.cancel()

    def _fail(self, error: Exception) -> None:
        """Record a crash and fail the accepted asks now, because tear-down may take long."""
        if self._crash is not None:
            error = ExceptionGroup(f"{self.address.name} crashed", [self._crash, error])
        self._crash = error
        self.mailbox.end(error)


@attrs.define(eq=False)
class Lifecycle(Address):
    """The address of an actor with its incarnations, one at a time, the delays between them, and its end."""

    incarnations: int = 0
    """How many have been started."""
    stopping: bool = False
    """No further incarnation is started."""
    incarnation: Incarnation | None = None
    """The current one, or the last one during a delay."""
    _delay: trio.CancelScope | None = None
    _over: bool = False
    _ended: trio.Event | None = None
    """Created by the first task that waits for the end: hardly any actor is waited for."""

    def begin(self, size: int, bus: EventBus, host: TaskHost) -> Incarnation:
        """Create the next incarnation. Its mailbox accepts up to `size` messages from now on."""
        self.incarnations += 1
        self.incarnation = Incarnation(self, Mailbox(self.name, size), bus, host, self.incarnations)
        return self.incarnation

    async def delay(self, seconds: float) -> None:
        """Wait before a restart. Returns early when the actor is stopped."""
        self.absence = "is waiting to be restarted"
        with trio.CancelScope() as self._delay:
            await trio.sleep(seconds)

    def close(self) -> None:
        """Start to stop the actor: accept no further message, and handle those that were accepted."""
        self.stopping = True
        if self.mailbox is not None:
            self.mailbox.close()
        if self._delay is not None:
            self._delay.cancel()

    async def stop(self, deadline: float) -> None:
        """Stop the actor gracefully until `deadline` (trio's clock), then by cancellation; wait for its
        end."""
        self.close()
        if self._over:
            return
        if self._ended is None:
            self._ended = trio.Event()
        with trio.CancelScope(deadline=deadline):
            await self._ended.wait()
            return
        if self.incarnation is not None:
            self.incarnation.cancel()
        await self._ended.wait()

    def end(self) -> None:
        """Record that the actor has ended for good."""
        self.absence = "has stopped"
        self._over = True
        self.incarnation = None  # breaks a reference cycle: this is its address
        if self._ended is not None:
            self._ended.set()
