"""The outcome of an approval in metrics and traces. Pure."""

from __future__ import annotations

from typing import Literal, TypeAlias, assert_never

from ...actors.approvals.yes_or_no import Respond
from ...actors.log.words import events as e

ApprovalOutcome: TypeAlias = Literal["accepted", "rejected", "answered", "declined", "expired", "void"]


def outcome_of(event: e.ApprovalEnd) -> ApprovalOutcome:
    """`declined`: the decision neither lets the call go on nor rejects it, such as the refusal to answer."""
    match event:
        case e.ApprovalResolved(decision=Respond()):
            return "answered"
        case e.ApprovalResolved(decision=decision):
            return "rejected" if decision.rejects else "accepted" if decision.agrees else "declined"
        case e.ApprovalExpired():
            return "expired"
        case e.ApprovalVoid():
            return "void"
        case _:
            assert_never(event)
