"""Recording the end of an attempt of a call."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import trio

from ...runtime.journal.protocol import SettleIntent
from ..approvals.asked import Asked
from ..approvals.description import shortened
from ..approvals.proxy_approval import ProxyQuestion
from ..log.words import events as e
from ..log.writer.log import ConversationLog
from ..log.writer.void import save_and_void
from ..tools.delegation import is_remote
from ..tools.needs import NeedsDecisions, NeedsToken
from .elicitations import asked_at
from .lifecycle import is_heard_from_disk

CANCEL_GRACE = 5.0
"""Seconds that a `once` call gets for its result when its run is cancelled."""


async def save_ends(
    log: ConversationLog, *ends: e.ToolFinished | e.ToolUnknown, before: Sequence[e.LogEvent] = ()
) -> None:
    """Save the ends of attempts of one call.

    Void the elicitations of these attempts in the same commit, and the questions that a called agent no
    longer asks. The end of a `once` attempt is on disk when this returns.
    """
    key, attempts = ends[0].key, [end.attempt for end in ends]
    started = log.run.calls[key].started
    assert started is not None
    await save_and_void(
        log,
        *before,
        *ends,
        where=lambda asked: (
            any(asked_at(asked, key, attempt) for attempt in attempts)
            or any(_is_answered(asked, end) for end in ends)
        ),
        why=_why(ends[-1], started.server),
        settle=[
            SettleIntent(key, end.attempt, "unknown" if isinstance(end, e.ToolUnknown) else "finished")
            for end in ends
        ],
    )
    if is_heard_from_disk(started.effect):
        await log.flush()


async def save_cancelled(log: ConversationLog, end: e.ToolFinished | e.ToolUnknown) -> None:
    """Save the end of an attempt that was given up. If its end is on record, only the commit of that was
    cancelled."""
    with trio.CancelScope(shield=True):  # one commit, and no longer than the lease
        if log.run.calls[end.key].attempts[end.attempt] == "started":
            await save_ends(log, end)
        else:
            await log.flush()


def _is_answered(asked: Asked[Any], end: e.ToolFinished | e.ToolUnknown) -> bool:
    """Whether a question of the called agent is pending here, although the agent no longer asks it."""
    if not isinstance(asked, ProxyQuestion) or asked.key != end.key:
        return False
    match end:
        case e.ToolFinished(need=NeedsDecisions(items=items)):
            return asked.item.name not in {item.name for item in items}
        case e.ToolFinished(need=NeedsToken()):
            return False
        case _:
            return True


def _why(end: e.ToolFinished | e.ToolUnknown, server: str) -> str:
    match end:
        case e.ToolFinished(need=NeedsDecisions()):
            return "the agent no longer waits for the answer"
        case e.ToolFinished(result=result) if is_remote(server) and result.content:
            return f"the agent's task has ended: {shortened(result.content)}"
        case _:
            return "the call it was asked in is over"
