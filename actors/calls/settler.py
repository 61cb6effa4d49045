"""Brings one tool call of a model's reply to its end, by the steps that `lifecycle` says.

The call is judged first and once more after every answer, just before its intent is written. The answers of
people are on record, so a replay neither asks twice nor forgets a no.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, assert_never

import attrs

from ...runtime.journal.errors import QuestionTaken
from ...runtime.journal.protocol import SettleIntent
from ..common.errors import NodeFailed
from ..gate.approvals import outcome_question, tool_question
from ..log import events as e
from ..log.log import ConversationLog
from ..log.void import replace, save_over
from ..models.messages import ToolCall
from ..tools.registry import Resolved
from .call_scope import CallScope
from .dispatch import Dispatch
from .facts import Judgement, Life, Missing
from .inquiries import Asking, asked_at
from .lifecycle import INTERRUPTED, next_step, outcome_key
from .lookup import Lookup, invalid
from .recorded import approvals_of, record_of
from .steps import (
    Ask,
    AskOutcome,
    AwaitAnswers,
    AwaitCredential,
    AwaitDecision,
    End,
    Judge,
    Park,
    Replace,
    Send,
    Unknown,
)
from .turn_to_ask import TurnToAsk

EXIT_LOOP = "exit_loop"


@attrs.frozen
class CallEnd:
    """What the model is told of a call."""

    content: str
    is_error: bool
    arguments: Mapping[str, Any]
    rejected: bool = False
    """A person rejected it, or did not decide in time."""
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
    scope: CallScope
    dispatch: Dispatch
    turn: TurnToAsk

    async def settle(self, key: str, call: ToolCall) -> CallEnd:
        """How the call ends; what a tool or a human does is a result for the model.

        Raises `NodeFailed` for a limit, and for an approval that expired and fails the run.
        """
        log = self.scope.log
        if (end := end_of(log, key)) is None:
            if call.problem is not None:
                problem = invalid(call.problem)
                await self._unsent(key, problem.outcome, problem.content)
            elif call.name == EXIT_LOOP and self.scope.can_exit_loop:
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
        """Do what `next_step` says, step by step, until the call is over."""
        scope, log = self.scope, self.scope.log
        lookup = Lookup(scope, call, self.turn)
        found: Resolved | None = None
        judgement: Judgement | Missing | None = None
        resends = 0
        while True:
            record, approvals = record_of(log, key, scope.bearer), approvals_of(log, key)
            life = Life(resends, scope.draining.is_set())
            step = next_step(key, record, judgement, approvals, life)
            if isinstance(step, Judge):
                found, judgement = await lookup.judge(approvals, record.sent)
                continue
            judgement = None
            if not isinstance(step, Ask | AskOutcome | Unknown):
                self.turn.leave()  # it does not ask now: later calls need not wait for it
            match step:
                case Ask():
                    assert found is not None
                    await self._ask(key, step, found)
                case Replace():
                    assert found is not None
                    await self._replace(key, step, found)
                case AskOutcome(attempt):
                    await self._ask_outcome(key, attempt)
                case AwaitDecision(question):
                    await self._decision(question)
                case AwaitCredential(wanted):
                    await log.credential(wanted, scope.meters)
                case AwaitAnswers():
                    await Asking(scope).answers(key)
                case Send():
                    assert found is not None
                    self._bound(step)
                    await self.dispatch.send(key, step, found)
                    resends = step.resends
                case Unknown(attempts):
                    await self._unknown(key, attempts)
                case Park():
                    await log.admit(scope.meters)
                case End(outcome, content, lost):
                    if outcome is not None:
                        await self._unsent(key, outcome, content, lost)
                    return
                case _:
                    assert_never(step)

    def _bound(self, send: Send) -> None:
        limit = self.scope.max_calls
        if send.is_first and not self.scope.log.take("tool_calls", limit):
            text = f"the run stopped after {limit} tool calls (limits.max_tool_calls)"
            raise NodeFailed("limit_reached", text, fatal=True)

    # ------------------------------------------------------------------ questions

    async def _ask(self, key: str, step: Ask, found: Resolved) -> None:
        body = partial(self._question, key, step.question, found, step.arguments, step.rule, step.replaces)
        await self.turn.come()
        self.turn.leave()
        await self.scope.log.decision(step.question, body, self.scope.meters)

    async def _ask_outcome(self, key: str, attempt: int) -> None:
        scope, record = self.scope, self.scope.log.run.calls[key]
        question, started = outcome_key(key, attempt), record.started
        assert started is not None
        await self.turn.come()
        self.turn.leave()
        await scope.log.decision(
            question,
            lambda: outcome_question(scope.occasion(question, key), started=started, reason=record.reason),
            scope.meters,
        )

    async def _decision(self, question: str) -> None:
        def asked() -> Mapping[str, Any]:
            raise LookupError(f"question {question} was put before")

        await self.scope.log.decision(question, asked, self.scope.meters)

    async def _replace(self, key: str, step: Replace, found: Resolved) -> None:
        old = step.old
        body = self._question(key, step.question, found, old.shown, step.rule, old.id)
        try:
            await replace(self.scope.log, old.id, body)
        except QuestionTaken:  # a person was faster; the decision is on its way
            await self._decision(old.question)

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
            self.scope.occasion(question, key),
            tool=found.tool,
            facade=found.facade,
            arguments=arguments,
            rule=rule,
            replaces=replaces,
            expires=self.scope.expires(),
            on_expiry=self.scope.place.policy.on_expiry,
        )

    # ----------------------------------------------------------------------- ends

    async def _unknown(self, key: str, attempts: Sequence[int]) -> None:
        """Record that nobody knows what became of attempts of an earlier life. What the server still asked in
        the middle of them is void."""
        await save_over(
            self.scope.log,
            *(e.tool_unknown(key, attempt, INTERRUPTED) for attempt in attempts),
            asked=lambda body: any(asked_at(body, key, attempt) for attempt in attempts),
            why="the call it was asked in is over",
            settle=[SettleIntent(key, attempt, "unknown") for attempt in attempts],
        )
        await self.scope.log.flush()

    async def _unsent(self, key: str, outcome: str, content: str, lost: Sequence[int] = ()) -> None:
        """Record that the call ends without being sent (again)."""
        node = self.scope.node
        await save_over(
            self.scope.log,
            *(e.tool_unknown(key, attempt, INTERRUPTED) for attempt in lost),
            e.step_finished(key, "call", node, f"call {node}", outcome=outcome, content=content),
            asked=lambda body: body["key"] == key,
            why="the call it was about has ended",
            settle=[SettleIntent(key, attempt, "unknown") for attempt in lost],
        )
