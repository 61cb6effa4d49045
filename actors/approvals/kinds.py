"""The kinds of approvals. A new one is a file beside this one, and one more name in `AnyQuestion`."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, TypeAlias, get_args

import attrs

from ...runtime.journal.protocol import Question
from .checkpoint_approval import CheckpointQuestion
from .decided import Decided, read
from .elicitation_approval import ElicitationQuestion
from .outcome_approval import OutcomeQuestion
from .proxy_approval import ProxyQuestion
from .tool_approval import ToolQuestion

AnyQuestion: TypeAlias = (
    ToolQuestion | OutcomeQuestion | ElicitationQuestion | CheckpointQuestion | ProxyQuestion
)

KINDS: Mapping[str, type[AnyQuestion]] = {each.kind: each for each in get_args(AnyQuestion)}
_DECISIONS = tuple(dict.fromkeys(each for kind in KINDS.values() for each in kind.decisions))


@attrs.frozen
class Approval(Question):
    """A request for a human decision, in whatever state. Its names are those of the HTTP contract."""

    asked: AnyQuestion
    """The question. Its class says which kind it is, and has the fields of that kind."""

    @property
    def uuid(self) -> str:
        """Id of the approval, for `Agent.decide`."""
        return self.id

    @property
    def conversation_id(self) -> str:
        """The conversation that asks."""
        return self.stream

    @property
    def tool_name(self) -> str:
        """The tool; of a `checkpoint`, its node."""
        return self.asked.tool_name

    @property
    def tool_args(self) -> Mapping[str, Any]:
        """The arguments that the call will have."""
        return self.asked.tool_args

    @property
    def description(self) -> str:
        """The question, in Markdown."""
        return self.asked.description

    @property
    def server(self) -> str | None:
        """The tool server."""
        return self.asked.server

    @property
    def node(self) -> str:
        """The node that asks."""
        return self.asked.node

    @property
    def rule(self) -> str:
        """Why it asks: a rule of the agent file, or the tool's annotation."""
        return self.asked.rule

    @property
    def replaces(self) -> str | None:
        """UUID of the approval that this one replaces."""
        return self.asked.replaces

    @property
    def superseded_by(self) -> str | None:
        """UUID of the approval that replaces this one."""
        return self.asked.superseded_by

    @property
    def created_at(self) -> datetime:
        """When it was asked, in UTC."""
        return datetime.fromtimestamp(self.created, UTC)

    @property
    def expires_at(self) -> datetime | None:
        """When it expires, in UTC; None: never."""
        return None if self.expires is None else datetime.fromtimestamp(self.expires, UTC)


def approval_of(row: Question) -> Approval:
    """Raises LookupError, TypeError or ValueError when the row makes no sense."""
    if row.kind != row.body["kind"]:
        raise ValueError("its kind is not that of its body")
    asked = question_of(row.body)
    if row.decision is not None:
        asked.check_kind(decision_of(row.decision))
    return Approval(**attrs.asdict(row, recurse=False), asked=asked)


def question_of(body: Mapping[str, Any]) -> AnyQuestion:
    """The question of which this is the stored form. Raises LookupError, TypeError or ValueError."""
    if (kind := KINDS.get(body["kind"])) is None:
        raise ValueError(f"this version does not know the kind {body['kind']!r}")
    return kind.from_json(body)


def decision_of(stored: Mapping[str, Any]) -> Decided:
    """The decision of which this is the stored form, about whatever it is. Raises TypeError or ValueError."""
    decision: Decided = read(stored, _DECISIONS)
    return decision
