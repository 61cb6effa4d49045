"""The kinds of approvals. To add one, add a file to this package, a name to `AnyQuestion`, and its prompt to
`gateway/cli/terminal/typed_reply.py`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, TypeAlias, get_args

import attrs

from ...runtime.journal.question import CastVote, Question
from ..common.stored_json import converter
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
    """A request for a human decision, and its state. Its attributes are named as in the HTTP API."""

    asked: AnyQuestion = attrs.field(kw_only=True)
    """The question. Its class depends on `kind` and has the fields of that kind."""

    @property
    def uuid(self) -> str:
        """The id of the approval, for `Agent.decide`."""
        return self.id

    @property
    def conversation_id(self) -> str:
        """The id of the conversation."""
        return self.stream

    @property
    def tool_name(self) -> str:
        """The name of the tool, or of the node if `kind` is `checkpoint`."""
        return self.asked.tool_name

    @property
    def tool_args(self) -> Mapping[str, Any]:
        """The arguments of the call."""
        return self.asked.tool_args

    @property
    def description(self) -> str:
        """The question, in Markdown."""
        return self.asked.description

    @property
    def server(self) -> str | None:
        """The name of the tool server."""
        return self.asked.server

    @property
    def node(self) -> str:
        """The name of the node that makes the call."""
        return self.asked.node

    @property
    def rule(self) -> str:
        """The reason: a rule of the agent file, or an annotation of the tool."""
        return self.asked.rule

    @property
    def shown(self) -> AnyQuestion:
        """The question as it is shown now: with the arguments that the votes are for, if they are edited."""
        edited = self.votes[-1].decision.get("arguments") if self.votes else None
        return self.asked if edited is None else self.asked.with_arguments(edited)

    def voted(self, voters: Sequence[str], subject: str, at: float, decision: Decided) -> Approval:
        """The approval after a vote by the last of `voters`; the votes of the others are kept."""
        kept = (each for each in self.votes if each.voter in voters[:-1])
        vote = CastVote(voters[-1], "", subject, at, decision.to_json())
        return attrs.evolve(self, votes=(*kept, vote))

    def patched(self, **patch: Any) -> Approval:
        """The approval with other values in its question."""
        asked = attrs.evolve(self.asked, **patch)
        return attrs.evolve(self, body={**self.body, **patch}, asked=asked)

    @property
    def replaces(self) -> str | None:
        """The UUID of the approval that this one replaces."""
        return self.asked.replaces

    @property
    def superseded_by(self) -> str | None:
        """The UUID of the approval that replaces this one."""
        return self.asked.superseded_by

    @property
    def created_at(self) -> datetime:
        """The time of the request, in UTC."""
        return datetime.fromtimestamp(self.created, UTC)

    @property
    def expires_at(self) -> datetime | None:
        """The time of the expiry, in UTC; None if it does not expire."""
        return None if self.expires is None else datetime.fromtimestamp(self.expires, UTC)


def approval_of(row: Question) -> Approval:
    """Make an approval of a stored question. Raises LookupError, TypeError or ValueError if it is damaged."""
    if row.kind != row.body["kind"]:
        raise ValueError("its kind is not that of its body")
    asked = question_of(row.body)
    if row.decision is not None:
        asked.check_kind(decision_of(row.decision))
    return Approval(**attrs.asdict(row, recurse=False), asked=asked)


def question_of(body: Mapping[str, Any]) -> AnyQuestion:
    """Rebuild a question from its stored form. Raises LookupError, TypeError or ValueError."""
    if (kind := KINDS.get(body["kind"])) is None:
        raise ValueError(f"this version does not know the kind {body['kind']!r}")
    return kind.from_json(body)


def decision_of(stored: Mapping[str, Any]) -> Decided:
    """Rebuild a decision of any kind from its stored form. Raises TypeError or ValueError."""
    decision: Decided = read(stored, _DECISIONS)
    return decision


converter.register_structure_hook_func(lambda kind: kind is Decided, lambda body, _: decision_of(body))
converter.register_unstructure_hook(Decided, Decided.to_json)
