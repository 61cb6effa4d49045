"""One run: executes the tree over the log, pauses while it is blocked, and ends in one commit.

The tree is always executed from its root. Steps that are on record are not done again, so a run that was
interrupted continues where its record ends.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from typing import Any, assert_never

import attrs

from ...config.sections.nodes import Node
from ...config.sections.placeholders import keys_left
from ...config.text.errors import ConfigError
from ...runtime.context import Context
from ...runtime.errors import ActorCrashed
from ...runtime.journal.errors import JournalError
from ...runtime.journal.patience import until_available
from ...runtime.journal.protocol import SettleIntent
from ..common.errors import NodeFailed
from ..log.fold.head import RunHead, fold_head
from ..log.fold.record import Run
from ..log.fold.state import answer_of
from ..log.words import events as e
from ..log.words import keys
from ..log.words.outcomes import NodeEnd
from ..log.writer.log import ConversationLog
from ..log.writer.step import ReplayMismatch
from ..log.writer.void import closed
from ..nodes.behaviours import node
from ..nodes.child import run_root
from ..run.scopes import Execute, RunScope
from ..run.services import Services
from ..tools.needs import Wanted
from . import result as results
from .result import Result, reply_of

logger = logging.getLogger(__name__)


RUN_ENDED = "the run has ended"


@attrs.frozen
class Failure:
    code: str
    message: str


async def execute(ctx: Context[Any], log: ConversationLog, services: Services) -> str | Failure:
    """Execute the live run's tree, and return its answer or its failure.

    Raises `JournalError` if the log cannot be written any more; then the run has no outcome.
    """
    tree = _tree(log, services)
    if isinstance(tree, Failure):
        return tree
    run = log.run
    policy = await services.policies.of(run.started.tree_id, tree, log.state.trees[run.started.tree_id])
    turn, earlier = run.started.turn, tuple(log.state.turns)
    scope = RunScope(services, log, turn, run.text, earlier, node, policy, frozenset(keys_left(tree)))
    root = Execute(keys.root(run.started.turn), (), {}, services.policy_scope)
    await services.authorization.present(services.tokens.get(log.state.id, run.driving_command))
    try:
        return (await _within_limit(ctx, scope, tree, root)).text
    except NodeFailed as error:
        return Failure(error.failure, str(error))
    except (ActorCrashed, ReplayMismatch) as error:
        return _crash(error)


async def _within_limit(ctx: Context[Any], scope: RunScope, tree: Node, root: Execute) -> NodeEnd:
    limit = scope.services.config.limits.timeout
    if limit is None:
        return await run_root(ctx, scope, tree, root)
    with scope.log.limit_work_time("run", limit) as work_timer:
        return await run_root(ctx, scope, tree, attrs.evolve(root, work_timers=(work_timer,)))
    raise NodeFailed("limit_reached", f"the run took longer than {limit:g} s of work (limits.timeout)")


def _crash(error: Exception) -> Failure:
    """The failure of a run whose node crashed. If the cause is a `JournalError`, raise that: the conversation
    cannot go on either."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, BaseExceptionGroup) and (lost := cause.subgroup(JournalError)) is not None:
            cause = lost.exceptions[0]  # of several branches
            continue
        if isinstance(cause, JournalError):
            raise cause
        if isinstance(cause, ReplayMismatch):
            return Failure("replay_mismatch", f"The run cannot go on: {cause}. Nothing further was sent.")
        cause = cause.__cause__
    return internal_error(error)


def internal_error(error: BaseException) -> Failure:
    """Log an unexpected error under a new id, and return a failure that names the id."""
    id = uuid.uuid4().hex[:12]
    logger.error("internal error %s", id, exc_info=error)
    return Failure("internal_error", f"An internal error stopped the run. Its id in the log is {id}.")


def _tree(log: ConversationLog, services: Services) -> Node | Failure:
    run = log.run
    if run.started.replay_version != e.REPLAY_VERSION:
        return Failure(
            "replay_mismatch",
            f"The run was started by a version with replay version {run.started.replay_version}; this one has"
            f" {e.REPLAY_VERSION}. Nothing further was sent.",
        )
    try:
        return services.tree(run.started.tree_id, log.state.trees[run.started.tree_id])
    except ConfigError as error:
        return Failure("tree_unavailable", f"The tree this run started with cannot be read today: {error}")


# ------------------------------------------------------------------- pauses and ends


async def announce(log: ConversationLog, services: Services) -> None:
    """Record that the run is blocked, if it still is, and answer the senders that wait for it."""
    while log.blocked:
        living = await _other_members(log)
        head = log.state.head.run
        if head is None or not log.blocked:  # changed during the wait
            return
        wanted, unreplied = log.branches.unauthorized, tuple(log.run.unreplied)
        settles = unreplied
        if wanted is not None:
            settles = _to_reply_to(log, wanted, living)
            result = results.auth_required(head, wanted)
            event: e.RunPause = _auth_required(head, wanted, settles, log.worked)
        else:
            result = waiting_result(log)
            event = e.RunWaiting(head.id, log.state.head.pending, settles, log.worked)
        replies = dict.fromkeys(settles, reply_of(result))
        # All of this may change while the save waits for its turn, even if the run stays blocked: a decision
        # may add a sender to answer, although its branch cannot go on because it waits for a slot.
        unchanged = partial(_is_unchanged, log, unreplied, log.state.head.pending, wanted)
        if await log.save(event, replies=replies, when=unchanged):
            services.wake(log.state.id)  # to answer the senders of queued messages
            return


async def reply_without_token(log: ConversationLog, head: RunHead, wanted: Wanted) -> None:
    """Reply to the senders of a run that waits for a bearer token, except to a sender whose token another
    living member has: that member resumes the run."""
    settles = _to_reply_to(log, wanted, await _other_members(log))
    if settles:
        event = _auth_required(head, wanted, settles, log.run.worked)
        await log.save(event, replies=dict.fromkeys(settles, reply_of(results.auth_required(head, wanted))))


async def _other_members(log: ConversationLog) -> Collection[str]:
    """The living members, if any of them may have tokens of the run."""
    return await until_available(log.journal.living) if log.sent_elsewhere else ()


def _to_reply_to(log: ConversationLog, wanted: Wanted, living: Collection[str]) -> tuple[str, ...]:
    """The commands to answer when the run rests for want of a token. A command whose token a living member
    has is not answered: that member resumes the run."""
    unreplied = tuple(log.run.unreplied)
    if wanted.status is not None:  # the token was refused
        return unreplied
    return tuple(key for key in unreplied if log.sent_elsewhere.get(key) not in living)


def _auth_required(
    head: RunHead, wanted: Wanted, settles: tuple[str, ...], worked: Mapping[str, float]
) -> e.RunAuthRequired:
    return e.RunAuthRequired(run=head.id, **attrs.asdict(wanted), settles=settles, worked=worked)


def _is_unchanged(
    log: ConversationLog, unreplied: tuple[str, ...], pending: tuple[str, ...], wanted: Wanted | None
) -> bool:
    return (
        log.blocked
        and tuple(log.run.unreplied) == unreplied
        and (log.state.head.pending, log.branches.unauthorized) == (pending, wanted)
    )


def waiting_result(log: ConversationLog) -> Result:
    head = log.state.head
    assert head.run is not None
    return results.waiting(head.run, [log.state.approvals[id] for id in head.pending])


def end_event(run: Run, outcome: str | Failure) -> e.RunEnd:
    settles = tuple(run.unreplied)
    if isinstance(outcome, str):
        return e.RunFinished(run.id, outcome, settles)
    return e.RunFailed(run.id, outcome.code, outcome.message, settles)


async def close(log: ConversationLog, end: e.RunEnd, ack: Sequence[str] = ()) -> bool:
    """End the live run, in one commit: void the pending approvals, record the outcomes of calls in flight as
    unknown, and answer all senders, including those of the commands in `ack`.

    Returns False, with nothing written, if an approval was settled while the save waited for its turn.

    Raises:
        QuestionTaken: an approval has been decided. Nothing was written; the decision is in the inbox.
    """
    run = log.run
    void = [e.ApprovalVoid(id, RUN_ENDED) for id in log.state.head.pending]
    lost = list(run.unfinished())
    unknown = [e.ToolUnknown(key, attempt, "the run ended before its result came") for key, attempt in lost]
    events = (*unknown, *void, end)
    head = fold_head(log.state.head, events).run
    assert head is not None
    reply = reply_of(_final_result(head, end))
    pending, unreplied = log.state.head.pending, tuple(run.unreplied)
    return await log.save(
        *events,
        settle=[SettleIntent(key, attempt, "unknown") for key, attempt in lost],
        questions=[closed(log.state.approvals[id], RUN_ENDED) for id in pending],
        ack=ack,
        replies=dict.fromkeys((*run.unreplied, *ack), reply),
        when=lambda: (log.state.head.pending, tuple(run.unreplied)) == (pending, unreplied),
    )


def _final_result(head: RunHead, end: e.RunEnd) -> Result:
    match end:
        case e.RunFinished(text=text):
            return results.finished(head, text)
        case e.RunFailed(code=code):
            return results.failed(head, code, answer_of(end))
        case e.RunCancelled():
            return results.cancelled(head)
        case _:
            assert_never(end)
