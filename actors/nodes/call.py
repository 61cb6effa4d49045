"""One tool call of a model's reply, through the gate and to its end.

The gate is looked at first and once more after every answer, just before the intent is written; what a
human said stands on record, so a replay neither asks twice nor forgets a no.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import attrs

from ...config.nodes import LlmNode
from ...runtime.journal.errors import QuestionTaken
from ...runtime.journal.protocol import SettleIntent
from ..gate.approvals import tool_question
from ..gate.gate import Place, effect_class, offered, stricter
from ..gate.off_loop import judge_off_loop
from ..log import events as e
from ..log.head import is_rejection
from ..log.log import ConversationLog
from ..log.void import replace, save_over
from ..models.messages import ToolCall
from ..tools.arguments import Unfit
from ..tools.registry import NotFound, Resolve, Resolved, Unusable
from ..tools.slots import Slots
from .effect import INTERRUPTED, Cleared, Effect, interrupted
from .node import Execute, NodeFailed, RunScope, expiry, occasion
from .turn_to_ask import TurnToAsk

EXIT_LOOP = "exit_loop"


@attrs.frozen
class CallEnd:
    """What the model is told of a call."""

    content: str
    is_error: bool
    arguments: Mapping[str, Any]
    rejected: bool = False
    """A human said no, or nobody said anything in time."""
    expired: bool = False
    inner: bool = False
    """The arguments are those of a tool behind the one that the model called."""


def end_of(log: ConversationLog, key: str) -> CallEnd | None:
    """How a call ended, by the record; None while it has not."""
    record = log.run.calls.get(key)
    if record is None:
        return None
    view = log.state.messages[record.message].call
    assert view is not None
    over = view.state in ("finished", "denied", "rejected", "expired") or (
        view.state == "unknown" and record.started is not None and not record.started["asks"]
    )
    if not over or view.result is None:
        return None
    return CallEnd(
        view.result,
        bool(view.is_error),
        view.arguments,
        rejected=view.state in ("rejected", "expired"),
        expired=view.state == "expired",
        inner=view.facade is not None,
    )


@attrs.frozen(eq=False)
class Settler:
    """Brings one tool call of a reply to its end; `limiter` is how many of the reply are sent at a time."""

    scope: RunScope
    spec: LlmNode
    execute: Execute
    place: Place
    limiter: Slots
    turn: TurnToAsk

    async def settle(self, key: str, call: ToolCall) -> CallEnd:
        """How the call ends; what a tool or a human does is a result for the model.

        Raises `NodeFailed` for a limit, and for an approval that expired and fails the run.
        """
        log = self.scope.log
        if (end := end_of(log, key)) is None:
            if call.problem is not None:
                await self._unsent(key, "invalid", _invalid(call.problem))
            elif call.name == EXIT_LOOP and self.spec.can_exit_loop:
                await self._unsent(key, "exit_loop", "The loop ends.")
            else:
                await self._carry_out(key, call)
            end = end_of(log, key)
        assert end is not None
        self.turn.leave()  # an error instead stops the other calls, too
        if end.expired and self._is_failure(key):
            text = f'nobody approved the call of "{call.name}" in time'
            raise NodeFailed("approval_expired", text, fatal=True)
        return end

    def _is_failure(self, key: str) -> bool:
        """Whether an approval that expired is more than a rejection of the call it was about."""
        log = self.scope.log
        return any(
            decision.get("on_expiry") == "fail" and log.state.approvals[id].body["key"] == key
            for id, decision in log.run.decisions.items()
        )

    async def _carry_out(self, key: str, call: ToolCall) -> None:
        effect = Effect(self.scope, self.spec, self.execute, self.place, self.limiter, self.turn)
        record = self.scope.log.run.calls.get(key)  # None: its reply gets on disk with the first save below
        if record is not None and record.started is not None:
            if not await effect.settle_interrupted(key, record):
                return
            cleared = await self._clear(key, call, record.started)
        else:
            cleared = await self._clear(key, call)
            if cleared is not None:
                self._bound()
        self.turn.leave()
        while cleared is not None and await effect.perform(key, cleared):
            started = self.scope.log.run.calls[key].started
            assert started is not None
            cleared = await self._clear(key, call, started)

    def _bound(self) -> None:
        limit = self.scope.services.config.limits.max_tool_calls
        if not self.scope.log.take("tool_calls", limit):
            text = f"the run stopped after {limit} tool calls (limits.max_tool_calls)"
            raise NodeFailed("limit_reached", text, fatal=True)

    # ------------------------------------------------------------------ the gate

    async def _clear(self, key: str, call: ToolCall, sent: Mapping[str, Any] | None = None) -> Cleared | None:
        """Pass the gate: ask as often as it takes. None when the call has ended here.

        `sent` is the intent of an earlier attempt. What was said of that stands, but what has become stricter
        since counts.
        """
        log = self.scope.log
        arguments, asked, met = call.arguments if sent is None else sent["arguments"], 0, set[str]()
        replaces: str | None = None
        answered: str | None = None
        while True:
            question = f"{key}~{asked}"
            id = log.run.asked.get(question)
            found = await self._find(key, call, id or replaces or answered, sent)
            if found is None:
                return None
            if id is not None:
                arguments = log.state.approvals[id].body["tool_args"]
            elif not asked and sent is None:
                fit = await self.scope.services.arguments.fit(found.tool, found.arguments)
                if isinstance(fit, Unfit):
                    await self._unsent(key, "invalid", _invalid("; ".join(fit.mistakes)))
                    return None
                arguments = fit
            verdict = await judge_off_loop(found.tool, arguments, self.place, self.scope.searching)
            if id is not None and log.state.approvals[id].state == "void":
                asked, replaces = asked + 1, id
                continue
            if id is None:
                if verdict.action == "deny":
                    done = "Nothing was done" if sent is None else "It was not sent again"
                    await self._unsent(key, "denied", f"Denied by policy: {verdict.rule}. {done}.")
                    return None
                passes = verdict.action == "run" or verdict.rule in met
                if sent is not None and self._retried(key):
                    # Of the tool that was called; an approval of the call has a check of its own, below.
                    passes = bool(met) or sent.get("fingerprint") in (None, found.tool.fingerprint)
                cleared = self._cleared(found, arguments, sent, approved=bool(met))
                lost = interrupted(log, key)
                if replaces is None and passes and not (lost and cleared.effect == "once"):
                    return cleared
                if lost:
                    # It left unasked and may have happened: nobody can be asked whether it may, nor is it one
                    # to repeat unasked.
                    await self._leave(key, lost)
                    return None
            # An edit that meets another rule is asked about in place of what was approved.
            earlier = replaces or answered
            ask = partial(self._question, key, question, found, arguments, verdict.rule, earlier)
            if id is not None and await self._replaced(key, asked, id, found, arguments, verdict.rule):
                asked, replaces = asked + 1, id
                continue
            if id is None:
                await self.turn.come()
            self.turn.leave()
            decision = await log.decision(question, ask, self.execute.meters)
            if "expired" in decision or is_rejection(decision):
                return None
            id = answered = log.run.asked[question]
            arguments = decision.get("arguments", arguments)
            met |= {log.state.approvals[id].body["rule"], verdict.rule}
            asked += 1
            again = await self._look_up(call, id, sent)
            replaces = id if isinstance(again, Resolved) and self._changed(again, id) else None

    async def _resolve(self, wanted: Resolve, server: str | None) -> Resolved | NotFound | Unusable:
        """What the registry says; `server` is whose tool it is, if that is known.

        After a restart, a server that lists its tools to nobody without a token has none: then it is waited
        for, for the tool was there when the call was made.
        """
        services, log = self.scope.services, self.scope.log
        while True:
            found = await services.registry.ask(wanted)
            if not isinstance(found, NotFound):
                return found
            self.turn.leave()
            bearer = services.tokens.get(log.state.id, log.run.mover)
            if await services.authorization.present(bearer):
                continue
            token = services.authorization.wanted(None if server is None else [server])
            if token is None or (server is None and (bearer is not None or not log.run.token)):
                return found
            await log.credential(token, self.execute.meters)

    async def _look_up(
        self, call: ToolCall, approval: str | None, sent: Mapping[str, Any] | None
    ) -> Resolved | NotFound | Unusable:
        """What the model calls; if somebody was asked, or it was sent, first the tool that was meant then, by
        whatever name: the one that the model knew may lead nowhere now, or elsewhere."""
        if approval is not None:
            body = self.scope.log.state.approvals[approval].body
            meant = Resolve(body["tool_name"], body["tool_args"], body["server"])
        elif sent is not None:
            body, meant = sent, Resolve(sent["tool"], sent["arguments"], sent["server"])
        else:
            return await self._resolve(Resolve(call.name, call.arguments), None)
        found = await self._resolve(meant, meant.server)
        if isinstance(found, Resolved):
            return attrs.evolve(found, facade=body.get("facade"))
        if sent is not None:  # to one server: what another calls by that name is another call
            return found
        return await self._resolve(Resolve(call.name, call.arguments), meant.server)

    async def _find(
        self, key: str, call: ToolCall, approval: str | None, sent: Mapping[str, Any] | None
    ) -> Resolved | None:
        """The same; None when that is nothing, which ends the call."""
        found = await self._look_up(call, approval, sent)
        if isinstance(found, Unusable):
            await self._unsent(key, "invalid", _invalid(found.problem))
            return None
        if isinstance(found, Resolved):
            if offered(found.tool, self.place):
                return found
            found = NotFound(call.name)
        await self._unsent(key, "not_found", str(found))
        return None

    def _cleared(
        self,
        found: Resolved,
        arguments: Mapping[str, Any],
        sent: Mapping[str, Any] | None,
        *,
        approved: bool,
    ) -> Cleared:
        effect = effect_class(found.tool, approved=approved)
        asks = effect == "once" and (approved or bool(found.tool.hints.destructive))
        if sent is not None:
            effect = stricter(effect, sent["effect"])
            asks = asks or sent["asks"]
        return Cleared(found, arguments, effect, asks)

    def _retried(self, key: str) -> bool:
        """A human wants it sent again, which is a yes."""
        run = self.scope.log.run
        asked = (run.asked.get(f"{key}?{attempt}", "") for attempt in run.calls[key].attempts)
        return any(run.decisions.get(id, {}).get("action") == "retry" for id in asked)

    def _changed(self, found: Resolved, approval: str) -> bool:
        """Whether the tool is not any more what the human was shown."""
        shown = self.scope.log.state.approvals[approval].body["tool_fingerprint"]
        return bool(found.tool.fingerprint != shown)

    async def _replaced(
        self, key: str, asked: int, id: str, found: Resolved, arguments: Mapping[str, Any], rule: str
    ) -> bool:
        """Ask anew what is still being asked about a tool that has changed. False: nothing of that kind."""
        log = self.scope.log
        if id in log.run.decisions or not self._changed(found, id):
            return False
        try:
            replacement = self._question(key, f"{key}~{asked + 1}", found, arguments, rule, id)
            return await replace(log, id, replacement)
        except QuestionTaken:
            return False

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
            occasion(self.scope, self.spec, self.execute, question, key),
            tool=found.tool,
            facade=found.facade,
            arguments=arguments,
            rule=rule,
            replaces=replaces,
            expires=expiry(self.scope, self.place),
            on_expiry=self.place.policy.on_expiry,
        )

    async def _leave(self, key: str, lost: Sequence[int]) -> None:
        """End a call that nobody knows the outcome of."""
        await self.scope.log.save_soon(
            *(e.tool_unknown(key, attempt, INTERRUPTED) for attempt in lost),
            settle=[SettleIntent(key, attempt, "unknown") for attempt in lost],
        )

    async def _unsent(self, key: str, outcome: str, content: str) -> None:
        fingerprint = f"call {self.spec.name}"
        lost = interrupted(self.scope.log, key)
        await save_over(
            self.scope.log,
            *(e.tool_unknown(key, attempt, INTERRUPTED) for attempt in lost),
            e.step_finished(key, "call", self.spec.name, fingerprint, outcome=outcome, content=content),
            asked=lambda body: body["key"] == key,
            why="the call it was about has ended",
            settle=[SettleIntent(key, attempt, "unknown") for attempt in lost],
        )


def _invalid(problem: str) -> str:
    return f"Invalid arguments: {problem}. Nothing was done."
