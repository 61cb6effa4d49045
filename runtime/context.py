"""What the runtime hands to a behaviour.

An actor is an async function that ends by serving its mailbox::

    async def counter(ctx: Context[CounterMessage]) -> None:
        total = 0                                    # state: plain locals

        async def handle(message: CounterMessage) -> object:
            ...                                      # the return value is the reply

        async with open_something() as something:    # set-up and tear-down
            await ctx.serve(handle)

A restart calls the function again, so its state is always fresh.
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
"""A child's protocol."""

Handler: TypeAlias = Callable[[A], Awaitable[object]]
"""Handles one message. Returns the reply; raises Refused to say no. Anything else is a crash."""


def _not_busy() -> bool:
    return False


@attrs.frozen(eq=False)
class Context(Generic[A]):
    """One life's view of the runtime."""

    _life: Incarnation

    @property
    def ref(self) -> ActorRef[A]:
        """This actor, for others."""
        return ActorRef(self._life.address)

    def publish(self, topic: str, event: object) -> None:
        """Publish an event on the bus; never waits."""
        self._life.bus.publish(topic, event)

    def progress(self) -> None:
        """Say that this life got something done: earlier crashes no longer count against it."""
        self._life.progressed = True

    def stop(self) -> None:
        """Accept no further message: `serve` drains what was accepted and returns."""
        self._life.mailbox.close()

    async def serve(
        self,
        handle: Handler[A],
        *,
        concurrency: int = 1,
        idle_timeout: float = math.inf,
        busy: Callable[[], bool] = _not_busy,
        waits: bool = True,
    ) -> None:
        """Handle messages until stopped or idle; drain what was accepted; return.

        With a `concurrency` of 1 one message is handled after another. With more, that many
        are handled at a time, and state may change wherever a handler waits.

        After `idle_timeout` seconds without a message the actor stops, unless it is `busy()`;
        then it is asked again after as long. A `handle` that never waits can say so: there is
        nothing to cancel for who withdraws a request. Raises ValueError for a bound that is not positive,
        and for an actor that handles messages side by side and would end when idle.
        """
        if concurrency < 1 or idle_timeout <= 0:
            raise ValueError("concurrency and idle_timeout must be positive")
        if concurrency > 1 and idle_timeout != math.inf:
            raise ValueError("only an actor with a concurrency of 1 may end when idle")
        mailbox = self._life.mailbox
        self._life.withdraws = self._life.withdraws and waits
        self._life.serving()
        try:
            if concurrency == 1:
                while (envelope := await mailbox.receive(idle_timeout, busy)) is not None:
                    await self._handle(handle, envelope)
                    del envelope  # or an idle actor would keep its last message
            else:
                await self._serve_side_by_side(handle, concurrency)
        finally:
            mailbox.end(None)  # However this ends, nobody waits for the behaviour's tear-down.

    def start_soon(
        self, async_fn: Callable[[*Ts], Awaitable[object]], *args: *Ts, name: object = None
    ) -> trio.CancelScope:
        """Start a task of this actor. It is cancelled when the behaviour ends; its crash is the actor's.

        The scope it runs in is for cancelling it alone, before that.
        """
        return self._life.background.start_soon(async_fn, *args, name=name)

    async def ask_new(self, name: str, behaviour: Behaviour[B], request: Request[B, R]) -> R:
        """Start a child actor for one request. When this ends, also by cancellation, the child and all below
        it are gone.

        It is never restarted: its crash reaches the asker, as ActorCrashed, and the bus; this actor
        lives on. Raises as `ActorRef.ask` does.
        """
        background = self._life.background
        child = Incarnation(Address(name), Mailbox(name, 1), self._life.bus, background, withdraws=False)
        background.start_in(child.scope, partial(_live_once, child, behaviour), name=name)
        try:
            return await child.mailbox.ask(request)
        finally:
            if not child.ended:
                child.cancel()
                # As at the end of a nursery: what is cancelled only unwinds.
                with trio.CancelScope(shield=True):
                    await child.wait_ended()

    async def _serve_side_by_side(self, handle: Handler[A], concurrency: int) -> None:
        mailbox = self._life.mailbox
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
                await trio.lowlevel.checkpoint()  # a mailbox that is never empty lets others run

        def take(envelope: Envelope) -> bool:
            nonlocal free
            if not free:
                return False
            free -= 1
            # In our context, for this is the step of whoever sends.
            context.run(lambda: handlers.start_soon(handle_in_turn, envelope, name=name))
            return True

        async with trio.open_nursery() as handlers:
            await mailbox.hand_out(take)

    async def _handle(self, handle: Handler[A], envelope: Envelope) -> None:
        if envelope.settled:
            return  # withdrawn while it waited
        nested = handling.set(envelope)
        carried = current_trace.set(envelope.trace)
        try:
            if envelope.answered is None:
                await handle(envelope.message)
                envelope.answer(None)
            elif self._life.withdraws:
                with trio.CancelScope() as envelope.scope:
                    envelope.answer(await handle(envelope.message))
            else:
                envelope.answer(await handle(envelope.message))
        except Exception as error:
            refusal = _refusal(error)
            if refusal is None:
                # Askers hear of it now, not when other handlers and the behaviour have unwound.
                self._life.mailbox.end(cast(Exception, leaf(error)))
                raise
            envelope.fail(refusal)  # the refusal of a hint has no receiver
        finally:
            current_trace.reset(carried)
            handling.reset(nested)


Behaviour: TypeAlias = Callable[[Context[A]], Awaitable[None]]
"""An actor: called once for every life."""


def background(task: Callable[[], Awaitable[object]]) -> Behaviour[Message[Any]]:
    """An actor that is all background: `task` runs for as long as it lives, and nothing is sent to it."""

    async def behaviour(ctx: Context[Message[Any]]) -> None:
        ctx.start_soon(task)
        await ctx.serve(_nothing)

    return behaviour


async def _nothing(_: Message[Any]) -> None:
    await trio.lowlevel.checkpoint()


async def _live_once(life: Incarnation, behaviour: Behaviour[B]) -> None:
    try:
        await life.run(behaviour, Context(life))
    finally:
        life.address.absence = "has stopped"


def _refusal(error: Exception) -> Refused | None:
    """The refusal that an error is, if it is nothing else.

    Handlers may raise it inside nurseries. A group that holds a crash beside refusals is
    a crash; one that holds only refusals becomes one refusal that says them all.
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
