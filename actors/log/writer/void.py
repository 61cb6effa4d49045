"""Voiding approvals: in the commit that makes them pointless, for instance the end of the call that asked.

A human may decide while such a commit waits for its turn. The decision wins: the journal refuses the commit
with `QuestionTaken`, and it is tried again without that approval. The decision then has no effect on the run.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any

from ....runtime.journal.errors import QuestionTaken
from ....runtime.journal.protocol import SettleIntent
from ....runtime.journal.question import CloseQuestion
from ...approvals.asked import Asked
from ...approvals.kinds import Approval
from ...approvals.proxy_approval import ProxyQuestion
from ..fold.head import RunHead
from ..words import events as e
from .log import ConversationLog


async def save_and_void(
    log: ConversationLog,
    *events: e.LogEvent,
    where: Callable[[Asked[Any]], bool],
    why: str,
    settle: Sequence[SettleIntent] = (),
    when: Callable[[], bool] = lambda: True,
) -> bool:
    """Save events, and void the pending approvals for which `where` is true in the same commit.

    Returns False, with nothing written, if `when` is false by the time of the save.
    """
    decided: set[str] = set()
    while when():
        pending, approvals = log.state.head.pending, log.state.approvals
        void = [id for id in pending if id not in decided and where(approvals[id].asked)]
        others = [*(e.ApprovalVoid(id, why) for id in void), *_resumes(log)]
        unchanged = partial(_is_unchanged, log, void, log.state.head.run, when)
        if not others:
            if await log.save_soon(*events, settle=settle, when=unchanged):
                return True
            continue
        close = [closed(approvals[id], why) for id in void]
        try:
            if await log.save(*events, *others, settle=settle, questions=close, when=unchanged):
                return True
        except QuestionTaken:
            rows = [await log.journal.question(id) for id in void]
            decided |= {row.id for row in rows if row is not None and row.state == "decided"}
    return False


def closed(approval: Approval, why: str) -> CloseQuestion:
    """The row of a voided approval. For a question of another agent it holds the reason, because a person who
    decides it too late has to be told: often the question was decided at that agent."""
    patch = {"void_reason": why} if isinstance(approval.asked, ProxyQuestion) else {}
    return CloseQuestion(approval.id, "void", patch)


def replace(log: ConversationLog, old: str, new: Asked[Any]) -> Awaitable[bool]:
    """Void a pending approval and put a new one in its place, in one commit.

    Raises `QuestionTaken` if the old one has been decided meanwhile.
    """
    return log.save(
        e.ApprovalVoid(old, "the tool is not what was shown any more", superseded_by=new.id),
        e.ApprovalRequested(new),
        questions=[CloseQuestion(old, "void", {"superseded_by": new.id}), new.to_row()],
        when=partial(_pending, log, [old]),
    )


def _resumes(log: ConversationLog) -> Sequence[e.LogEvent]:
    """A `run.resumed` event if the run is recorded as waiting, so that the next start resumes it."""
    run = log.state.head.run
    if run is None or run.state == "running":
        return ()
    return (e.RunResumed(run.id, log.run.driving_command, log.run.token, answer=False),)


def _is_unchanged(
    log: ConversationLog, approvals: Sequence[str], run: RunHead | None, when: Callable[[], bool]
) -> bool:
    now = log.state.head.run
    return _pending(log, approvals) and (now and now.state) == (run and run.state) and when()


def _pending(log: ConversationLog, approvals: Sequence[str]) -> bool:
    """Whether these approvals are still pending: one may expire while a save waits for its turn."""
    return set(approvals) <= set(log.state.head.pending)
