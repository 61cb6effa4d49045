"""The mailbox of one life of an actor, and the asks that life must answer."""

from __future__ import annotations

from contextvars import ContextVar
from typing import Any

import attrs
import trio

from stopgo.runtime import trace
from stopgo.runtime.errors import ActorCrashed, ActorError, ActorUnavailable, AskCycle
from stopgo.runtime.message import A, Message, R, Request


@attrs.define(eq=False)
class Envelope:
    """A message on its way, and for an ask the place of its answer."""

    message: Any
    mailbox: Mailbox
    parent: Envelope | None
    """What the asker was handling when it asked; None for a tell."""
    trace: trace.Trace
    answered: trio.Event | None = None
    """None for a tell."""
    settled: bool = False
    """Nobody waits for this any more: answered, failed, withdrawn, or a tell that was handled."""
    scope: trio.CancelScope | None = None
    """Around the handler of an ask while it runs."""
    value: Any = None
    error: ActorError | None = None

    def answer(self, value: object) -> None:
        if not self.settled:
            self.value = value
            self._settle()

    def fail(self, error: ActorError) -> None:
        if not self.settled:
            self.error = error
            self._settle()

    def _settle(self) -> None:
        self.settled = True
        if self.answered is not None:
            self.answered.set()

    def withdraw(self) -> None:
        """Nobody waits any more: it is not handled, or its handler is cancelled."""
        if not self.settled:
            self.settled = True
            if self.scope is not None:
                self.scope.cancel()

    def take(self) -> Any:
        """The handler's return value; raises what the ask failed with."""
        if self.error is None:
            return self.value
        # Popped, for a traceback that leads back to the envelope would keep its frames alive.
        error, self.error = self.error, None
        try:
            raise error
        finally:
            del error


handling: ContextVar[Envelope | None] = ContextVar("handling", default=None)
"""The message being handled: an ask made now is nested in it."""


class Mailbox:
    """Accepts messages for one life of an actor, and ends with it.

    Closing the receiving side of a memory channel silently drops what it still buffers.
    The set of pending asks exists so that no asker waits for an actor that is gone.
    """

    __slots__ = ("_crash", "_pending", "_receive", "_send", "name", "taken")

    def __init__(self, name: str, size: int) -> None:
        self.name = name
        self._send, self._receive = trio.open_memory_channel[Envelope](size)
        self._pending: dict[Envelope, None] = {}
        self._crash: Exception | None = None
        self.taken = 0
        """How many messages have been received."""

    async def ask(self, request: Request[A, R]) -> R:
        """Raises whatever `ActorRef.ask` does."""
        parent = handling.get()
        if parent is not None:
            self._refuse_cycle(parent)
        answered = trio.Event()
        envelope = Envelope(request, self, parent, trace.current.get(), answered)
        self._pending[envelope] = None
        try:
            try:
                self._send.send_nowait(envelope)
            except trio.WouldBlock:
                await self._send.send(envelope)
            await answered.wait()
            return envelope.take()  # type: ignore[no-any-return]
        except (trio.ClosedResourceError, trio.BrokenResourceError):
            raise self._unavailable() from None
        finally:
            del self._pending[envelope]
            envelope.withdraw()

    async def tell(self, message: Message[Any]) -> None:
        """Raises whatever `ActorRef.tell` does."""
        try:
            await self._send.send(Envelope(message, self, None, trace.current.get()))
        except (trio.ClosedResourceError, trio.BrokenResourceError):
            raise self._unavailable() from None

    def offer(self, message: Message[Any], carried: trace.Trace) -> None:
        """Queue a hint, unless something is queued already or the mailbox is closed."""
        if self._send.statistics().current_buffer_used:
            return
        try:
            self._send.send_nowait(Envelope(message, self, None, carried))
        except (trio.ClosedResourceError, trio.BrokenResourceError):
            return

    async def receive(self) -> Envelope:
        """The next message, perhaps withdrawn by now. Raises trio.EndOfChannel when drained."""
        envelope = await self._receive.receive()
        self.taken += 1
        return envelope

    def close(self) -> None:
        """Accept nothing more. What was accepted can still be received."""
        self._send.close()

    def end(self, crash: Exception | None) -> None:
        """Accept nothing more and fail every ask that has no answer. The first call counts."""
        self._crash = self._crash or crash
        # The senders first: closed while they wait, they learn that nothing was accepted.
        self._send.close()
        self._receive.close()
        for envelope in list(self._pending):
            # An exception for each asker: a shared one would collect all their tracebacks.
            if crash is None:
                envelope.fail(ActorCrashed(f"{self.name} was stopped before it answered"))
            else:
                error = ActorCrashed(f"{self.name} crashed: {crash!r}")
                error.__cause__ = crash
                envelope.fail(error)

    def _unavailable(self) -> ActorUnavailable:
        return ActorUnavailable(f"{self.name} {'has crashed' if self._crash else 'is stopping'}")

    def _refuse_cycle(self, parent: Envelope) -> None:
        """Raise AskCycle if this life is handling something the ask would be nested in.

        What is settled does not count: a task that outlives its handler blocks nobody.
        """
        path = [self.name]
        envelope: Envelope | None = parent
        while envelope is not None:
            path.append(envelope.mailbox.name)
            if envelope.mailbox is self and not envelope.settled:
                raise AskCycle(tuple(reversed(path)))
            envelope = envelope.parent
