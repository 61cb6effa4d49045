"""Supervisors: start actors in order, restart them when they crash, stop them in reverse order.

Each child has one task in the supervisor's nursery, `Supervisor._run`, which runs one incarnation after
another. After a crash it waits for the back-off of that child; the other children are not affected. An error
before the child has ever served is raised by `start`, and there is no restart.

`Supervisor.close` stops one group at a time, the one started last first, so that an actor can rely on actors
started before it until its own end. A group is usually a single child; it can also be a collection with its
own tasks, such as `VirtualActors` (`adopt`).
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Protocol

import attrs
import trio

from .context import Behaviour, Context
from .errors import ActorUnavailable, RestartLimitReached, is_fatal, leaf
from .event_bus import ACTORS, EventBus, Restarting
from .incarnation import Lifecycle
from .message import A
from .ref import ActorRef
from .restart import Backoff, Intensity, RestartWindow, Streak

logger = logging.getLogger(__name__)


class Stoppable(Protocol):
    """Anything that a supervisor can stop."""

    async def stop(self, deadline: float) -> None:
        """Stop gracefully until `deadline` (trio's clock), then by cancellation; return when ended."""


@attrs.define(eq=False)
class _Child(Lifecycle):
    """An actor that was started by name."""

    behaviour: Behaviour[Any] = attrs.field(kw_only=True)
    mailbox_size: int = attrs.field(kw_only=True)
    streak: Streak = attrs.field(kw_only=True)


class Supervisor:
    """Runs actors for the length of an `open_supervisor` block.

    A child that crashes is restarted after its back-off; a child that ends without a crash is not. More
    restarts than the intensity allows end the supervisor: its block raises RestartLimitReached.
    """

    def __init__(
        self, nursery: trio.Nursery, bus: EventBus, intensity: Intensity, backoff: Backoff, grace: float
    ) -> None:
        self.bus = bus
        self._nursery = nursery
        self._window = RestartWindow(intensity)
        self._backoff = backoff
        self._grace = grace
        self._running: dict[str, tuple[Stoppable, str]] = {}  # in start order, each with its group
        self._closing = False
        self.ended = False
        """The block has ended: its tasks have ended or are cancelled."""

    @trio.lowlevel.enable_ki_protection
    async def start(
        self, name: str, behaviour: Behaviour[A], *, mailbox: int = 16, group: str | None = None
    ) -> ActorRef[A]:
        """Start an actor and wait until it serves.

        `mailbox` is the number of messages that it queues; further senders wait. All actors of a `group` are
        stopped at the same time, at the position of the one that was started last.

        An error before the actor serves is raised here, and the actor is not restarted. Raises
        ActorUnavailable if the actor ended without serving or the supervisor is closing, and ValueError if
        the name is taken.
        """
        child = _Child(name, behaviour=behaviour, mailbox_size=mailbox, streak=Streak(self._backoff))
        self._add(name, child, group or name)
        await self._nursery.start(self._run, child, name=name)
        return ActorRef(child)

    async def close(self) -> None:
        """Stop all groups in reverse start order. Each finishes the messages it has accepted; when the grace
        period of the supervisor is over, the remaining ones are cancelled.

        From now on no actor is started or restarted.
        """
        self._closing = True
        deadline = trio.current_time() + self._grace
        while self._running:
            # Otherwise this loop could ignore a cancellation: the nursery below does not raise Cancelled
            # if its tasks end normally.
            await trio.lowlevel.checkpoint_if_cancelled()
            _, last = next(reversed(self._running.values()))
            stopped = [name for name, (_, group) in self._running.items() if group == last]
            async with trio.open_nursery() as stops:
                for name in stopped:
                    stops.start_soon(self._running[name][0].stop, deadline)
            for name in stopped:
                self._running.pop(name, None)

    def adopt(self, name: str, actors: Stoppable) -> trio.Nursery:
        """Stop `actors` with the others, and return the nursery in which it can run tasks.

        The tasks must not raise, and must have ended when `actors.stop` returns. Raises as `start`
        does.
        """
        self._add(name, actors, name)
        return self._nursery

    def _add(self, name: str, added: Stoppable, group: str) -> None:
        if self._closing:
            raise ActorUnavailable(f"cannot start {name}: its supervisor is closing")
        if name in self._running:
            raise ValueError(f"an actor named {name!r} is already running")
        self._running[name] = added, group

    @trio.lowlevel.enable_ki_protection
    async def _run(self, child: _Child, *, task_status: trio.TaskStatus[None]) -> None:
        """The task of a child: run one incarnation after another."""
        starter: trio.TaskStatus[None] | None = task_status
        del task_status  # otherwise this task would keep the nursery of the starter in memory
        try:
            while not self._closing:
                incarnation = child.begin(child.mailbox_size, self.bus, self._nursery)
                incarnation.starter, starter = starter, None
                crash = await incarnation.run(child.behaviour, Context(incarnation))
                if incarnation.starter is not None:
                    raise crash or ActorUnavailable(f"{child.name} ended before it served")
                if crash is None or is_fatal(crash):
                    return
                if self._closing:
                    logger.error("%s crashed while it was being stopped", child.name, exc_info=crash)
                    return
                await self._back_off(child, crash, incarnation.served)
            if starter is not None:
                raise ActorUnavailable(f"{child.name} was stopped before it served")
        finally:
            self._running.pop(child.name, None)
            child.end()

    async def _back_off(self, child: _Child, crash: Exception, served: float) -> None:
        if not self._window.admit(trio.current_time()):
            limit = self._window.intensity
            raise RestartLimitReached(
                f"{child.name}: more than {limit.restarts} restarts in {limit.period:g} s"
            ) from crash
        delay = child.streak.fail(served)
        logger.error("%s crashed; restarting in %.1f s", child.name, delay, exc_info=crash)
        self.bus.publish(ACTORS, Restarting(child.name, delay))
        await child.delay(delay)


@asynccontextmanager
@trio.lowlevel.enable_ki_protection
async def open_supervisor(
    bus: EventBus,
    *,
    intensity: Intensity = Intensity(),  # noqa: B008 - frozen
    backoff: Backoff = Backoff(),  # noqa: B008 - frozen
    grace: float = 5.0,
) -> AsyncIterator[Supervisor]:
    """Run actors for the length of the block. At its end, also after an error, they are stopped within
    `grace` seconds. A cancellation from outside cancels all of them immediately.

    Raises RestartLimitReached, not inside a group, when children crash too often.
    """
    failure: BaseException | None = None
    try:
        async with trio.open_nursery() as nursery:
            supervisor = Supervisor(nursery, bus, intensity, backoff, grace)
            try:
                yield supervisor
            finally:
                try:
                    await supervisor.close()
                finally:
                    supervisor.ended = True
    except BaseExceptionGroup as group:
        failure = leaf(group)
    if failure is not None:
        # Not raised in the handler, because there the group would become the `__context__` of its member.
        raise failure
