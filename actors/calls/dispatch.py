"""Sending a tool call: at most once, whatever happens.

The order is the promise: the call's places, then the intent on disk, then the call, then its result on disk.
Afterwards the record says that the attempt is finished or that its outcome is unknown; `lifecycle` decides
what follows.
"""

from __future__ import annotations

import logging
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
from ..log.past import NOT_SENT
from ..tools import needs
from ..tools.needs import Need, Unaskable
from ..tools.registry import RemoteServer, Resolved, Server
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
from .call_end import CANCEL_GRACE, save_ends
from .call_scope import CallScope
from .inquiries import Asking, Inquiries, note_declined, replies_of
from .lifecycle import INTERRUPTED
from .proxies import brought_by_next
from .remote_exchange import RemoteExchange
from .steps import LookUp, Send


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
                brings=brought_by_next(log, key),
            )
            replies = replies_of(log, key)
            await log.save(
                *(e.ToolUnknown(key, earlier, INTERRUPTED) for earlier in step.lost),
                intent,
                intents=[NewIntent(key, step.attempt, step.effect, encode(intent).body)],
                settle=[SettleIntent(key, earlier, "unknown") for earlier in step.lost],
            )
            if isinstance(server, RemoteServer):
                await RemoteExchange.of(self.scope, key, step.attempt, tool, server, held).see_through()
                return
            asks = Inquiries(Asking(self.scope), key, step.attempt, held, replies)
            try:
                if step.effect == "once":
                    await self._see_through(asks, step, tool, server)
                else:
                    await self._call(asks, step, tool, server)
            finally:
                await asks.close()

    async def look_up(self, key: str, step: LookUp, found: Resolved) -> None:
        """Record the end that an attempt of an earlier life has had at another agent."""
        assert isinstance(found.server, RemoteServer)
        with await place_in(self.limiter, found.server.slots) as held:
            if not self.scope.draining.is_set():
                exchange = RemoteExchange.of(self.scope, key, step.attempt, found.tool, found.server, held)
                await exchange.see_through(lost=True, may_send=step.may_send)

    async def _see_through(self, asks: Inquiries, step: Send, tool: Tool, server: Server) -> None:
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
                await self._call(asks, step, tool, server, sent.set)
            if shield.cancelled_caught and not (sent.is_set() or draining.is_set()):
                with trio.CancelScope(shield=True):
                    result = ToolResult(NOT_SENT, is_error=True)
                    await save_ends(self.scope.log, e.ToolFinished(asks.key, asks.attempt, result))
            nursery.cancel_scope.cancel()

    async def _call(
        self,
        asks: Inquiries,
        step: Send,
        tool: Tool,
        server: Server,
        on_sent: Callable[[], None] | None = None,
    ) -> None:
        mover = self.scope.log.run.driving_command
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
                    on_anonymous_question=partial(_one_at_a_time, server),
                    answers=asks.replies.answers,
                    state=asks.replies.state,
                    since=asks.held.since,
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
        log.publish_delta(ToolProgress(*where, self.scope.node, tool.name, tool.server, progress))


def _one_at_a_time(server: Server) -> None:
    """Send the server one call at a time from now on: of several, its questions could not be told apart."""
    if server.slots.narrow():
        logging.getLogger(f"stopgo.mcp.{server.name}").info(
            "asks a question in the middle of a call, and MCP does not tell of which: from now on,"
            " its calls go one at a time"
        )
