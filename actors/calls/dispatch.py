"""Sends a tool call, once per attempt, and records how the attempt ended.

The order makes this safe:

1. Wait for slots: of the node, then of the server.
2. Commit the intent, together with all pending writes before it, unless the agent was halted meanwhile. From
   here on, a crash leaves the outcome unknown.
3. Send the call, unless it is of class `once` and the agent was halted meanwhile, or this process has lost
   its lease at the journal.
4. Record its end: a result, a prerequisite of the server, or an unknown outcome. `lifecycle` decides what
   comes next.

If the run is cancelled, an attempt of a `once` call still gets `CANCEL_GRACE` seconds for its result, because
its outcome would otherwise be unknown. Other attempts are cancelled at once.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from functools import partial

import attrs
import trio

from ...runtime.errors import ActorCrashed, ActorUnavailable
from ...runtime.journal.errors import Fenced
from ...runtime.journal.protocol import NewIntent, SettleIntent
from ..gate.halt import Departure, Halt, LeaseLost
from ..log.fold.past import NOT_SENT
from ..log.words import events as e
from ..log.words.deltas import ToolProgress
from ..log.words.event_json import encode
from ..run.scopes import CallScope
from ..tools import needs
from ..tools.needs import Need, Unaskable
from ..tools.registry import RemoteServer, Resolved, Server, bearer_for
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
from ..tools.verdict_facts import VerdictFacts
from .call_end import CANCEL_GRACE, save_cancelled, save_ends
from .elicitations import ElicitationAsker, Elicitations, note_declined, replies_of
from .lifecycle import INTERRUPTED
from .proxies import brought_by_next
from .remote_exchange import RemoteExchange
from .steps import LookUp, Send


@attrs.frozen(eq=False)
class Dispatch:
    """Sends the calls of a reply; `limiter` has the node's slots for them."""

    scope: CallScope
    limiter: Slots

    async def send(self, key: str, step: Send, found: Resolved, verdict: VerdictFacts, halt: Halt) -> bool:
        """Make an attempt, and record its end. Return False, without an attempt, if a shutdown or a halt
        began after the step was decided. `halt` is the latest halt at that time."""
        log, server, tool, halts = self.scope.log, found.server, found.tool, self.scope.services.halts
        with (
            await place_in(self.limiter, server.slots) as slots,
            halts.departure(None if step.held else halt, log.tenure.owns) as departure,
        ):
            # Return, so that the slots are free: the calls that wait for them have to notice the shutdown,
            # too.
            if self.scope.draining.is_set():
                return False
            intent = e.ToolStarted(
                key,
                step.attempt,
                tool=tool.name,
                server=tool.server,
                facade=found.facade,
                arguments=step.arguments,
                effect=step.effect,
                asks=step.asks,
                node=self.scope.spec.name,
                fingerprint=tool.fingerprint,
                brings=brought_by_next(log, key),
                verdict=verdict,
            )
            replies = replies_of(log, key)
            saved = await log.save(
                *(e.ToolUnknown(key, earlier, INTERRUPTED) for earlier in step.lost),
                intent,
                intents=[NewIntent(key, step.attempt, step.effect, encode(intent).body)],
                settle=[SettleIntent(key, earlier, "unknown") for earlier in step.lost],
                when=departure.may_leave if step.effect == "once" and not step.held else lambda: True,
            )
            departure.committed.set()
            if not saved:
                return False
            with trio.CancelScope(shield=True):  # no longer than the lease
                await log.confirm()  # this process may have been paused during the commit
            if isinstance(server, RemoteServer):
                exchange = RemoteExchange.of(self.scope, key, step.attempt, tool, server, slots, departure)
                await exchange.carry_out()
                return True
            elicitations = Elicitations(ElicitationAsker(self.scope), key, step.attempt, slots, replies)
            try:
                if step.effect == "once":
                    await self._call_once(elicitations, step, tool, server, departure)
                else:
                    await self._call(elicitations, step, tool, server, departure.check_lease)
            finally:
                await elicitations.close()
        return True

    async def look_up(self, key: str, step: LookUp, found: Resolved, halt: Halt) -> None:
        """Ask the called agent how an attempt of an earlier process ended, and record that. `halt` is as in
        `send`."""
        tool, server = found.tool, found.server
        assert isinstance(server, RemoteServer)
        with (
            await place_in(self.limiter, server.slots) as slots,
            self.scope.services.halts.departure(
                None if step.held else halt, self.scope.log.tenure.owns
            ) as departure,
        ):
            departure.committed.set()
            if not self.scope.draining.is_set():
                exchange = RemoteExchange.of(self.scope, key, step.attempt, tool, server, slots, departure)
                await exchange.carry_out(lost=True, may_send=step.may_send)

    async def _call_once(
        self, elicitations: Elicitations, step: Send, tool: Tool, server: Server, departure: Departure
    ) -> None:
        """As `_call`. If the run is cancelled meanwhile, wait up to `CANCEL_GRACE` seconds for the result.

        After that, the outcome is recorded as unknown. A call that has not been sent when the run is
        cancelled is not sent; after a shutdown, the next start continues it.
        """
        draining = self.scope.draining
        shield = trio.CancelScope(shield=True)
        if trio.current_effective_deadline() == -math.inf:  # while the intent was being saved
            shield.cancel()

        async def bound_when_cancelled() -> None:
            try:
                await trio.sleep_forever()
            finally:
                elicitations.cancel()
                waits = departure.has_left and not (draining.is_set() or self.scope.log.tenure.is_lost)
                shield.deadline = trio.current_time() + (CANCEL_GRACE if waits else 0.0)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(bound_when_cancelled)
            with shield:
                await self._call(elicitations, step, tool, server, departure.leave)
            if shield.cancelled_caught and (departure.has_left or not draining.is_set()):
                await self._save_cancelled(elicitations, departure)
            nursery.cancel_scope.cancel()

    async def _save_cancelled(self, elicitations: Elicitations, departure: Departure) -> None:
        """Record the end of an attempt that was given up. Perhaps only its branch was stopped: then the run
        goes on, and its models hear of the attempt."""
        key, attempt = elicitations.key, elicitations.attempt
        end: e.ToolFinished | e.ToolUnknown = e.ToolUnknown(key, attempt, "the call was given up")
        if not departure.has_left:
            end = e.ToolFinished(key, attempt, ToolResult(NOT_SENT, is_error=True))
        await save_cancelled(self.scope.log, end)

    async def _call(
        self,
        elicitations: Elicitations,
        step: Send,
        tool: Tool,
        server: Server,
        on_sent: Callable[[], None],
    ) -> None:
        command = self.scope.log.run.command_of(elicitations.key)
        bearer = bearer_for(server, self.scope.token(elicitations.key))
        need: Need | None = None
        try:
            result = await server.ref.ask(
                CallTool(
                    tool.own_name,
                    step.arguments,
                    bearer,
                    tool,
                    on_sent=on_sent,
                    on_progress=partial(self._tell, elicitations, tool),
                    on_elicitation=elicitations.ask,
                    on_anonymous_question=partial(_one_at_a_time, server),
                    answers=elicitations.replies.answers,
                    state=elicitations.replies.state,
                    since=elicitations.slots.since,
                    traceparent=self.scope.traceparent(elicitations.key, elicitations.attempt),
                )
            )
        except LeaseLost as error:
            if step.effect != "once":  # it can be sent again by the member that owns the conversation now
                raise Fenced(str(error)) from error
            result = ToolResult(str(error), is_error=True)
        except (ToolUnavailable, ToolChanged, ActorUnavailable) as error:
            # The call was not sent, so its outcome is known.
            result = ToolResult(str(error), is_error=True)
        except ToolAuthRequired as refusal:
            result = ToolResult(str(refusal), is_error=True)
            if server.forwards_bearer:  # otherwise only a change of the configuration helps
                need = needs.token(refusal, command)
        except ToolInputRequired as wanted:
            result = ToolResult(str(wanted))
            need = needs.answers(wanted)
            for request in need.requests.values():
                if isinstance(request, Unaskable):
                    note_declined(self.scope, elicitations.key, request.unaskable)
        except (ToolOutcomeUnknown, ActorCrashed) as error:
            await elicitations.close()
            await save_ends(self.scope.log, e.ToolUnknown(elicitations.key, elicitations.attempt, str(error)))
            return
        await elicitations.close()
        elicitations.slots.give_back()  # before the commit: the server is free already
        await save_ends(self.scope.log, e.ToolFinished(elicitations.key, elicitations.attempt, result, need))

    def _tell(self, elicitations: Elicitations, tool: Tool, progress: Progress) -> None:
        log = self.scope.log
        where = (log.state.id, log.state.last_seq, elicitations.key, elicitations.attempt)
        log.publish_delta(ToolProgress(*where, self.scope.spec.name, tool.name, tool.server, progress))


def _one_at_a_time(server: Server) -> None:
    """Send the server one call at a time from now on, because its questions do not name their calls."""
    if server.slots.narrow():
        logging.getLogger(f"stopgo.mcp.{server.name}").info(
            "calls are sent one at a time from now on: the server asked a question during a call, and MCP"
            " does not say which call it belongs to"
        )
