"""The scenarios of the crash tests: small conversations that together pass every kind of write."""

from __future__ import annotations

from collections.abc import Sequence

from .decision_scenarios import (
    ANSWERED,
    APPROVED,
    ASKED_IN_ORDER,
    BATCH,
    EDITED,
    EXPIRED,
    HALTED,
    PARALLEL,
    PARALLEL_REJECTED,
    REJECTED,
    REJECTED_IN_SEQUENCE,
    TWO_HUMANS,
    VOTED,
)
from .ending_scenarios import (
    CANCELLED_IN_FLIGHT,
    CANCELLED_TOO_SLOW,
    CANCELLED_WAITING,
    COMPLETED,
    DELETED,
    FAILED_FAST,
)
from .recovery_scenarios import (
    LOST_DONE,
    LOST_FAILED,
    LOST_RETRIED,
    QUEUED,
    RESTARTED,
    RESTARTED_IN_FLIGHT,
    UNASKED,
    WEAKENED,
)
from .story import Scenario
from .told_scenarios import TOLD, TOLD_OF_A_DELETION, TOLD_OF_A_HALT

SCENARIOS: Sequence[Scenario] = (
    APPROVED,
    EDITED,
    REJECTED,
    REJECTED_IN_SEQUENCE,
    ANSWERED,
    EXPIRED,
    HALTED,
    VOTED,
    TWO_HUMANS,
    BATCH,
    ASKED_IN_ORDER,
    PARALLEL,
    PARALLEL_REJECTED,
    CANCELLED_WAITING,
    CANCELLED_IN_FLIGHT,
    CANCELLED_TOO_SLOW,
    FAILED_FAST,
    DELETED,
    COMPLETED,
    QUEUED,
    RESTARTED,
    RESTARTED_IN_FLIGHT,
    LOST_RETRIED,
    LOST_DONE,
    LOST_FAILED,
    UNASKED,
    WEAKENED,
    TOLD,
    TOLD_OF_A_HALT,
    TOLD_OF_A_DELETION,
)

MAIN: Sequence[Scenario] = (APPROVED, PARALLEL, EDITED, REJECTED, CANCELLED_WAITING)
"""The basic turns; all others are variations."""

VARIATIONS: Sequence[Scenario] = (
    PARALLEL_REJECTED,
    LOST_DONE,
    LOST_FAILED,
    TOLD,
    TOLD_OF_A_HALT,
    TOLD_OF_A_DELETION,
)
"""The scenarios that differ from another one only in the human's decision, or in who is told of it."""
