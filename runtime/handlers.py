"""How one life of an actor handles several messages at a time."""

from __future__ import annotations

import contextvars
from collections.abc import Awaitable, Callable
from typing import cast

import trio

from stopgo.runtime.envelope import Envelope
from stopgo.runtime.errors import leaf
from stopgo.runtime.mailbox import Mailbox


class Handlers:
    """Handles the messages of a mailbox side by side, a bounded number at a time.

    A request that finds room is handled in the task of whoever asks, as a function would be: that spares a
    task for each request, and its asker is not woken once more for the answer. What had to wait for room, and
    what nobody waits for, gets tasks of the actor's own. So no handler may count on the context it runs in.
    """

    def __init__(
        self, mailbox: Mailbox, handle: Callable[[Envelope], Awaitable[None]], room: int, name: str
    ) -> None:
        self._mailbox = mailbox
        self._handle = handle
        self._name = name
        self._free = room
        self._guests: dict[Envelope, None] = {}
        """What is handled in the tasks of askers."""
        self._left: trio.Event | None = None
        """Set when the last of them goes."""
        self._own: trio.Nursery
        self._context = contextvars.copy_context()

    async def run(self) -> None:
        """Handle what comes until the mailbox is closed, and all that was accepted by then."""
        async with trio.open_nursery() as self._own:
            drained = False
            try:
                await self._mailbox.hand_out(self)
                await self._guests_gone()
                drained = True
            finally:
                if not drained:
                    self._mailbox.end(None)
                    for envelope in self._guests:
                        envelope.cancel()
                    # As at the end of a nursery: what is cancelled only unwinds.
                    with trio.CancelScope(shield=True):
                        await self._guests_gone()

    @property
    def room(self) -> bool:
        return self._free > 0

    def take(self, envelope: Envelope) -> bool:
        """Begin to handle a message in a task of its own; False if there is no room."""
        if not self._free:
            return False
        self._free -= 1
        self._begin(envelope)
        return True

    async def visit(self, envelope: Envelope) -> None:
        """Handle a request in the task of its asker, now that there is room."""
        self._free -= 1
        self._guests[envelope] = None
        try:
            await trio.lowlevel.checkpoint()
            await self._handle(envelope)
        except* Exception as group:
            # A handler that fails while its asker is cancelled has told nobody yet.
            crash = cast(Exception, leaf(group))
            self._mailbox.end(crash)
            self._context.run(self._own.start_soon, _crash, crash)
        finally:
            del self._guests[envelope]
            following = self._mailbox.next()
            if following is None:
                self._free += 1
            else:
                self._begin(following)
            if self._left is not None and not self._guests:
                self._left.set()

    def _begin(self, envelope: Envelope) -> None:
        # In our context, for this is the step of somebody else.
        self._context.run(lambda: self._own.start_soon(self._handle_in_turn, envelope, name=self._name))

    async def _handle_in_turn(self, envelope: Envelope) -> None:
        while True:
            await self._handle(envelope)
            following = self._mailbox.next()
            if following is None:
                self._free += 1
                return
            envelope = following
            await trio.lowlevel.checkpoint()  # a mailbox that is never empty lets others run

    async def _guests_gone(self) -> None:
        while self._guests:
            self._left = trio.Event()
            await self._left.wait()


async def _crash(error: Exception) -> None:
    raise error
