"""Questions that have become pointless: taken back in the commit of what makes them so."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any

from ...runtime.journal.errors import QuestionTaken
from ...runtime.journal.protocol import CloseQuestion, SettleIntent
from ..approvals.asked import Asked
from ..approvals.kinds import Approval
from ..approvals.proxy_approval import ProxyQuestion
from . import events as e
from .head import RunHead
from .log import ConversationLog, row_of


async def save_over(
    log: ConversationLog,
    *events: e.LogEvent,
    asked: Callable[[Asked[Any]], bool],
    why: str,
    settle: Sequence[SettleIntent] = (),
) -> None:
    """Save what makes pending questions pointless, those that `asked` picks, and take them back:
    nobody waits for the answer any more. A human who was faster is heard, and nothing follows."""
    faster: set[str] = set()
    while True:
        pending, approvals = log.state.head.pending, log.state.approvals
        over = [id for id in pending if id not in faster and asked(approvals[id].asked)]
        others = [*(e.ApprovalVoid(id, why) for id in over), *_moves_on(log)]
        holds = partial(_still, log, over, log.state.head.run)
        if not others:
            if await log.save_soon(*events, settle=settle, when=holds):
                return
            continue
        close = [closed(approvals[id], why) for id in over]
        try:
            if await log.save(*events, *others, settle=settle, questions=close, when=holds):
                return
        except QuestionTaken:
            rows = [await log.journal.question(id) for id in over]
            faster |= {row.id for row in rows if row is not None and row.state == "decided"}


def closed(approval: Approval, why: str) -> CloseQuestion:
    """The row of an approval that is taken back. A person who decides a question of another agent
    too late is told the reason: often it was decided there."""
    patch = {"void_reason": why} if isinstance(approval.asked, ProxyQuestion) else {}
    return CloseQuestion(approval.id, "void", patch)


def replace(log: ConversationLog, old: str, new: Asked[Any]) -> Awaitable[bool]:
    """Take a pending question back and put another in its place, in one commit.

    Raises `QuestionTaken` when a human was faster.
    """
    return log.save(
        e.ApprovalVoid(old, "the tool is not what was shown any more", superseded_by=new.id),
        e.ApprovalRequested(new),
        questions=[CloseQuestion(old, "void", {"superseded_by": new.id}), row_of(new)],
        when=partial(_pending, log, [old]),
    )


def _moves_on(log: ConversationLog) -> Sequence[e.LogEvent]:
    """A run that was just said to wait, and goes on by itself, is one to resume at the next start."""
    run = log.state.head.run
    if run is None or run.state == "running":
        return ()
    return (e.RunResumed(run.id, log.run.mover, log.run.token, answer=False),)


def _still(log: ConversationLog, asked: Sequence[str], run: RunHead | None) -> bool:
    now = log.state.head.run
    return _pending(log, asked) and (now and now.state) == (run and run.state)


def _pending(log: ConversationLog, asked: Sequence[str]) -> bool:
    """Whether these questions are still open: while a save waits for its turn, one may expire."""
    return set(asked) <= set(log.state.head.pending)
