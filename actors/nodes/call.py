"""One tool call of a model's reply, from the gate to its result: at most once, whatever happens.

The order is the promise. The gate first; a question if it asks; then the server's slot, then the intent on
disk, then the call, then its result on disk. On a replay the record tells how far the call came, and it goes
on from there: a call that left and has no result is sent again only if its stored effect class allows it.
"""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import attrs
import trio

from stopgo.actors import events as e
from stopgo.actors.approvals import outcome_question, outcome_text, rejection_text, tool_question
from stopgo.actors.gate import effect_class, judge
from stopgo.actors.head import is_rejection
from stopgo.actors.models.messages import ToolCall
from stopgo.actors.nodes.node import Execute, RunScope
from stopgo.actors.registry import NotFound, Resolve, Resolved, Server
from stopgo.actors.state import CallRecord
from stopgo.actors.tools import CallTool, EffectClass, ToolOutcomeUnknown, ToolResult, ToolUnavailable
from stopgo.config.model import LlmNode
from stopgo.runtime.errors import ActorCrashed, ActorUnavailable
from stopgo.runtime.journal.protocol import NewIntent, SettleIntent

CANCEL_GRACE = 5.0
"""Seconds that a call which must not be repeated gets for its result when its run is cancelled."""

RESENDS = 1
"""How often, in one life, a call that may be repeated is sent again when its outcome is unknown."""

INTERRUPTED = "the process stopped before its result was recorded"


@attrs.frozen
class CallEnd:
    """What the model is told of a call."""

    content: str
    is_error: bool
    rejected: bool = False


@attrs.frozen
class _Cleared:
    """A call that may go out."""

    found: Resolved
    arguments: Mapping[str, Any]
    effect: EffectClass
    asks: bool


@attrs.frozen(eq=False)
class Calls:
    """The tool calls of one execution of an llm node."""

    scope: RunScope
    spec: LlmNode
    execute: Execute

    async def settle(self, key: str, call: ToolCall, limiter: trio.CapacityLimiter) -> CallEnd:
        """Bring a call to its end. Never raises for what a tool or a human does."""
        record = self.scope.log.run.calls.get(key)
        if (
            record is not None
        ):  # else the reply that asks for it is new, and on disk with the first save below
            if record.result is not None:
                return CallEnd(record.result["content"], record.result["is_error"])
            if record.unsent is not None:
                return CallEnd(record.unsent["content"], is_error=True)
            if record.started is not None:
                return await self._go_on(key, record, limiter)
        cleared = await self._clear(key, call)
        if isinstance(cleared, CallEnd):
            return cleared
        return await self._perform(key, cleared, limiter)

    # ------------------------------------------------------------------ the gate

    async def _clear(self, key: str, call: ToolCall) -> _Cleared | CallEnd:
        """Pass the gate: ask as often as it takes. The last look is taken just before the intent."""
        log, config = self.scope.log, self.scope.services.config
        arguments = call.arguments
        approved = False
        replaces: str | None = None
        asked = 0
        while True:
            found = await self.scope.services.registry.ask(Resolve(call.name))
            if isinstance(found, NotFound):
                return await self._unsent(key, "not_found", _not_found(call.name, found))
            question = f"{key}~{asked}"
            verdict = judge(found.tool, self.execute.place, config.approval)
            if verdict.action == "deny":
                text = f"Denied by policy: {verdict.rule}. Nothing was done."
                return await self._unsent(key, "denied", text)
            if question not in log.run.asked and replaces is None and (approved or verdict.action == "run"):
                effect = effect_class(found.tool, approved=approved)
                asks = effect == "once" and (approved or bool(found.tool.hints.destructive))
                return _Cleared(found, arguments, effect, asks)
            ask = partial(self._question, key, question, found, arguments, verdict.rule, replaces)
            decision = await log.decision(question, ask)
            if is_rejection(decision):
                return CallEnd(rejection_text(decision), is_error=True, rejected=True)
            approval = log.state.approvals[log.run.asked[question]]
            arguments = decision.get("arguments", arguments)
            approved = True
            asked += 1
            replaces = approval.id if await self._changed_since(approval.body, call.name) else None

    async def _changed_since(self, shown: Mapping[str, Any], name: str) -> bool:
        """Whether the tool is not any more what the human was shown."""
        found = await self.scope.services.registry.ask(Resolve(name))
        return isinstance(found, Resolved) and found.tool.fingerprint != shown["tool_fingerprint"]

    def _question(
        self,
        key: str,
        question: str,
        found: Resolved,
        arguments: Mapping[str, Any],
        rule: str,
        replaces: str | None,
    ) -> Mapping[str, Any]:
        return tool_question(
            id=str(uuid.uuid4()),
            question=question,
            key=key,
            node=self.spec.name,
            path=self.execute.path,
            output_key=self.spec.output_key,
            tool=found.tool,
            arguments=arguments,
            rule=rule,
            session_state=self.execute.session,
            user_message=self.scope.user,
            replaces=replaces,
        )

    async def _unsent(self, key: str, outcome: str, content: str) -> CallEnd:
        fingerprint = f"call {self.spec.name}"
        event = e.step_finished(key, "call", self.spec.name, fingerprint, outcome=outcome, content=content)
        await self.scope.log.save(event)
        return CallEnd(content, is_error=True)

    # ---------------------------------------------------------------- the effect

    async def _go_on(self, key: str, record: CallRecord, limiter: trio.CapacityLimiter) -> CallEnd:
        """Go on with a call whose intent an earlier life wrote: its stored class counts, not today's."""
        started = record.started
        assert started is not None
        last = max(record.attempts)
        if record.attempts[last] == "started" and started["effect"] == "once":
            await self._record_unknown(key, last, INTERRUPTED)
        if record.attempts[last] == "unknown":
            end = await self._after_unknown(key, last, record)
            if end is not None:
                return end
        found = await self.scope.services.registry.ask(Resolve(started["tool"]))
        if isinstance(found, NotFound):
            return await self._unsent(key, "not_found", _not_found(started["tool"], found))
        cleared = _Cleared(found, started["arguments"], started["effect"], started["asks"])
        return await self._perform(key, cleared, limiter)

    async def _perform(self, key: str, cleared: _Cleared, limiter: trio.CapacityLimiter) -> CallEnd:
        record = self.scope.log.run.calls.get(key)
        attempt = max(record.attempts, default=0) if record is not None else 0
        resends = RESENDS
        while True:
            attempt += 1
            await self._attempt(key, attempt, cleared, limiter)
            record = self.scope.log.run.calls[key]
            if record.result is not None:
                return CallEnd(record.result["content"], record.result["is_error"])
            if cleared.effect != "once" and resends:
                resends -= 1
                continue
            end = await self._after_unknown(key, attempt, record)
            if end is not None:
                return end

    async def _attempt(
        self, key: str, attempt: int, cleared: _Cleared, limiter: trio.CapacityLimiter
    ) -> None:
        """Slot, intent, call, result. Afterwards the record says `finished` or `unknown`."""
        log, server, tool = self.scope.log, cleared.found.server, cleared.found.tool
        await self._credential(cleared)
        async with self._slot(server, limiter):
            intent = e.tool_started(
                key,
                attempt,
                tool=tool.name,
                server=tool.server,
                arguments=cleared.arguments,
                effect=cleared.effect,
                asks=cleared.asks,
                node=self.spec.name,
            )
            lost = self._interrupted(key)
            await log.save(
                *(e.tool_unknown(key, earlier, INTERRUPTED) for earlier in lost),
                intent,
                intents=[NewIntent(key, attempt, cleared.effect, intent.body)],
                settle=[SettleIntent(key, earlier, "unknown") for earlier in lost],
            )
            if cleared.effect == "once":
                await self._see_through(key, attempt, cleared)
            else:
                await self._send(key, attempt, cleared)

    @asynccontextmanager
    async def _slot(self, server: Server, limiter: trio.CapacityLimiter) -> AsyncIterator[None]:
        """A call's place. When a shutdown began while it was waited for, it is given back: those who stand
        behind must learn of it too."""
        while True:
            await self.scope.log.admit()
            async with limiter, server.slots:
                if not self.scope.services.pulse.draining.is_set():
                    yield
                    return

    def _interrupted(self, key: str) -> list[int]:
        """Attempts of an earlier life that this one takes the place of."""
        record = self.scope.log.run.calls.get(key)
        attempts = record.attempts if record is not None else {}
        return [attempt for attempt, state in attempts.items() if state == "started"]

    async def _credential(self, cleared: _Cleared) -> None:
        """A run that came with a token never calls a forwarding server without one."""
        while cleared.found.server.forwards_bearer and self.scope.log.run.token and not self._bearer():
            await self.scope.log.credential(cleared.found.server.name)

    def _bearer(self) -> str | None:
        log = self.scope.log
        return self.scope.services.tokens.get(log.state.id, log.run.mover)

    async def _see_through(self, key: str, attempt: int, cleared: _Cleared) -> None:
        """Send; when the run is cancelled meanwhile, still wait a while for the result and record it."""
        pulse = self.scope.services.pulse
        async with trio.open_nursery() as nursery:
            shield = trio.CancelScope(shield=True)

            async def bound_when_cancelled() -> None:
                try:
                    await trio.sleep_forever()
                finally:
                    grace = 0.0 if pulse.draining.is_set() else CANCEL_GRACE
                    shield.deadline = trio.current_time() + grace

            nursery.start_soon(bound_when_cancelled)
            with shield:
                await self._send(key, attempt, cleared)
            nursery.cancel_scope.cancel()
        # After a shutdown nothing is written: the next life finds the intent and asks.
        if shield.cancelled_caught and not pulse.draining.is_set():
            with trio.move_on_after(CANCEL_GRACE, shield=True):
                await self._record_unknown(key, attempt, "the run was cancelled before its result came")

    async def _send(self, key: str, attempt: int, cleared: _Cleared) -> None:
        server, tool = cleared.found.server, cleared.found.tool
        bearer = self._bearer() if server.forwards_bearer else None
        try:
            result = await server.ref.ask(CallTool(tool.name, cleared.arguments, bearer))
        except (ToolUnavailable, ActorUnavailable) as error:  # it never left, so nothing happened
            result = ToolResult(str(error), is_error=True)
        except (ToolOutcomeUnknown, ActorCrashed) as error:
            await self._record_unknown(key, attempt, str(error))
            return
        await self.scope.log.save(
            e.tool_finished(key, attempt, result.to_json()),
            settle=[SettleIntent(key, attempt, "finished")],
        )

    # ------------------------------------------------------- an unknown outcome

    async def _record_unknown(self, key: str, attempt: int, reason: str) -> None:
        await self.scope.log.save(
            e.tool_unknown(key, attempt, reason), settle=[SettleIntent(key, attempt, "unknown")]
        )

    async def _after_unknown(self, key: str, attempt: int, record: CallRecord) -> CallEnd | None:
        """What follows a call nobody knows the outcome of: the end, or None to send it once more."""
        started = record.started
        assert started is not None
        reason = record.reason
        if not started["asks"]:
            return CallEnd(f"The outcome is unknown: {reason}. The call was not repeated.", is_error=True)
        question = f"{key}?{attempt}"
        decision = await self.scope.log.decision(
            question,
            lambda: outcome_question(
                id=str(uuid.uuid4()),
                question=question,
                key=key,
                path=self.execute.path,
                output_key=self.spec.output_key,
                started=started,
                reason=reason,
                session_state=self.execute.session,
                user_message=self.scope.user,
            ),
        )
        if decision["action"] == "retry":
            return None
        return CallEnd(outcome_text(decision), is_error=decision["action"] == "failed")


def _not_found(name: str, found: NotFound) -> str:
    nearest = f" (nearest: {', '.join(found.nearest)})" if found.nearest else ""
    return f"tool not found: {name}{nearest}"
