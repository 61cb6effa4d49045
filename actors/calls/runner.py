"""Carries out one tool call of a model's reply, by the steps that `lifecycle` decides.

The gate judges the call at first, and again after every answer, right before its intent is written. Decisions
are on record, so a replay does not ask twice and does not lose a rejection.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import assert_never

import attrs

from ...runtime.journal.protocol import SettleIntent
from ..approvals.decided import Expired
from ..common.errors import NodeFailed
from ..gate.halt import RULE, Halt
from ..log.fold.record import CallOutcome
from ..log.words import events as e
from ..log.words.outcomes import NotSent
from ..log.writer.log import ConversationLog
from ..log.writer.void import save_and_void
from ..models.messages.messages import ToolCall
from ..run.scopes import CallScope
from ..tools.registry import Resolved
from ..tools.verdict_facts import VerdictFacts
from .ask_order import AskPosition
from .call_end import save_ends
from .call_judge import CallJudge, invalid
from .dispatch import Dispatch
from .elicitations import ElicitationAsker
from .facts import Judgement, LocalState, Missing
from .lifecycle import INTERRUPTED, next_step
from .proxies import ProxyQuestions
from .questions import Questions
from .recorded import approvals_of, record_of
from .repeated import repetition
from .steps import (
    Ask,
    AskOutcome,
    AwaitAnswers,
    AwaitCredential,
    AwaitDecision,
    AwaitRemote,
    End,
    Judge,
    LookUp,
    Park,
    RecordUnknown,
    Replace,
    Send,
)
from .verdicts import facts_of, facts_of_unsent

EXIT_LOOP = "exit_loop"


@attrs.frozen
class CallEnd:
    """The end of a call, as the model gets it."""

    content: str
    is_error: bool
    rejected: bool = False
    """A human rejected it, or its approval expired."""
    expired: bool = False

    @property
    def outcome(self) -> CallOutcome:
        if self.rejected:
            return "rejected"
        return "failed" if self.is_error else "succeeded"


def end_of(log: ConversationLog, key: str) -> CallEnd | None:
    """The recorded end of a call; None if it has not ended."""
    record = log.run.calls[key]
    view = log.state.messages[record.message].call
    assert view is not None
    is_unknown = view.state == "unknown" and record.started is not None and not record.started.asks
    if not (is_unknown or log.state.has_ended(record)):
        return None
    assert view.result is not None
    return CallEnd(
        view.result,
        bool(view.is_error),
        rejected=record.rejected or view.state in ("rejected", "expired") or record.repeats is not None,
        expired=view.state == "expired",
    )


@attrs.frozen(eq=False)
class CallRunner:
    scope: CallScope
    dispatch: Dispatch
    position: AskPosition

    async def run(self, key: str, call: ToolCall) -> CallEnd:
        """Carry out the call and return its end. A tool's error or a human's rejection is a result, too.

        Raises `NodeFailed` if a limit is reached, or if an approval expires whose `on_expiry` is `fail`.
        """
        log = self.scope.log
        if (end := end_of(log, key)) is None:
            if call.problem is not None:
                problem = invalid(call.problem)
                verdict = facts_of_unsent(None, self.scope.run.policy)
                await self._unsent(key, NotSent(problem.outcome, problem.content, verdict=verdict))
            elif call.name == EXIT_LOOP and self.scope.can_exit_loop:
                await self._unsent(key, NotSent("exit_loop", "The loop ends."))
            else:
                await self._carry_out(key, call)
            end = end_of(log, key)
        assert end is not None
        self.position.leave()  # not needed after an error, which cancels the other calls
        if end.expired and self._is_failure(key):
            text = f'the call of "{call.name}" was not approved in time'
            raise NodeFailed("approval_expired", text, fatal=True)
        return end

    def _is_failure(self, key: str) -> bool:
        """Whether the approval that expired fails the run, and does not only reject the call."""
        log = self.scope.log
        return any(
            isinstance(decision, Expired) and decision.fails and log.state.approvals[id].asked.key == key
            for id, decision in log.run.decisions.items()
        )

    async def _carry_out(self, key: str, call: ToolCall) -> None:
        """Carry out the steps of `next_step` until the call has ended."""
        scope, log = self.scope, self.scope.log
        judge = CallJudge(scope, key, call, self.position)
        found: Resolved | None = None
        judgement: Judgement | Missing | None = None
        resends: int | None = None
        while True:
            record, approvals = record_of(log, key, scope.token(key)), approvals_of(log, key)
            local = LocalState(resends, scope.draining.is_set(), scope.services.halts.latest)
            match next_step(key, record, judgement, approvals, local):
                case Judge():
                    found, judgement = await judge.judge(approvals, record.sent)
                    now = record_of(log, key, scope.token(key)), approvals_of(log, key)
                    if (record, approvals) == now:
                        continue
                case Send() as send:
                    if await self._send(key, send, found, judgement, local.halt):
                        resends = send.resends
                case LookUp() as look_up:
                    assert found is not None
                    self.position.leave()
                    await self.dispatch.look_up(key, look_up, found, local.halt)
                case End(outcome, content, lost):
                    if outcome is not None:
                        verdict = None if judgement is None else facts_of_unsent(judgement, scope.run.policy)
                        await self._unsent(key, NotSent(outcome, content, verdict=verdict), lost)
                    return
                case step:
                    await self._perform(key, step, found, judgement)
            judgement = None

    async def _send(
        self,
        key: str,
        send: Send,
        found: Resolved | None,
        judgement: Judgement | Missing | None,
        halt: Halt,
    ) -> bool:
        """Make an attempt. False if it was not made, so that the next step has to be decided anew."""
        assert found is not None
        assert isinstance(judgement, Judgement)
        limit = self.scope.services.config.limits.max_tool_calls
        if send.is_first and not self.scope.log.take("tool_calls", limit):
            text = f"the run stopped after {limit} tool calls (limits.max_tool_calls)"
            raise NodeFailed("limit_reached", text, fatal=True)
        self.position.leave()
        made = await self.dispatch.send(key, send, found, facts_of(judgement, self.scope.run.policy), halt)
        if send.is_first and not made:
            self.scope.log.give_back("tool_calls")
        return made

    async def _perform(
        self,
        key: str,
        step: Ask
        | AskOutcome
        | Replace
        | AwaitDecision
        | AwaitCredential
        | AwaitAnswers
        | AwaitRemote
        | RecordUnknown
        | Park,
        found: Resolved | None,
        judgement: Judgement | Missing | None,
    ) -> None:
        scope, log = self.scope, self.scope.log
        if isinstance(step, Ask | AskOutcome):
            await self.position.come()
            await log.confirm()  # here, because no checkpoint may come between the position and the question
        if not isinstance(step, RecordUnknown):  # the next step after `RecordUnknown` may ask
            self.position.leave()
        match step:
            case Ask() if found is not None and (again := self._repetition(key, step, found)) is not None:
                verdict = facts_of_unsent(judgement, scope.run.policy)
                await self._unsent(key, attrs.evolve(again, verdict=verdict))
            case Ask() | AskOutcome() | Replace() | AwaitDecision():
                await Questions(scope, key).put(step, found, self._why(step, judgement))
            case AwaitCredential(wanted):
                await log.branches.credential(wanted, scope.work_timers)
            case AwaitAnswers():
                await ElicitationAsker(scope).answers(key)
            case AwaitRemote():
                await ProxyQuestions(scope, key).put_and_wait()
            case RecordUnknown(attempts):
                await save_ends(log, *(e.ToolUnknown(key, each, INTERRUPTED) for each in attempts))
            case Park():
                await log.admit(scope.work_timers)
            case _:
                assert_never(step)

    def _why(
        self, step: Ask | AskOutcome | Replace | AwaitDecision, judgement: Judgement | Missing | None
    ) -> VerdictFacts | None:
        """The facts of the verdict that causes a question; None for a question about something else."""
        if not isinstance(step, Ask | Replace):
            return None
        assert isinstance(judgement, Judgement)
        return facts_of(judgement, self.scope.run.policy, held=step.rule == RULE)

    def _repetition(self, key: str, step: Ask, found: Resolved) -> NotSent | None:
        """The answer to a call that a person has rejected before; None for another call.

        Raises `NodeFailed` if the model has had this answer.
        """
        tool = found.tool
        again = repetition(self.scope.log, key, tool.server, tool.name, step.arguments)
        if again is None:
            return None
        if again.is_told:
            text = f'the model repeats a call of "{tool.name}" that a person has rejected'
            raise NodeFailed("rejected_again", text, fatal=True)
        return NotSent("denied", again.text, again.of)

    async def _unsent(self, key: str, not_sent: NotSent, lost: Sequence[int] = ()) -> None:
        """Record the end of a call that is not sent, or not sent again."""
        await save_and_void(
            self.scope.log,
            *(e.ToolUnknown(key, attempt, INTERRUPTED) for attempt in lost),
            e.StepFinished.of(key, "call", self.scope.spec.name, not_sent),
            where=lambda asked: asked.key == key,
            why="the call it was about has ended",
            settle=[SettleIntent(key, attempt, "unknown") for attempt in lost],
        )
