"""Sending a tool call: at most once, whatever happens.

The order is the promise: the call's places, then the intent on disk, then the call, then its result on disk.
Afterwards the record says that the attempt is finished or that its outcome is unknown; `lifecycle` decides
what follows.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import attrs
import trio

from ...runtime.errors import ActorCrashed, ActorUnavailable
from ...runtime.journal.protocol import NewIntent, SettleIntent
from ..log import events as e
from ..log.deltas import ToolProgress
from ..log.event_json import encode
from ..log.log import ConversationLog
from ..log.void import save_over
from ..tools import needs
from ..tools.needs import Need, Unaskable
from ..tools.registry import Resolved
from ..tools.slots import Slots, place_in
from ..tools.tool import (
    CallTool,
    Progress,
    Tool,
    ToolAuthRequired,
    ToolChanged,
    ToolInputRequired,
    ToolOutcomeUnknown,
    ToolResult,
    ToolUnavailable,
)
from .call_scope import CallScope
from .inquiries import Asking, Inquiries, asked_at, note_declined, replies_of
from .lifecycle import INTERRUPTED, is_heard_from_disk
from .steps import Send

CANCEL_GRACE = 5.0
"""Seconds that a call which must not be repeated gets for its result when its run is cancelled."""

NOT_SENT = "The call was not sent: what it belonged to was stopped before. Nothing was done."


@attrs.frozen(eq=False)
class Dispatch:
    """Sends the calls of a reply; `limiter` is how many of them are sent at a time."""

    scope: CallScope
    limiter: Slots

    async def send(self, key: str, step: Send, found: Resolved) -> None:
        """Make an attempt, and record what came of it. Not if a shutdown began before it had its places."""
        log, server, tool = self.scope.log, found.server, found.tool
        with await place_in(self.limiter, server.slots) as held:
            # The places go back at once: the calls behind this one must learn of the shutdown, too.
            if self.scope.draining.is_set():
                return
            intent = e.ToolStarted(
                key,
                step.attempt,
                tool=tool.name,
                server=tool.server,
                facade=found.facade,
                arguments=step.arguments,
                effect=step.effect,
                asks=step.asks,
                node=self.scope.node,
                fingerprint=tool.fingerprint,
            )
            replies = replies_of(log, key)
            await log.save(
                *(e.ToolUnknown(key, earlier, INTERRUPTED) for earlier in step.lost),
                intent,
                intents=[NewIntent(key, step.attempt, step.effect, encode(intent).body)],
                settle=[SettleIntent(key, earlier, "unknown") for earlier in step.lost],
            )
            asks = Inquiries(Asking(self.scope), key, step.attempt, held, replies)
            try:
                if step.effect == "once":
                    await self._see_through(asks, step, found)
                else:
                    await self._call(asks, step, found)
            finally:
                await asks.close()

    async def _see_through(self, asks: Inquiries, step: Send, found: Resolved) -> None:
        """Send; when the run is cancelled meanwhile, still wait a while for the result and record it. If it
        does not come in time, the end of the run records that, or, after a shutdown, the next life asks.
        What has not left by then does not leave."""
        draining = self.scope.draining
        sent = trio.Event()
        shield = trio.CancelScope(shield=True)
        if trio.current_effective_deadline() == -math.inf:  # while the intent was being saved
            shield.cancel()

        async def bound_when_cancelled() -> None:
            try:
                await trio.sleep_forever()
            finally:
                asks.cancel()
                grace = CANCEL_GRACE if sent.is_set() and not draining.is_set() else 0.0
                shield.deadline = trio.current_time() + grace

        async with trio.open_nursery() as nursery:
            nursery.start_soon(bound_when_cancelled)
            with shield:
                await self._call(asks, step, found, sent.set)
            if shield.cancelled_caught and not (sent.is_set() or draining.is_set()):
                with trio.CancelScope(shield=True):
                    result = ToolResult(NOT_SENT, is_error=True)
                    await save_ends(self.scope.log, e.ToolFinished(asks.key, asks.attempt, result))
            nursery.cancel_scope.cancel()

    async def _call(
        self, asks: Inquiries, step: Send, found: Resolved, on_sent: Callable[[], None] | None = None
    ) -> None:
        server, tool = found.server, found.tool
        mover = self.scope.log.run.mover
        bearer = self.scope.bearer if server.forwards_bearer else None
        need: Need | None = None
        try:
            result = await server.ref.ask(
                CallTool(
                    tool.own_name,
                    step.arguments,
                    bearer,
                    tool,
                    on_sent=on_sent,
                    on_progress=partial(self._tell, asks, tool),
                    on_elicitation=asks.ask,
                    answers=asks.replies.answers,
                    state=asks.replies.state,
                )
            )
        except (ToolUnavailable, ToolChanged, ActorUnavailable) as error:
            # It never left, so nothing happened.
            result = ToolResult(str(error), is_error=True)
        except ToolAuthRequired as refusal:
            result = ToolResult(str(refusal), is_error=True)
            if server.forwards_bearer:  # else only the configuration can bring another
                need = needs.token(refusal, mover)
        except ToolInputRequired as wanted:
            result = ToolResult(str(wanted))
            need = needs.answers(wanted)
            for request in need.requests.values():
                if isinstance(request, Unaskable):
                    note_declined(self.scope, asks.key, request.unaskable)
        except (ToolOutcomeUnknown, ActorCrashed) as error:
            await asks.close()
            await save_ends(self.scope.log, e.ToolUnknown(asks.key, asks.attempt, str(error)))
            return
        await asks.close()
        asks.held.give_back()  # the server is free
        await save_ends(self.scope.log, e.ToolFinished(asks.key, asks.attempt, result, need))

    def _tell(self, asks: Inquiries, tool: Tool, progress: Progress) -> None:
        log = self.scope.log
        where = (log.state.id, log.state.last_seq, asks.key, asks.attempt)
        log.tell(ToolProgress(*where, self.scope.node, tool.name, tool.server, progress))


async def save_ends(log: ConversationLog, *ends: e.ToolFinished | e.ToolUnknown) -> None:
    """Save the ends of attempts of one call. Questions that the server put in the middle of them are void."""
    key, attempts = ends[0].key, [end.attempt for end in ends]
    await save_over(
        log,
        *ends,
        asked=lambda asked: any(asked_at(asked, key, attempt) for attempt in attempts),
        why="the call it was asked in is over",
        settle=[
            SettleIntent(key, end.attempt, "unknown" if isinstance(end, e.ToolUnknown) else "finished")
            for end in ends
        ],
    )
    started = log.run.calls[key].started
    assert started is not None
    if is_heard_from_disk(started.effect):
        await log.flush()
