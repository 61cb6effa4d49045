"""Behaviours, and the context through which they use the runtime.

A behaviour is an async function that ends by serving its mailbox::

    async def counter(ctx: Context[CounterMessage]) -> None:
        total = 0                                    # state: plain locals

        async def handle(message: CounterMessage) -> object:
            ...                                      # the return value is the reply

        async with open_something() as something:    # set-up and tear-down
            await ctx.serve(handle)

A restart calls the function again, so each incarnation starts with fresh state.
"""

from __future__ import annotations

import contextvars
import math
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from typing import Any, Generic, TypeAlias, TypeVar, cast

import attrs
import trio

from .envelope import Envelope, current_trace, handling
from .errors import Refused, leaf
from .incarnation import Incarnation
from .mailbox import Mailbox
from .message import A, Message, R, Request
from .ref import ActorRef, Address
from .tasks import Ts

B = TypeVar("B")
"""The protocol of a child."""

Handler: TypeAlias = Callable[[A], Awaitable[object]]
"""Handles one message: returns the reply, or raises `Refused`. Any other exception crashes the actor."""


def _not_busy() -> bool:
    return False


@attrs.frozen(eq=False)
class Context(Generic[A]):
    """The runtime, as one incarnation of an actor uses it."""

    _incarnation: Incarnation

    @property
    def ref(self) -> ActorRef[A]:
        """A handle on this actor, to give to other actors."""
        return ActorRef(self._incarnation.address)

    def publish(self, topic: str, event: object) -> None:
        """Publish an event on the bus, without waiting."""
        self._incarnation.bus.publish(topic, event)

    def progress(self) -> None:
        """Record that this incarnation has achieved something, so that earlier crashes no longer count."""
        self._incarnation.progressed = True

    def stop(self) -> None:
        """Accept no further message. `serve` handles the accepted ones and returns."""
        self._incarnation.mailbox.close()

    async def serve(
        self,
        handle: Handler[A],
        *,
        concurrency: int = 1,
        idle_timeout: float = math.inf,
        busy: Callable[[], bool] = _not_busy,
    ) -> None:
        """Handle messages until the actor is stopped or idle, then the ones already accepted, and return.

        `concurrency` is the number of messages that are handled at the same time. With more than 1, the
        actor's state may change wherever a handler waits.

        After `idle_timeout` seconds without a message the actor stops. If `busy()` returns true at that
        moment, it is called again after another `idle_timeout`.

        Raises ValueError if `concurrency` or `idle_timeout` is not positive, or if `idle_timeout` is given
        together with a `concurrency` above 1.
        """
        if concurrency < 1 or idle_timeout <= 0:
            raise ValueError("concurrency and idle_timeout must be positive")
        if concurrency > 1 and idle_timeout != math.inf:
            raise ValueError("only an actor with a concurrency of 1 may end when idle")
        mailbox = self._incarnation.mailbox
        self._incarnation.serving()
        try:
            if concurrency == 1:
                while (envelope := await mailbox.receive(idle_timeout, busy)) is not None:
                    await self._handle(handle, envelope)
                    del envelope  # otherwise an idle actor would keep its last message in memory
            else:
                await self._serve_side_by_side(handle, concurrency)
        finally:
            mailbox.end(None)  # now, so that no asker waits for the tear-down of the behaviour

    def start_soon(
        self, async_fn: Callable[[*Ts], Awaitable[object]], *args: *Ts, name: object = None
    ) -> trio.CancelScope:
        """Start a background task of this actor and return its cancel scope.

        The task is cancelled when the behaviour ends. If it crashes, the actor crashes.
        """
        return self._incarnation.background.start_soon(async_fn, *args, name=name)

    async def ask_new(self, name: str, behaviour: Behaviour[B], request: Request[B, R]) -> R:
        """Start a child actor, send it one request and return the reply.

        When this returns or raises, the child and all of its own children have ended, also after a
        cancellation. The child is never restarted: a crash is published on the bus and raised here as
        ActorCrashed, and does not affect this actor. Raises as `ActorRef.ask` does.
        """
        background = self._incarnation.background
        child = Incarnation(Address(name), Mailbox(name, 1), self._incarnation.bus, background, may_end=True)
        background.start_in(child.scope, partial(_run_once, child, behaviour), name=name)
        try:
            return await child.mailbox.ask(request)
        finally:
            if not child.ended:
                child.cancel()
                # Shielded, as the end of a nursery is: the child is cancelled and only unwinds.
                with trio.CancelScope(shield=True):
                    await child.wait_ended()

    async def _serve_side_by_side(self, handle: Handler[A], concurrency: int) -> None:
        mailbox = self._incarnation.mailbox
        name = f"{self.ref.name}<handler>"
        context = contextvars.copy_context()
        free = concurrency

        @trio.lowlevel.enable_ki_protection
        async def handle_in_turn(envelope: Envelope) -> None:
            nonlocal free
            while True:
                await self._handle(handle, envelope)
                following = mailbox.next()
                if following is None:
                    free += 1
                    return
                envelope = following
                await trio.lowlevel.checkpoint()  # lets other tasks run even if the mailbox is never empty

        def take(envelope: Envelope) -> bool:
            nonlocal free
            if not free:
                return False
            free -= 1
            # In this actor's context, because `take` is called in the task of the sender.
            context.run(lambda: handlers.start_soon(handle_in_turn, envelope, name=name))
            return True

        async with trio.open_nursery() as handlers:
            await mailbox.hand_out(take)

    async def _handle(self, handle: Handler[A], envelope: Envelope) -> None:
        if envelope.done:
            return  # withdrawn while it was queued
        nested = handling.set(envelope)
        carried = current_trace.set(envelope.trace)
        try:
            if envelope.replied is None:
                await handle(envelope.message)
                envelope.reply(None)
            else:
                with trio.CancelScope() as envelope.scope:
                    envelope.reply(await handle(envelope.message))
        except Exception as error:
            refusal = _refusal(error)
            if refusal is None:
                # Fail the other asks now, not after other handlers and the behaviour have unwound.
                self._incarnation.mailbox.end(cast(Exception, leaf(error)))
                raise
            envelope.fail(refusal)  # has no effect for a hint
        finally:
            current_trace.reset(carried)
            handling.reset(nested)


Behaviour: TypeAlias = Callable[[Context[A]], Awaitable[None]]
"""The function that implements an actor. It is called once for every incarnation."""


def background(task: Callable[[], Awaitable[object]]) -> Behaviour[Message[Any]]:
    """Return the behaviour of an actor that only runs `task` in the background and receives no messages."""

    async def behaviour(ctx: Context[Message[Any]]) -> None:
        ctx.start_soon(task)
        await ctx.serve(_nothing)

    return behaviour


async def _nothing(_: Message[Any]) -> None:
    await trio.lowlevel.checkpoint()


async def _run_once(incarnation: Incarnation, behaviour: Behaviour[B]) -> None:
    try:
        await incarnation.run(behaviour, Context(incarnation))
    finally:
        incarnation.address.absence = "has stopped"


def _refusal(error: Exception) -> Refused | None:
    """Return the refusal in an error; None if the error is, or contains, anything else.

    A refusal that was raised inside a nursery comes in a group. A group of several refusals becomes one
    refusal with all their texts.
    """
    cause = leaf(error)
    if isinstance(cause, Refused):
        return cause
    if isinstance(cause, ExceptionGroup) and cause.split(Refused)[1] is None:
        refusal = Refused("; ".join(dict.fromkeys(_texts(cause))))
        refusal.__cause__ = cause
        return refusal
    return None


def _texts(group: ExceptionGroup[Exception]) -> Iterator[str]:
    for error in group.exceptions:
        if isinstance(error, ExceptionGroup):
            yield from _texts(error)
        else:
            yield str(error)
