"""The approvals of a call itself: whether to send it, and what its unknown outcome is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, assert_never

import attrs

from ...runtime.journal.errors import QuestionTaken
from ..approvals.asked import Asked
from ..approvals.outcome_approval import OutcomeQuestion
from ..approvals.requirement import Requirement
from ..approvals.tool_approval import ToolQuestion
from ..log.words import keys
from ..log.writer.void import replace
from ..run.scopes import CallScope
from ..tools.registry import Resolved
from ..tools.tool import Tool
from ..tools.verdict_facts import VerdictFacts
from .recorded import approvals_of
from .repeated import rejected_earlier
from .steps import Ask, AskOutcome, AwaitDecision, Replace


@attrs.frozen(eq=False)
class Questions:
    """Puts the questions about one call to humans, and waits until the answers are on record."""

    scope: CallScope
    key: str

    async def put(
        self,
        step: Ask | AskOutcome | Replace | AwaitDecision,
        found: Resolved | None,
        verdict: VerdictFacts | None,
    ) -> None:
        """Carry out a step. `found` is the tool to show, for `Ask` and `Replace`, and `verdict` why it is
        shown."""
        match step:
            case Ask(question):
                await self._decided(question, self._about_call(question, step, found, verdict))
            case AskOutcome(attempt):
                question = keys.outcome(self.key, attempt)
                await self._decided(question, self._about_outcome(question))
            case Replace(old=old):
                try:
                    await replace(
                        self.scope.log, old.id, self._about_call(step.question, step, found, verdict)
                    )
                except QuestionTaken:  # decided meanwhile: the decision is in the inbox
                    await self._decided(old.question)
            case AwaitDecision(question):
                await self._decided(question)
            case _:
                assert_never(step)

    async def _decided(self, question: str, asked: Asked[Any] | None = None) -> None:
        def ask() -> Asked[Any]:
            assert asked is not None, f"question {question} is on record"
            return asked

        await self.scope.log.decision(question, ask, self.scope.work_timers)

    def _about_call(
        self, question: str, step: Ask | Replace, found: Resolved | None, verdict: VerdictFacts | None
    ) -> ToolQuestion:
        assert found is not None
        return ToolQuestion.about(
            self.scope.occasion(question, self.key),
            tool=found.tool,
            facade=found.facade,
            arguments=step.arguments,
            rule=step.rule,
            requires=step.requires,
            replaces=step.replaces,
            rejected_before=self._rejected_before(found.tool, step.arguments),
            expires=self.scope.expires(),
            on_expiry=self.scope.policy_scope.policy.on_expiry,
            verdict=verdict,
            was_sent=self.scope.log.run.calls[self.key].started is not None,
        )

    def _rejected_before(self, tool: Tool, arguments: Mapping[str, Any]) -> str | None:
        return rejected_earlier(self.scope.log, tool.server, tool.name, arguments)

    def _about_outcome(self, question: str) -> OutcomeQuestion:
        record = self.scope.log.run.calls[self.key]
        assert record.started is not None
        occasion = self.scope.occasion(question, self.key)
        started = record.started
        return OutcomeQuestion.about(
            occasion,
            tool=started.tool,
            server=started.server,
            facade=started.facade,
            arguments=started.arguments,
            reason=record.reason,
            requires=self._requirement(),
        )

    def _requirement(self) -> Requirement | None:
        """That of the last approval of the call, because a retry sends the call again."""
        approvals = approvals_of(self.scope.log, self.key)
        return approvals[-1].requires if approvals else None
