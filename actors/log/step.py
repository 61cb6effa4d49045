"""A step of a run: work that is done once, and whose outcome counts from then on."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar, cast

from ..common.errors import Fault
from . import events as e
from .log import ConversationLog
from .outcomes import Chosen, Delegation, Ended, Replied, StepFailed, StepKind, StepOutcome
from .void import save_over

Outcome = TypeVar("Outcome", Replied, Delegation, Ended, Chosen)


class ReplayMismatch(Exception):
    """The log has another step where this run wants one: going on could repeat or undo something."""


async def step(
    log: ConversationLog,
    key: str,
    expected: type[Outcome],
    node: str,
    work: Callable[[], Awaitable[Outcome | StepFailed]],
    *,
    also: Callable[[Outcome | StepFailed], Sequence[e.LogEvent]] = lambda _: (),
) -> Outcome | StepFailed:
    """Do `work` until its outcome is recorded; from then on that outcome counts.

    `also` gives the events that belong into the same commit.

    Raises:
        ReplayMismatch: another step is recorded under this key.
    """
    recorded = _recorded(log, key, expected.kind, node)
    if recorded is None:
        outcome = await work()
        finished = e.StepFinished.of(key, expected.kind, node, outcome)
        await _save(log, finished, *also(outcome))
        return outcome
    return cast(Outcome | StepFailed, recorded)  # as its fingerprint says


def recorded_failure(log: ConversationLog, key: str, node: str) -> StepFailed | None:
    """The failure of an attempt of a node (`attempt_failed`), if it is on record.

    Raises `ReplayMismatch` when another step is.
    """
    return cast(StepFailed | None, _recorded(log, key, "attempt", node))  # as its fingerprint says


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


async def attempt_failed(log: ConversationLog, key: str, node: str, failed: StepFailed) -> None:
    """Record that an attempt of a node failed, so that a replay knows without trying that it is over."""
    await _save(log, e.StepFinished.of(key, "attempt", node, failed))


async def _save(log: ConversationLog, finished: e.StepFinished, *also: e.LogEvent) -> None:
    """Save a step. If what it was about has failed, the questions still asked below it are taken back."""
    match finished.outcome:
        case StepFailed() | Ended(continued=Fault()):
            execution = finished.key.removesuffix("!")
            await save_over(
                log,
                finished,
                *also,
                asked=lambda asked: is_within(asked.key, execution),
                why="what it was asked for has failed",
            )
        case _:
            await log.save_soon(finished, *also)


def is_within(key: str, execution: str) -> bool:
    """Whether a key is of this execution of a node, or of anything below it, whatever the attempt."""
    return key == execution or key.startswith(tuple(f"{execution}{mark}" for mark in ":.@!"))
