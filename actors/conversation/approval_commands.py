"""Executes the commands about approvals: decisions, votes, expiries and withdrawals."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import assert_never

import attrs

from ...runtime.journal.errors import QuestionTaken, Reading
from ...runtime.journal.protocol import Json
from ...runtime.journal.question import CloseQuestion
from ..common.errors import ErrorCode
from ..log import events as e
from ..log.head import RunState
from ..log.inbox import AddVote, Decide, Expire, Received, Withdraw
from ..log.log import ConversationLog
from ..log.void import closed
from ..nodes.services import Services
from .result import reply_of, vote_recorded

_VOID = "the approval is void: its run has ended"


@attrs.frozen(eq=False)
class ApprovalCommands:
    _log: ConversationLog
    _services: Services
    _refuse: Callable[[Received, ErrorCode, str], Awaitable[None]]
    _recorded: set[str] = attrs.field(factory=set)
    """The votes of this activation that are on record. A task may have read the inbox before that."""

    async def carry_out(self, received: Received, command: Decide | AddVote | Expire | Withdraw) -> None:
        match command:
            case Decide() as decide:
                await self._decide(received, decide)
            case AddVote() as vote:
                await self._vote(received, vote)
            case Expire(question):
                await self._expire(received, question)
            case Withdraw(question, reason):
                await self._withdraw(received, question, reason)
            case _:
                assert_never(command)

    async def _decide(self, received: Received, decide: Decide) -> None:
        id, decision = decide.question, decide.decision
        with Reading(received.stream, f"command {received.key}"):
            self._log.state.approvals[id].asked.check_kind(decision)
        resolved = e.ApprovalResolved(
            id, decision, received.key, decision.token, subject=decide.subject, voters=decide.voters
        )
        if await self._settle(id, e.Dated(resolved, received.at), received.key, decision.token):
            return
        if self._log.state.approvals[id].state != "decided":  # `_take_decisions` may have applied it
            await self._refuse(received, "void", _VOID)

    async def _vote(self, received: Received, vote: AddVote) -> None:
        log, key, id = self._log, received.key, vote.question
        with Reading(received.stream, f"command {key}"):
            log.state.approvals[id].asked.check_kind(vote.decision)
        self._services.tokens.drop(received.stream, [key])
        voted = e.ApprovalVoted(
            id,
            vote.voters[-1],
            subject=vote.subject,
            voters=vote.voters,
            needed=vote.needed,
            decision=vote.decision,
            command=key,
        )
        reply = reply_of(vote_recorded(log.state.head, len(vote.voters), vote.needed))
        saved = await log.save(
            e.Dated(voted, received.at),
            ack=[key],
            replies={key: reply},
            when=lambda: key not in self._recorded and id in log.state.head.pending,
        )
        if saved:
            self._recorded.add(key)
        elif key not in self._recorded:
            await self._refuse(received, "void", _VOID)

    async def _expire(self, received: Received, id: str) -> None:
        expired = e.ApprovalExpired(id, self._log.state.approvals[id].asked.on_expiry)
        try:
            if await self._settle(id, expired, received.key, False, [CloseQuestion(id, "expired")]):
                return
        except QuestionTaken:
            pass  # decided in time: the decision is in the inbox
        await self._log.save(ack=[received.key])

    async def _withdraw(self, received: Received, id: str, reason: str) -> None:
        approval, replies = self._log.state.approvals[id], {received.key: reply_of(None)}
        try:
            void, row = e.ApprovalVoid(id, reason), closed(approval, reason)
            if await self._settle(id, void, received.key, False, [row], replies):
                return
        except QuestionTaken:
            pass  # decided meanwhile: the other agent has to accept or refuse the decision
        await self._log.save(ack=[received.key], replies=replies)

    async def _settle(
        self,
        id: str,
        event: e.LogEvent | e.Dated,
        command: str,
        token: bool,
        questions: Sequence[CloseQuestion] = (),
        replies: Mapping[str, Json] | None = None,
    ) -> bool:
        """Record the end of an approval, and resume its run. False if the approval is not pending."""
        log = self._log
        while id in log.state.head.pending:
            run = log.state.head.run
            assert run is not None
            events: list[e.LogEvent | e.Dated] = [event]
            if run.state != "running":
                events.append(e.RunResumed(run.id, command, token, answer=False))

            def unchanged(state: RunState = run.state) -> bool:
                now = log.state.head
                return id in now.pending and now.run is not None and now.run.state == state

            # The run may start to wait, or end, while this save waits for its turn.
            saved = await log.save(
                *events, questions=questions, ack=[command], replies=replies, when=unchanged
            )
            if saved:
                return True
        return False
