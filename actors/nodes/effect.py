"""Sending a tool call: at most once, whatever happens.

The order is the promise: the call's places, then the intent on disk, then the call, then its result on disk.
A call that left and has no result is sent again only if its stored effect class allows it; else a human says
what became of it, or the model is told that nobody knows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Literal

import attrs
import trio

from ...config.nodes import LlmNode
from ...runtime.errors import ActorCrashed, ActorUnavailable
from ...runtime.journal.protocol import NewEvent, NewIntent, SettleIntent
from ..gate.approvals import outcome_question
from ..gate.gate import Place
from ..log import events as e
from ..log.deltas import ToolProgress
from ..log.log import ConversationLog
from ..log.record import CallRecord
from ..log.void import save_over
from ..tools import needs
from ..tools.needs import Wanted
from ..tools.registry import Resolved, Server
from ..tools.slots import Held, Slots, place_in
from ..tools.tool import (
    CallTool,
    EffectClass,
    Progress,
    Tool,
    ToolAuthRequired,
    ToolChanged,
    ToolInputRequired,
    ToolOutcomeUnknown,
    ToolResult,
    ToolUnavailable,
)
from .inquiries import Asking, Inquiries, Replies, asked_at, note_declined
from .node import Execute, RunScope, occasion
from .turn_to_ask import TurnToAsk

CANCEL_GRACE = 5.0
"""Seconds that a call which must not be repeated gets for its result when its run is cancelled."""

RESENDS = 1
"""How often, in one life, a call that may be repeated is sent again when its outcome is unknown."""

MAX_ATTEMPTS = 32
"""Of one call, when its server asks something at each before it does anything. Not every question waits for
a person: what cannot be put to anybody is declined at once."""

DECLINED = "The server asked the user something first, and the user declined. Nothing was done."

ASKED_ON = f"The server asked something first, {MAX_ATTEMPTS} times, and was given up. Nothing was done."

NOT_SENT = "The call was not sent: what it belonged to was stopped before. Nothing was done."

INTERRUPTED = "the process stopped before its result was recorded"


@attrs.frozen
class Cleared:
    """A call that may go out."""

    found: Resolved
    arguments: Mapping[str, Any]
    effect: EffectClass
    asks: bool
    """Should its outcome be unknown, a human decides."""


@attrs.frozen(eq=False)
class Effect:
    """Sends a call of a reply; `limiter` is how many of the reply are sent at a time."""

    scope: RunScope
    spec: LlmNode
    execute: Execute
    place: Place
    limiter: Slots
    turn: TurnToAsk

    @property
    def asking(self) -> Asking:
        return Asking(self.scope, self.spec, self.execute, self.place)

    async def settle_interrupted(self, key: str, record: CallRecord) -> bool:
        """Find out about a call whose intent an earlier life wrote; its stored class counts, not today's.

        True: it may be sent (again). False: it has ended.
        """
        started = record.started
        assert started is not None
        if record.need is not None:
            return await self._meet(key, record)
        last = max(record.attempts)
        if record.attempts[last] == "started" and started["effect"] == "once":
            await self._record_unknown(key, last, INTERRUPTED)
        return record.attempts[last] != "unknown" or await self._again(key, last)

    async def perform(self, key: str, cleared: Cleared) -> bool:
        """Send a call until it has ended; True when it is to go once more past the gate, for a human wants it
        sent again or has brought what its server wanted."""
        calls = self.scope.log.run.calls
        attempt = max(calls[key].attempts, default=0) if key in calls else 0
        resends = RESENDS
        while True:
            attempt += 1
            await self._attempt(key, attempt, cleared)
            record = calls[key]
            if record.result is not None:
                return False
            if record.need is not None:
                return await self._meet(key, record)
            if cleared.effect == "once" or not resends:
                return await self._again(key, attempt)
            resends -= 1

    async def _attempt(self, key: str, attempt: int, cleared: Cleared) -> None:
        """Places, intent, call, result. Afterwards the record says `finished` or `unknown`."""
        log, server, tool = self.scope.log, cleared.found.server, cleared.found.tool
        await self._credential(cleared)
        replies = await self._replies(key)
        with await self._places(server) as held:
            intent = e.tool_started(
                key,
                attempt,
                tool=tool.name,
                server=tool.server,
                facade=cleared.found.facade,
                arguments=cleared.arguments,
                effect=cleared.effect,
                asks=cleared.asks,
                node=self.spec.name,
                fingerprint=tool.fingerprint,
            )
            lost = interrupted(log, key)
            await log.save(
                *(e.tool_unknown(key, earlier, INTERRUPTED) for earlier in lost),
                intent,
                intents=[NewIntent(key, attempt, cleared.effect, intent.body)],
                settle=[SettleIntent(key, earlier, "unknown") for earlier in lost],
            )
            asks = Inquiries(self.asking, key, attempt, held, replies)
            try:
                if cleared.effect == "once":
                    await self._see_through(asks, cleared)
                else:
                    await self._send(asks, cleared)
            finally:
                await asks.close()

    async def _places(self, server: Server) -> Held:
        """A call's places. When a shutdown began while they were waited for, they are given back: those who
        stand behind must learn of it too."""
        while True:
            await self.scope.log.admit(self.execute.meters)
            held = await place_in(self.limiter, server.slots)
            if not self.scope.services.pulse.draining.is_set():
                return held
            held.give_back()

    async def _credential(self, cleared: Cleared) -> None:
        """A run that came with a token never calls a forwarding server without one."""
        server = cleared.found.server
        while server.forwards_bearer and self.scope.log.run.token and not self._bearer():
            await self.scope.log.credential(Wanted(server.name), self.execute.meters)

    async def _meet(self, key: str, record: CallRecord) -> bool:
        """Wait until there is what the server wanted at the last attempt. False: the call ends here."""
        assert record.need is not None
        self.turn.leave()
        if record.need["kind"] == "credential":
            await self._other_token(record)
            return True
        assert record.asked is not None
        why = ASKED_ON
        if len(record.attempts) < MAX_ATTEMPTS:
            answers = await self.asking.answers(key, record.asked)
            if record.asked["answers"] or all(answer.action == "accept" for answer in answers.values()):
                return True
            # There is nobody to tell, and without a yes the server would only ask again.
            why = DECLINED
        await self.scope.log.save_soon(
            e.step_finished(
                key, "call", self.spec.name, f"call {self.spec.name}", outcome="declined", content=why
            )
        )
        return False

    async def _other_token(self, record: CallRecord) -> None:
        """Wait for another token than the one the server refused."""
        log, need, started = self.scope.log, record.need, record.started
        assert need is not None
        assert started is not None
        wanted = Wanted(started["server"], need["status"], need.get("challenge"))
        while log.run.mover == need["command"] or not self._bearer():
            await log.credential(wanted, self.execute.meters)

    def _bearer(self) -> str | None:
        log = self.scope.log
        return self.scope.services.tokens.get(log.state.id, log.run.mover)

    async def _see_through(self, asks: Inquiries, cleared: Cleared) -> None:
        """Send; when the run is cancelled meanwhile, still wait a while for the result and record it. If it
        does not come in time, the end of the run records that, or, after a shutdown, the next life asks.
        What has not left by then does not leave."""
        pulse = self.scope.services.pulse
        sent = trio.Event()
        shield = trio.CancelScope(shield=True)
        if trio.current_effective_deadline() == -math.inf:  # while the intent was being saved
            shield.cancel()

        async def bound_when_cancelled() -> None:
            try:
                await trio.sleep_forever()
            finally:
                asks.cancel()
                grace = CANCEL_GRACE if sent.is_set() and not pulse.draining.is_set() else 0.0
                shield.deadline = trio.current_time() + grace

        async with trio.open_nursery() as nursery:
            nursery.start_soon(bound_when_cancelled)
            with shield:
                await self._send(asks, cleared, sent.set)
            if shield.cancelled_caught and not (sent.is_set() or pulse.draining.is_set()):
                with trio.CancelScope(shield=True):
                    result = ToolResult(NOT_SENT, is_error=True).to_json()
                    await self._settle(e.tool_finished(asks.key, asks.attempt, result), "finished")
            nursery.cancel_scope.cancel()

    async def _replies(self, key: str) -> Replies:
        """What the call brings its server."""
        record = self.scope.log.run.calls.get(key)
        if record is None or record.asked is None:
            return Replies()
        answers = await self.asking.answers(key, record.asked) if record.asked["answers"] else None
        return Replies(answers, record.asked["state"])

    async def _send(
        self, asks: Inquiries, cleared: Cleared, on_sent: Callable[[], None] | None = None
    ) -> None:
        log, server, tool = self.scope.log, cleared.found.server, cleared.found.tool
        mover = log.run.mover
        bearer = self._bearer() if server.forwards_bearer else None
        need: Mapping[str, Any] | None = None
        try:
            result = await server.ref.ask(
                CallTool(
                    tool.own_name,
                    cleared.arguments,
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
            if server.forwards_bearer:  # else nobody can bring what it wants but whoever configured it
                need = needs.credential(refusal, mover)
        except ToolInputRequired as wanted:
            result = ToolResult(str(wanted))
            need = needs.answers(wanted)
            for request in need["requests"].values():
                if "unaskable" in request:
                    note_declined(self.scope, asks.key, request["unaskable"])
        except (ToolOutcomeUnknown, ActorCrashed) as error:
            await asks.close()
            await self._record_unknown(asks.key, asks.attempt, str(error))
            return
        await asks.close()
        asks.held.give_back()  # the server is free
        await self._settle(e.tool_finished(asks.key, asks.attempt, result.to_json(), need), "finished")

    def _tell(self, asks: Inquiries, tool: Tool, progress: Progress) -> None:
        state = self.scope.log.state
        where = (state.id, state.last_seq, asks.key, asks.attempt)
        told = ToolProgress(*where, self.spec.name, tool.name, tool.server, progress)
        self.scope.log.tell(told)

    async def _record_unknown(self, key: str, attempt: int, reason: str) -> None:
        await self._settle(e.tool_unknown(key, attempt, reason), "unknown")

    async def _settle(self, end: NewEvent, state: Literal["finished", "unknown"]) -> None:
        """Save the end of an attempt. What the server still asked in the middle of it is void."""
        log, key, attempt = self.scope.log, end.body["key"], end.body["attempt"]
        await save_over(
            log,
            end,
            asked=lambda body: asked_at(body, key, attempt),
            why="the call it was asked in is over",
            settle=[SettleIntent(key, attempt, state)],
        )
        started = log.run.calls[key].started
        assert started is not None
        # Of another class, a crash costs a repetition; here a model would go on from what is forgotten.
        if started["effect"] == "once":
            await log.flush()

    async def _again(self, key: str, attempt: int) -> bool:
        """Whether an attempt that nobody knows the outcome of is made once more: a human says so, or not."""
        record = self.scope.log.run.calls[key]
        started = record.started
        assert started is not None
        if not started["asks"]:
            return False
        question = f"{key}?{attempt}"

        def ask() -> Mapping[str, Any]:
            put = occasion(self.scope, self.spec, self.execute, question, key)
            return outcome_question(put, started=started, reason=record.reason)

        if question not in self.scope.log.run.asked:
            await self.turn.come()
        self.turn.leave()
        decision = await self.scope.log.decision(question, ask, self.execute.meters)
        return bool(decision["action"] == "retry")


def interrupted(log: ConversationLog, key: str) -> list[int]:
    """Attempts of a call that an earlier life began and did not see the end of."""
    record = log.run.calls.get(key)
    attempts = record.attempts if record is not None else {}
    return [attempt for attempt, state in attempts.items() if state == "started"]
