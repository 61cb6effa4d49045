"""The order of the approvals of one reply: that of its calls, although their tasks run in any order.

A call holds back the questions of later calls until it asks, turns out not to ask, or waits for something
else: a token, a slot, its tool, an answer to its server. A slow check of a schema or a pattern holds them
back for `PATIENCE` seconds at most.
"""

from __future__ import annotations

from collections.abc import Sequence

import attrs
import trio

PATIENCE = 0.25
"""Seconds that a question waits for earlier calls that may ask or not."""


@attrs.frozen(eq=False)
class AskPosition:
    """The position of one call in that order. Every call has to `leave` it in the end."""

    _reply: Sequence[AskPosition]
    """The positions of all calls of the reply, in order."""
    _known: trio.Event = attrs.field(factory=trio.Event)
    """Set when the call is about to ask, or has left."""
    _left: trio.Event = attrs.field(factory=trio.Event)

    async def come(self) -> None:
        """Wait until the earlier calls have left. Later calls wait until this one does."""
        if self._left.is_set():
            return
        self._known.set()
        earlier = self._reply[: self._reply.index(self)]
        with trio.move_on_after(PATIENCE):
            for each in earlier:
                await _set(each._known)
        for each in earlier:
            if each._known.is_set():
                await _set(each._left)

    def leave(self) -> None:
        """Hold back the later calls no longer. Without a checkpoint in between, this call's question is
        still put before theirs."""
        self._known.set()
        self._left.set()


def ask_positions(calls: int) -> Sequence[AskPosition]:
    """The positions of the calls of one reply."""
    reply: list[AskPosition] = []
    reply.extend(AskPosition(reply) for _ in range(calls))
    return reply


async def _set(event: trio.Event) -> None:
    if not event.is_set():
        await event.wait()
