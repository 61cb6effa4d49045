"""The order in which the calls of one reply put their first questions: that of the reply, whatever order trio
runs their tasks in.

A call holds back the later calls until it asks, is known not to ask, or waits for something else: a token, a
place, its tool, an answer to its server. A slow check of a schema or a pattern holds them for `PATIENCE`.
"""

from __future__ import annotations

from collections.abc import Sequence

import attrs
import trio

PATIENCE = 0.25
"""Seconds that a question waits for earlier calls of which it is not known yet whether they ask."""


@attrs.frozen(eq=False)
class TurnToAsk:
    """One call's place in that order, which it has to `leave` in the end."""

    _reply: Sequence[TurnToAsk]
    """Those of all calls of the reply, in order."""
    _known: trio.Event = attrs.field(factory=trio.Event)
    """Set when the call wants to ask, or has left."""
    _left: trio.Event = attrs.field(factory=trio.Event)

    async def come(self) -> None:
        """Return when it is this call's turn. The turn lasts until `leave`."""
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
        """Hold back no other call any more. A question that is put without a checkpoint in between is still
        before theirs."""
        self._known.set()
        self._left.set()


def turns_to_ask(calls: int) -> Sequence[TurnToAsk]:
    """Those of the calls of one reply."""
    reply: list[TurnToAsk] = []
    reply.extend(TurnToAsk(reply) for _ in range(calls))
    return reply


async def _set(event: trio.Event) -> None:
    if not event.is_set():
        await event.wait()
