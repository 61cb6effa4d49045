"""The mailbox of one life of an actor."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import trio

from .envelope import Envelope, Trace, current_trace, handling
from .errors import ActorCrashed, ActorUnavailable
from .message import A, Message, R, Request


class Mailbox:
    """Accepts messages for one life of an actor, fails the asks it leaves behind, ends with it.

    Not a memory channel, for three reasons: closing one drops what it buffers without a word,
    and with it the answers others wait for; a hint must know whether one is queued already;
    and a channel of two ends takes a third of an idle actor's memory.

    One task receives. Raises ValueError for a size below 1.
    """

    __slots__ = (
        "_arrived",
        "_closed",
        "_crash",
        "_pending",
        "_queue",
        "_senders",
        "_size",
        "_take",
        "name",
        "taken",
    )

    def __init__(self, name: str, size: int) -> None:
        if size < 1:
            raise ValueError("a mailbox holds at least 1 message")
        self.name = name
        self.taken = 0
        """How many messages have been received."""
        self._size = size
        # A list, for it is short, and an empty deque takes ten times the memory.
        self._queue: list[Envelope] = []
        self._senders: dict[Envelope, trio.lowlevel.Task] = {}  # who waits for room, in order
        self._pending: dict[Envelope, None] = {}  # every ask without an answer, also those being handled
        self._arrived: trio.Event | None = None  # what the receiver waits for
        self._take: Callable[[Envelope], bool] | None = None
        self._closed = False
        self._crash: Exception | None = None

    async def ask(self, request: Request[A, R]) -> R:
        """Raises whatever `ActorRef.ask` does."""
        await trio.lowlevel.checkpoint_if_cancelled()  # or it might still be handled for a moment
        answered = trio.Event()
        envelope = Envelope(request, self.name, self, handling.get(), current_trace.get(), answered)
        envelope.refuse_cycle()
        self._pending[envelope] = None
        try:
            await self._deliver(envelope)
            await answered.wait()
            return envelope.take()  # type: ignore[no-any-return]
        finally:
            del self._pending[envelope]
            envelope.withdraw()

    def offer(self, message: Message[Any], carried: Trace) -> None:
        """Queue a hint, unless something is queued already or the mailbox is closed."""
        if not (self._queue or self._closed):
            self._accept(Envelope(message, self.name, self, None, carried))

    async def receive(self, idle_timeout: float, busy: Callable[[], bool]) -> Envelope | None:
        """The next message, perhaps withdrawn by now; None when there will be no more.

        Closes after `idle_timeout` seconds without a message, unless `busy()`.
        """
        if self._queue and self.taken:
            await trio.lowlevel.checkpoint()  # a mailbox that is never empty lets others run
        while not (self._queue or self._closed):
            self._arrived = trio.Event()
            if idle_timeout == math.inf:
                await self._arrived.wait()
                continue
            with trio.CancelScope(relative_deadline=idle_timeout):
                await self._arrived.wait()
            if not (self._queue or busy()):
                self.close()
        return self.next()

    async def hand_out(self, take: Callable[[Envelope], bool]) -> None:
        """Offer every message to `take`, in order and in the step of its sender, until no more are accepted.

        What it has no room for stays, as does all that comes after; who has room again asks for the `next`.
        """
        while self._queue and take(self._queue[0]):
            self.next()
        self._take = take
        try:
            while not self._closed:
                self._arrived = trio.Event()
                await self._arrived.wait()
        finally:
            self._take = None

    def next(self) -> Envelope | None:
        """The next message, perhaps withdrawn by now, if there is one."""
        if not self._queue:
            return None
        envelope = self._queue.pop(0)
        self.taken += 1
        if self._senders and not self._closed:
            waiting = next(iter(self._senders))
            trio.lowlevel.reschedule(self._senders.pop(waiting))
            self._queue.append(waiting)
        return envelope

    def close(self) -> None:
        """Accept nothing more. What was accepted can still be received."""
        if self._closed:
            return
        self._closed = True
        if self._arrived is not None:
            self._arrived.set()
        for sender in self._senders.values():
            trio.lowlevel.reschedule(sender)

    def end(self, crash: Exception | None) -> None:
        """Accept nothing more and fail every ask that has no answer."""
        self._crash = self._crash or crash
        self.close()
        for envelope in self._pending:
            # An exception for each asker: a shared one would collect all their tracebacks.
            if crash is None:
                envelope.fail(ActorCrashed(f"{self.name} was stopped before it answered"))
            else:
                error = ActorCrashed(f"{self.name} crashed: {crash!r}")
                error.__cause__ = crash
                envelope.fail(error)

    async def _deliver(self, envelope: Envelope) -> None:
        """Wait until there is room; a checkpoint only if there is none."""
        if not self._closed and len(self._queue) < self._size:
            self._accept(envelope)
            return
        if not self._closed:
            self._senders[envelope] = trio.lowlevel.current_task()

            def give_up(_: object) -> trio.lowlevel.Abort:
                # At once: who is cancelled must not be let in before it hears of that.
                del self._senders[envelope]
                return trio.lowlevel.Abort.SUCCEEDED

            await trio.lowlevel.wait_task_rescheduled(give_up)
            if envelope not in self._senders:
                return
            del self._senders[envelope]
        raise ActorUnavailable(f"{self.name} {'has crashed' if self._crash else 'is stopping'}")

    def _accept(self, envelope: Envelope) -> None:
        if self._take is not None and self._take(envelope):
            self.taken += 1
            return
        self._queue.append(envelope)
        if self._take is None and self._arrived is not None:
            self._arrived.set()
