"""Starts actors in order, starts them again when they crash, stops them in reverse."""

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
from .incarnation import Seat
from .message import A
from .ref import ActorRef
from .restart import Backoff, Intensity, RestartWindow, Streak

logger = logging.getLogger(__name__)


class Member(Protocol):
    """Anything a supervisor stops in its turn."""

    async def stop(self, deadline: float) -> None:
        """End gracefully until `deadline` (trio's clock), then by force; return when ended."""


@attrs.define(eq=False)
class _Child(Seat):
    """The seat of an actor that is started by name."""

    behaviour: Behaviour[Any] = attrs.field(kw_only=True)
    mailbox_size: int = attrs.field(kw_only=True)
    streak: Streak = attrs.field(kw_only=True)


class Supervisor:
    """Owns actors for the length of an `open_supervisor` block.

    A child that crashes is started again, alone, after a back-off of its own; one that ends without
    a crash is gone. More restarts than the intensity allows end the supervisor: RestartLimitReached
    leaves its block.
    """

    def __init__(
        self, nursery: trio.Nursery, bus: EventBus, intensity: Intensity, backoff: Backoff, grace: float
    ) -> None:
        self.bus = bus
        self._nursery = nursery
        self._window = RestartWindow(intensity)
        self._backoff = backoff
        self._grace = grace
        self._members: dict[str, tuple[Member, str]] = {}  # in start order, each with its group
        self._closing = False
        self.ended = False
        """The block is over; nothing runs, or it has been cancelled."""

    @trio.lowlevel.enable_ki_protection
    async def start(
        self, name: str, behaviour: Behaviour[A], *, mailbox: int = 16, group: str | None = None
    ) -> ActorRef[A]:
        """Start an actor and wait until it serves.

        Its `mailbox` holds that many messages; further senders wait. All actors of a `group` are stopped
        side by side, when it is the turn of the one that was started last. An error before the actor has ever
        served is raised here, and it is not started again. Raises ActorUnavailable if it ended without
        serving or the supervisor is closing, and ValueError if the name is taken.
        """
        child = _Child(name, behaviour=behaviour, mailbox_size=mailbox, streak=Streak(self._backoff))
        self._add(name, child, group or name)
        await self._nursery.start(self._keep, child, name=name)
        return ActorRef(child)

    async def close(self) -> None:
        """Stop everything in reverse start order, within the grace for all together: let each finish
        what it accepted, cancel what is left then.

        Nothing is started from now on, or started again.
        """
        self._closing = True
        deadline = trio.current_time() + self._grace
        while self._members:
            # The nursery below does not raise Cancelled when its tasks end without having been cancelled.
            await trio.lowlevel.checkpoint_if_cancelled()
            _, last = next(reversed(self._members.values()))
            stopped = [name for name, (_, group) in self._members.items() if group == last]
            async with trio.open_nursery() as stops:
                for name in stopped:
                    stops.start_soon(self._members[name][0].stop, deadline)
            for name in stopped:
                self._members.pop(name, None)

    def adopt(self, name: str, member: Member) -> trio.Nursery:
        """Stop `member` in its turn from now on; it may run tasks in the nursery returned.

        Its tasks must not fail, and must have ended when its `stop` returns. Raises as `start` does.
        """
        self._add(name, member, name)
        return self._nursery

    def _add(self, name: str, member: Member, group: str) -> None:
        if self._closing:
            raise ActorUnavailable(f"{name} is not started: its supervisor is closing")
        if name in self._members:
            raise ValueError(f"an actor named {name!r} is already running")
        self._members[name] = member, group

    @trio.lowlevel.enable_ki_protection
    async def _keep(self, child: _Child, *, task_status: trio.TaskStatus[None]) -> None:
        """The task of a child: one life after another until it ends for good."""
        starter: trio.TaskStatus[None] | None = task_status
        del task_status  # It holds on to the starter's nursery.
        try:
            while not self._closing:
                life = child.begin(child.mailbox_size, self.bus, self._nursery)
                life.starter, starter = starter, None
                crash = await life.run(child.behaviour, Context(life))
                if life.starter is not None:
                    raise crash or ActorUnavailable(f"{child.name} ended before it served")
                if crash is None or is_fatal(crash):
                    return
                if self._closing:
                    logger.error("%s failed while it was stopped", child.name, exc_info=crash)
                    return
                await self._rest(child, crash, life.served)
            if starter is not None:
                raise ActorUnavailable(f"{child.name} was stopped before it served")
        finally:
            self._members.pop(child.name, None)
            child.end()

    async def _rest(self, child: _Child, crash: Exception, served: float) -> None:
        if not self._window.admit(trio.current_time()):
            limit = self._window.intensity
            raise RestartLimitReached(
                f"{child.name}: more than {limit.restarts} restarts in {limit.period:g} s"
            ) from crash
        delay = child.streak.fail(served)
        logger.error("%s crashed; it starts again in %.1f s", child.name, delay, exc_info=crash)
        self.bus.publish(ACTORS, Restarting(child.name, delay))
        await child.rest(delay)


@asynccontextmanager
@trio.lowlevel.enable_ki_protection
async def open_supervisor(
    bus: EventBus,
    *,
    intensity: Intensity = Intensity(),  # noqa: B008 - frozen
    backoff: Backoff = Backoff(),  # noqa: B008 - frozen
    grace: float = 5.0,
) -> AsyncIterator[Supervisor]:
    """Own actors for the length of the block; leaving it closes them within `grace` seconds.

    That holds for errors too. Cancellation from outside ends all of them at once.

    Raises RestartLimitReached, without a group around it, when a child crashes too often.
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
        # Raised out here, for in the handler the group would become its own content's context.
        raise failure
