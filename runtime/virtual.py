"""Actors addressed by key: activated by a wake, gone when idle."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import Any, Generic

import attrs
import trio

from .context import Behaviour, Context
from .envelope import Trace, current_trace
from .errors import is_fatal
from .event_bus import ACTORS, EventBus, Restarting
from .incarnation import Incarnation, Seat
from .message import A, Message
from .restart import Backoff
from .supervision import Supervisor
from .tasks import TaskHost

logger = logging.getLogger(__name__)

_MAILBOX = 16


@attrs.define(eq=False)
class _Activation(Seat):
    """The seat of one key, for as long as there is something to do for it."""

    hint: Message[Any] = attrs.field(kw_only=True)
    """The latest wake; the first message of every life."""
    hint_trace: Trace = attrs.field(kw_only=True)
    _woken_at: int | None = None
    """How many messages this life had taken when it was last woken."""

    def wake(self, hint: Message[Any]) -> None:
        self.hint, self.hint_trace = hint, current_trace.get()
        if self.mailbox is not None:
            self._woken_at = self.mailbox.taken
            self.mailbox.offer(hint, self.hint_trace)

    def begin_woken(self, bus: EventBus, host: TaskHost) -> Incarnation:
        life = self.begin(_MAILBOX, bus, host)
        life.mailbox.offer(self.hint, self.hint_trace)
        self._woken_at = None
        return life

    def woken_since(self, life: Incarnation) -> bool:
        """Whether a wake came after this life took its last message."""
        return self._woken_at == life.mailbox.taken


class VirtualActors(Generic[A]):
    """Actors of one kind, at most one for each key, alive only while they have something to do.

    `wake` is a hint that there may be something to do, never the thing itself: a behaviour
    looks that up where it is kept. So wakes fold into one another, and a life that follows a
    crash begins with one.

    A crash disturbs nobody else: the key is activated again after a back-off. After `attempts`
    crashes in a row, none of these lives having called `Context.progress`, `poisoned(key,
    last_error)` takes the behaviour's place for one life. When that crashes too, without
    progress, the key stays down until its next wake.

    All of them end in this group's turn when the supervisor closes; wakes are ignored from then
    on. Raises ValueError if the supervisor has something named `prefix`.
    """

    def __init__(
        self,
        prefix: str,
        behaviour: Callable[[str], Behaviour[A]],
        supervisor: Supervisor,
        *,
        attempts: int = 3,
        poisoned: Callable[[str, Exception], Behaviour[A]],
        backoff: Backoff = Backoff(),  # noqa: B008 - frozen
    ) -> None:
        self._prefix = prefix
        self._behaviour = behaviour
        self._poisoned = poisoned
        self._attempts = attempts
        self._backoff = backoff
        self._bus = supervisor.bus
        self._activations: dict[str, _Activation] = {}
        self._closing = False
        self._supervisor = supervisor
        self._nursery = supervisor.adopt(prefix, self)

    @property
    def active(self) -> int:
        """How many keys are starting, serving, ending, or waiting to be activated again."""
        return len(self._activations)

    @trio.lowlevel.enable_ki_protection
    def wake(self, key: str, message: Message[A]) -> None:
        """Have `message` handled by the actor of `key`, soon and at least once from now on.

        Folds into a wake that is still queued. Not a coroutine, so that nothing can cancel
        a caller between its commit and its wake.
        """
        activation = self._activations.get(key)
        if activation is not None:
            activation.wake(message)
        elif not (self._closing or self._supervisor.ended):
            name = f"{self._prefix}:{key}"
            activation = _Activation(name, hint=message, hint_trace=current_trace.get())
            self._activations[key] = activation
            self._nursery.start_soon(self._keep, key, activation, name=name)

    async def stop(self, deadline: float) -> None:
        """End all of them side by side: gracefully until `deadline` (trio's clock), then by force."""
        self._closing = True
        async with trio.open_nursery() as stops:
            for activation in list(self._activations.values()):
                stops.start_soon(activation.stop, deadline)

    @trio.lowlevel.enable_ki_protection
    async def _keep(self, key: str, activation: _Activation) -> None:
        """The task of one key: one life after another until there is nothing to do."""
        failures = 0
        try:
            while not activation.stopping:
                life = activation.begin_woken(self._bus, self._nursery)
                crash = await life.run(lambda context: self._behaviour(key)(context), Context(life))
                if crash is not None and not is_fatal(crash):
                    failures = 1 if life.progressed else failures + 1
                    if activation.stopping:
                        return
                    if failures < self._attempts:
                        await self._rest(activation, failures, crash)
                        continue
                    life = activation.begin_woken(self._bus, self._nursery)
                    crash = await life.run(partial(self._run_poisoned, key, crash), Context(life))
                if crash is not None and is_fatal(crash):
                    return
                lived_on = crash is not None and life.progressed
                if not (lived_on or activation.woken_since(life)):
                    if crash is not None and not activation.stopping:
                        logger.error("%s stays down until it is woken", activation.name, exc_info=crash)
                    return
                if crash is not None:
                    await self._rest(activation, failures, crash)
                failures = 0
        finally:
            # No checkpoint since the last look for a wake: the next one finds no entry, and makes one.
            del self._activations[key]
            activation.end()

    async def _run_poisoned(self, key: str, error: Exception, context: Context[A]) -> None:
        await self._poisoned(key, error)(context)

    async def _rest(self, activation: _Activation, failures: int, crash: Exception) -> None:
        if activation.stopping:
            return
        delay = self._backoff.delay(failures)
        logger.error("%s crashed; it starts again in %.1f s", activation.name, delay, exc_info=crash)
        self._bus.publish(ACTORS, Restarting(activation.name, delay))
        await activation.rest(delay)
