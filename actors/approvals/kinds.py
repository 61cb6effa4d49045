"""The kinds of approvals. A new one is a file beside this one, and one more name in `AnyQuestion`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias, get_args

import attrs

from ...runtime.journal.protocol import Question
from .asked import Asked
from .checkpoint_approval import CheckpointQuestion
from .decided import Decided, read
from .elicitation_approval import ElicitationQuestion
from .outcome_approval import OutcomeQuestion
from .proxy_approval import ProxyQuestion
from .tool_approval import ToolQuestion

AnyQuestion: TypeAlias = (
    ToolQuestion | OutcomeQuestion | ElicitationQuestion | CheckpointQuestion | ProxyQuestion
)

KINDS: Mapping[str, type[Asked[Any]]] = {each.kind: each for each in get_args(AnyQuestion)}
_DECISIONS = tuple(dict.fromkeys(each for kind in KINDS.values() for each in kind.decisions))


@attrs.frozen
class Approval(Question):
    """A question of the journal, and what it asks."""

    asked: Asked[Any]


def approval_of(row: Question) -> Approval:
    """Raises LookupError, TypeError or ValueError when the row makes no sense."""
    if row.kind != row.body["kind"]:
        raise ValueError("its kind is not that of its body")
    asked = question_of(row.body)
    if row.decision is not None:
        asked.check_kind(decision_of(row.decision))
    return Approval(**attrs.asdict(row, recurse=False), asked=asked)


def question_of(body: Mapping[str, Any]) -> Asked[Any]:
    """The question of which this is the stored form. Raises LookupError, TypeError or ValueError."""
    if (kind := KINDS.get(body["kind"])) is None:
        raise ValueError(f"this version does not know the kind {body['kind']!r}")
    return kind.from_json(body)


def decision_of(stored: Mapping[str, Any]) -> Decided:
    """The decision of which this is the stored form, about whatever it is. Raises TypeError or ValueError."""
    decision: Decided = read(stored, _DECISIONS)
    return decision
