"""The requirement that a rule or a checkpoint sets for its approvals. Pure."""

from __future__ import annotations

import attrs
from attrs.validators import ge

from ...config.sections.approval import Rule
from ...config.sections.nodes import CheckpointNode
from ..common.stored_json import store_whole


@attrs.frozen
class Requirement:
    """Who has to approve. It is stored with the question, so that a later change of the rule cannot weaken
    it."""

    approvers: tuple[str, ...] = ()
    """Names of roles, and ``subject:`` with ids of principals; empty: every principal that may decide."""
    quorum: int = attrs.field(default=1, validator=ge(1))
    """The number of persons that have to approve."""
    requester_may_approve: bool = True

    def meets(self, other: Requirement) -> bool:
        """Whether an approval under this requirement also satisfies the other."""
        among = not other.approvers or (bool(self.approvers) and set(self.approvers) <= set(other.approvers))
        requester = other.requester_may_approve or not self.requester_may_approve
        return among and requester and self.quorum >= other.quorum


def requirement_of(source: Rule | CheckpointNode) -> Requirement | None:
    """The requirement of a rule or a checkpoint, if it has one."""
    found = Requirement(source.approvers or (), source.quorum, source.requester_may_approve)
    return None if found == Requirement() else found


def stricter(earlier: Requirement | None, now: Requirement | None) -> Requirement | None:
    """The requirement of a question that replaces an earlier one. The approvers are those of the rule now, if
    it names any."""
    if earlier is None or now is None:
        return earlier or now
    return Requirement(
        now.approvers or earlier.approvers,
        max(earlier.quorum, now.quorum),
        earlier.requester_may_approve and now.requester_may_approve,
    )


store_whole(Requirement)  # a damaged requirement must not count as a weaker one
