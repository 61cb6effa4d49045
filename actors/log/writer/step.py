"""Steps: work that a run does once. A replay takes the recorded outcome instead of doing the work again.

A step is recorded under its key. Its fingerprint, "KIND NODE", must be the same on replay.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar, cast

from ....runtime.journal.protocol import SettleIntent
from ...common.errors import Fault
from ..words import events as e
from ..words import keys
from ..words.outcomes import Chosen, Delegation, Ended, Replied, StepFailed, StepKind, StepOutcome
from .log import ConversationLog
from .void import save_and_void

Outcome = TypeVar("Outcome", Replied, Delegation, Ended, Chosen)


class ReplayMismatch(Exception):
    """Another step is recorded under the key: continuing the run could repeat or undo work."""


async def step(
    log: ConversationLog,
    key: str,
    expected: type[Outcome],
    node: str,
    work: Callable[[], Awaitable[Outcome | StepFailed]],
    *,
    also: Callable[[Outcome | StepFailed], Sequence[e.LogEvent]] = lambda _: (),
) -> Outcome | StepFailed:
    """The recorded outcome of a step, else do `work` and record its outcome.

    `also` returns further events for the same commit.

    Raises:
        ReplayMismatch: another step is recorded under this key.
    """
    recorded = _recorded(log, key, expected.kind, node)
    if recorded is None:
        outcome = await work()
        finished = e.StepFinished.of(key, expected.kind, node, outcome)
        await _save(log, finished, *also(outcome))
        return outcome
    return cast(Outcome | StepFailed, recorded)  # `_recorded` has compared the kinds


def recorded_failure(log: ConversationLog, key: str, node: str) -> StepFailed | None:
    """The recorded failure of an attempt of a node (`attempt_failed`), if there is one.

    Raises `ReplayMismatch` if another step is recorded under this key.
    """
    return cast(StepFailed | None, _recorded(log, key, "attempt", node))


def _recorded(log: ConversationLog, key: str, kind: StepKind, node: str) -> StepOutcome | None:
    recorded = log.run.steps.get(key)
    if recorded is None:
        return None
    wanted = f"{kind} {node}"
    if recorded.fingerprint != wanted:
        raise ReplayMismatch(
            f"step {key} was {recorded.fingerprint} when it was recorded, and is {wanted} now"
        )
    return recorded.outcome


async def attempt_failed(
    log: ConversationLog, key: str, node: str, failed: StepFailed, *, when: Callable[[], bool]
) -> bool:
    """Record that an attempt of a node failed, so that a replay does not make the attempt again. Returns
    False, with nothing written, if `when` is false by the time of the save."""
    return await _save(log, e.StepFinished.of(key, "attempt", node, failed), when=when)


async def _save(
    log: ConversationLog, finished: e.StepFinished, *also: e.LogEvent, when: Callable[[], bool] = lambda: True
) -> bool:
    """Save a step. If a node or an attempt has failed, end what is left below it: void the pending approvals,
    and record the outcomes of the calls without an end as unknown."""
    match finished.outcome:
        case StepFailed() | Ended(continued=Fault()):
            execution = keys.attempt_of(finished.key)
            lost = _lost_calls(log, execution)
            saved = await save_and_void(
                log,
                *(
                    e.ToolUnknown(key, attempt, "its node ended before its result came")
                    for key, attempt in lost
                ),
                finished,
                *also,
                where=lambda asked: keys.is_within(asked.key, execution),
                why="what it was asked for has failed",
                settle=[SettleIntent(key, attempt, "unknown") for key, attempt in lost],
                when=when,
            )
            # Before a model hears of the failure: another process might not fail in the same way.
            await log.flush()
            return saved
        case _:
            return await log.save_soon(finished, *also, when=when)


def _lost_calls(log: ConversationLog, execution: str) -> Sequence[tuple[str, int]]:
    """The attempts below an execution that has failed whose outcome a model must be told. An earlier process
    has sent them, and they waited for the token with which they can be looked up."""
    calls = log.run.calls
    return [
        (key, attempt)
        for key, attempt in log.run.unfinished()
        if keys.is_within(key, execution)
        and (sent := calls[key].started) is not None
        and sent.effect == "once"
    ]
