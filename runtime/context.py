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

import math
from collections.abc import Awaitable, Callable, Iterator
from typing import Generic, TypeAlias, TypeVar, cast

import attrs
import trio

from stopgo.runtime import trace
from stopgo.runtime.background import Ts
from stopgo.runtime.envelope import Envelope, handling
from stopgo.runtime.errors import Refused, leaf
from stopgo.runtime.events import ACTORS, TellRefused
from stopgo.runtime.life import Life
from stopgo.runtime.mailbox import Mailbox
from stopgo.runtime.message import A
from stopgo.runtime.ref import ActorRef, Address

B = TypeVar("B")
"""A child's protocol."""

Handler: TypeAlias = Callable[[A], Awaitable[object]]
"""Handles one message. Returns the reply; raises Refused to say no. Anything else is a crash."""


def _not_busy() -> bool:
    return False


@attrs.frozen(eq=False)
class Context(Generic[A]):
    """One life's view of the runtime."""

    _life: Life

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
    ) -> None:
        """Handle messages until stopped or idle; drain what was accepted; return.

        With a `concurrency` of 1 one message is handled after another. With more, that many
        are handled at a time, and state may change wherever a handler waits.

        After `idle_timeout` seconds without a message the actor stops, unless it is `busy()`;
        then it is asked again after as long. Raises ValueError for a bound that is not positive.
        """
        if concurrency < 1 or idle_timeout <= 0:
            raise ValueError("concurrency and idle_timeout must be positive")
        mailbox = self._life.mailbox
        self._life.serving()
        try:
            if concurrency == 1:
                while (envelope := await mailbox.receive(idle_timeout, busy)) is not None:
                    await self._handle(handle, envelope)
                    del envelope  # or an idle actor would keep its last message
            else:
                await self._serve_side_by_side(handle, concurrency, idle_timeout, busy)
        finally:
            mailbox.end(None)  # However this ends, nobody waits for the behaviour's tear-down.

    def start_soon(
        self, async_fn: Callable[[*Ts], Awaitable[object]], *args: *Ts, name: object = None
    ) -> None:
        """Start a task of this actor. It is cancelled when the behaviour ends; its crash is the actor's."""
        self._life.background.start_soon(async_fn, *args, name=name)

    def spawn(self, name: str, behaviour: Behaviour[B], mailbox: int = 16) -> ActorRef[B]:
        """Start a child actor that is never restarted and ends, at the latest, with this one.

        Messages queue while it starts. Its crash reaches those who asked it, as ActorCrashed,
        and the bus; this actor lives on.
        """
        address = Address(name)
        life = Life(address, Mailbox(name, mailbox), self._life.bus, self._life.background)
        self._life.background.start_soon(_live_once, life, behaviour, name=name)
        return ActorRef(address)

    async def _serve_side_by_side(
        self, handle: Handler[A], concurrency: int, idle_timeout: float, busy: Callable[[], bool]
    ) -> None:
        slots = trio.Semaphore(concurrency)

        async def handle_in_slot(envelope: Envelope) -> None:
            try:
                await self._handle(handle, envelope)
            finally:
                slots.release()

        async with trio.open_nursery() as handlers:
            while True:
                # A slot first: a message is taken only when there is room to handle it.
                try:
                    slots.acquire_nowait()
                except trio.WouldBlock:
                    await slots.acquire()
                # Others run at the latest when the slots are taken: a crowd does not cost a pass of the
                # scheduler each.
                envelope = await self._life.mailbox.receive(
                    idle_timeout, lambda: bool(handlers.child_tasks) or busy(), at_once=True
                )
                if envelope is None:
                    return
                name = f"{self.ref.name}<{type(envelope.message).__name__}>"
                handlers.start_soon(handle_in_slot, envelope, name=name)
                del envelope

    async def _handle(self, handle: Handler[A], envelope: Envelope) -> None:
        if envelope.settled:
            return  # withdrawn while it waited
        nested = handling.set(envelope)
        carried = trace.current.set(envelope.trace)
        try:
            if envelope.answered is None:
                await handle(envelope.message)
                envelope.answer(None)
            else:
                with trio.CancelScope() as envelope.scope:
                    envelope.answer(await handle(envelope.message))
        except Exception as error:
            refusal = _refusal(error)
            if refusal is None:
                # Askers hear of it now, not when other handlers and the behaviour have unwound.
                self._life.mailbox.end(cast(Exception, leaf(error)))
                raise
            if envelope.answered is None:
                self.publish(ACTORS, TellRefused(self.ref.name, envelope.message, refusal))
            envelope.fail(refusal)
        finally:
            trace.current.reset(carried)
            handling.reset(nested)


Behaviour: TypeAlias = Callable[[Context[A]], Awaitable[None]]
"""An actor: called once for every life."""


async def _live_once(life: Life, behaviour: Behaviour[B]) -> None:
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
