"""Virtual actors: addressed by key, activated by a wake, passivated when idle.

`VirtualActors.wake` is the only way in. It carries a hint, never work: a behaviour finds its work in the
journal. So any number of wakes can be combined into one, and a crash loses nothing.

===============================  =============================================================
a wake finds the key             effect
===============================  =============================================================
inactive                         a new activation, with one task (`_run`) and one incarnation
active, its mailbox empty        the hint is queued
active, a message queued         nothing: handling that message finds the work as well
waiting to restart               the hint is kept for the next incarnation, which starts with it
===============================  =============================================================

A wake must not be lost while an incarnation ends. Each wake notes how many messages the incarnation had taken
(`_woken_at`). If the count is still the same at the end, no message was taken since the wake, and another
incarnation follows. Otherwise the activation is removed in the same step, so the next wake creates a new one.

`EndsActor` ends an activation without a crash. After a crash the key is activated again, with a back-off.
After `attempts` crashes in a row without progress, the behaviour `poisoned` runs once instead. If that
crashes as well, the key stays inactive until its next wake.
"""

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
from .incarnation import Incarnation, Lifecycle
from .message import A, Message
from .restart import Backoff
from .supervision import Supervisor
from .tasks import TaskHost

logger = logging.getLogger(__name__)

_MAILBOX = 16


@attrs.define(eq=False)
class _Activation(Lifecycle):
    """The lifecycle of one key, from a wake until passivation."""

    hint: Message[Any] = attrs.field(kw_only=True)
    """The latest wake; the first message of every incarnation."""
    hint_trace: Trace = attrs.field(kw_only=True)
    _woken_at: int | None = None
    """How many messages this incarnation had taken at the last wake."""

    def wake(self, hint: Message[Any]) -> None:
        self.hint, self.hint_trace = hint, current_trace.get()
        if self.mailbox is not None:
            self._woken_at = self.mailbox.taken
            self.mailbox.offer(hint, self.hint_trace)

    def begin_woken(self, bus: EventBus, host: TaskHost) -> Incarnation:
        incarnation = self.begin(_MAILBOX, bus, host)
        incarnation.may_end = True
        incarnation.mailbox.offer(self.hint, self.hint_trace)
        self._woken_at = None
        return incarnation

    def woken_since(self, incarnation: Incarnation) -> bool:
        """Whether a wake came after this incarnation took its last message."""
        return self._woken_at == incarnation.mailbox.taken


class VirtualActors(Generic[A]):
    """Virtual actors of one kind: at most one per key, in memory only while it has work.

    `behaviour(key)` makes the behaviour of a key. `attempts` is the number of consecutive crashes without
    `Context.progress` after which `poisoned(key, last_error)` makes the behaviour of one incarnation instead.

    When the supervisor closes, all of them are stopped at this group's position, and wakes are ignored from
    then on. Raises ValueError if the supervisor runs something named `prefix`.
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
        """The number of keys that are starting, serving, stopping or waiting to restart."""
        return len(self._activations)

    @trio.lowlevel.enable_ki_protection
    def wake(self, key: str, message: Message[A]) -> None:
        """Make the actor of `key` handle `message`, or a queued wake that it is combined with.

        Not a coroutine, so that a caller cannot be cancelled between its commit and its wake.
        """
        activation = self._activations.get(key)
        if activation is not None:
            activation.wake(message)
        elif not (self._closing or self._supervisor.ended):
            name = f"{self._prefix}:{key}"
            activation = _Activation(name, hint=message, hint_trace=current_trace.get())
            self._activations[key] = activation
            self._nursery.start_soon(self._run, key, activation, name=name)

    async def stop(self, deadline: float) -> None:
        """Stop all of them at the same time: gracefully until `deadline` (trio's clock), then by
        cancellation."""
        self._closing = True
        async with trio.open_nursery() as stops:
            for activation in list(self._activations.values()):
                stops.start_soon(activation.stop, deadline)

    @trio.lowlevel.enable_ki_protection
    async def _run(self, key: str, activation: _Activation) -> None:
        """The task of one key: run one incarnation after another until no work is left."""
        failures = 0
        try:
            while not activation.stopping:
                incarnation = activation.begin_woken(self._bus, self._nursery)
                crash = await incarnation.run(
                    lambda context: self._behaviour(key)(context), Context(incarnation)
                )
                if crash is not None and not is_fatal(crash):
                    failures = 1 if incarnation.progressed else failures + 1
                    if activation.stopping:
                        return
                    if failures < self._attempts:
                        await self._back_off(activation, failures, crash)
                        continue
                    incarnation = activation.begin_woken(self._bus, self._nursery)
                    crash = await incarnation.run(
                        partial(self._run_poisoned, key, crash), Context(incarnation)
                    )
                if crash is not None and is_fatal(crash):
                    return
                progressed = crash is not None and incarnation.progressed
                if not (progressed or activation.woken_since(incarnation)):
                    if crash is not None and not activation.stopping:
                        logger.error(
                            "%s crashed again and will not restart until its next wake",
                            activation.name,
                            exc_info=crash,
                        )
                    return
                if crash is not None:
                    await self._back_off(activation, failures, crash)
                failures = 0
        finally:
            # There was no checkpoint since `woken_since`, so no wake can be lost: the next one creates an
            # entry.
            del self._activations[key]
            activation.end()

    async def _run_poisoned(self, key: str, error: Exception, context: Context[A]) -> None:
        await self._poisoned(key, error)(context)

    async def _back_off(self, activation: _Activation, failures: int, crash: Exception) -> None:
        if activation.stopping:
            return
        delay = self._backoff.delay(failures)
        logger.error("%s crashed; restarting in %.1f s", activation.name, delay, exc_info=crash)
        self._bus.publish(ACTORS, Restarting(activation.name, delay))
        await activation.delay(delay)
