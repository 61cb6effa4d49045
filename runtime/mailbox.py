"""The bounded message queue of one incarnation.

A mailbox takes two kinds of messages. An ask waits for room in the queue, then for its answer. A hint is
never refused and never waits: it is dropped if anything is queued already, because the actor will then look
for work anyway, or if the mailbox is closed.

=========  ==================================  ================================================
state      new messages                        messages in the queue
=========  ==================================  ================================================
open       accepted; asks wait while it is     received in order
           full
closed     ActorUnavailable, also for asks     received in order; `receive` then returns None
           that wait for room; hints dropped
ended      as when closed                      all asks without an answer have failed
=========  ==================================  ================================================

Room is given in order: when a message leaves the queue, the ask that has waited longest takes its place in
the same step. So no later sender can overtake it.

There are two ways to receive. With `receive`, one task takes message after message. With `hand_out`, a
callback takes each message in the step of its sender, which starts a handler without waking a receiver first.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from typing import Any

import trio

from .envelope import Envelope, Trace, current_trace, handling
from .errors import ActorCrashed, ActorUnavailable
from .message import A, Message, R, Request


class Mailbox:
    """The bounded message queue of one incarnation. One task receives.

    This is not a memory channel: a closed channel drops its buffer without failing the asks in it, and a hint
    needs to know whether anything is queued.

    Raises ValueError for a size below 1.
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
        self._queue: deque[Envelope] = deque()
        self._senders: dict[Envelope, trio.lowlevel.Task] = {}  # tasks that wait for room, in order
        self._pending: dict[Envelope, None] = {}  # asks without an answer: waiting, queued or being handled
        self._arrived: trio.Event | None = None  # wakes the receiver
        self._take: Callable[[Envelope], bool] | None = None  # set while `hand_out` runs
        self._closed = False
        self._crash: Exception | None = None

    async def ask(self, request: Request[A, R]) -> R:
        """Send a request and wait for its answer. Raises as `ActorRef.ask` does."""
        # Otherwise a handler could start on the request of a caller that is already cancelled.
        await trio.lowlevel.checkpoint_if_cancelled()
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
        """Wait for the next message and return it; it may have been withdrawn. Return None when the mailbox
        is closed and empty.

        Closes the mailbox after `idle_timeout` seconds without a message, unless `busy()` returns true.
        """
        if self._queue and self.taken:
            await trio.lowlevel.checkpoint()  # lets other tasks run even if the mailbox is never empty
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
        """Call `take` with every message, in order and in the step of its sender, until the mailbox is
        closed.

        `take` returns False when it has no capacity. The message then stays in the queue, in front of all
        later ones, and the owner of `take` fetches it with `next` when it has capacity again.
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
        """Return the next message, which may have been withdrawn, or None if the queue is empty."""
        if not self._queue:
            return None
        envelope = self._queue.popleft()
        self.taken += 1
        if self._senders and not self._closed:
            waiting = next(iter(self._senders))
            trio.lowlevel.reschedule(self._senders.pop(waiting))
            self._queue.append(waiting)
        return envelope

    def close(self) -> None:
        """Accept no further message. Queued messages can still be received."""
        if self._closed:
            return
        self._closed = True
        if self._arrived is not None:
            self._arrived.set()
        for sender in self._senders.values():
            trio.lowlevel.reschedule(sender)

    def end(self, crash: Exception | None) -> None:
        """Close the mailbox and fail every ask that has no answer."""
        self._crash = self._crash or crash
        self.close()
        for envelope in self._pending:
            # One exception per asker: a common one would collect the tracebacks of all askers.
            if crash is None:
                envelope.fail(ActorCrashed(f"{self.name} was stopped before it answered"))
            else:
                error = ActorCrashed(f"{self.name} crashed: {crash!r}")
                error.__cause__ = crash
                envelope.fail(error)

    async def _deliver(self, envelope: Envelope) -> None:
        """Queue the envelope, if necessary after waiting for room. A checkpoint only in that case."""
        if not self._closed and len(self._queue) < self._size:
            self._accept(envelope)
            return
        if not self._closed:
            self._senders[envelope] = trio.lowlevel.current_task()

            def give_up(_: object) -> trio.lowlevel.Abort:
                # Leave now; otherwise `next` could still queue the envelope of a cancelled sender.
                del self._senders[envelope]
                return trio.lowlevel.Abort.SUCCEEDED

            await trio.lowlevel.wait_task_rescheduled(give_up)
            if envelope not in self._senders:  # `next` has queued it
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
