"""A step of a run: done once, and what came of it is what came of it ever after."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from ...runtime.journal.protocol import NewEvent
from . import events as e
from .log import ConversationLog
from .void import save_over


class ReplayMismatch(Exception):
    """The log has another step where this run wants one: going on could repeat or undo something."""


async def step(
    log: ConversationLog,
    key: str,
    kind: str,
    node: str,
    work: Callable[[], Awaitable[Mapping[str, Any]]],
    *,
    also: Callable[[Mapping[str, Any]], Sequence[NewEvent]] = lambda _: (),
) -> Mapping[str, Any]:
    """Do `work` until its outcome is recorded; that outcome ever after.

    The outcome is what is kept of it in ``step.finished``: results and errors alike. `also` gives the
    events that belong into the same commit.

    Raises:
        ReplayMismatch: another step is recorded under this key.
    """
    fingerprint = f"{kind} {node}"
    recorded = log.run.steps.get(key)
    if recorded is None:
        outcome = await work()
        events = (e.step_finished(key, kind, node, fingerprint, **outcome), *also(outcome))
        if "error" in outcome or "continued" in outcome:
            await _give_up(log, key.removesuffix("!"), events)
        else:
            await log.save_soon(*events)
        return outcome
    if recorded["fingerprint"] != fingerprint:
        raise ReplayMismatch(
            f"step {key} was {recorded['fingerprint']} when it was recorded, and is {fingerprint} now"
        )
    return recorded


async def _give_up(log: ConversationLog, execution: str, events: Sequence[NewEvent]) -> None:
    """Save that an execution failed, and take back what is still being asked below it."""
    await save_over(
        log,
        *events,
        asked=lambda asked: is_within(asked.key, execution),
        why="what it was asked for has failed",
    )


def is_within(key: str, execution: str) -> bool:
    """Whether a key is of this execution of a node, or of anything below it, whatever the attempt."""
    return key == execution or key.startswith(tuple(f"{execution}{mark}" for mark in ":.@!"))
