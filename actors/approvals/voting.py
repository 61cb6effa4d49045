"""The rights to decide an approval that has a requirement, and the decisions that are votes. Pure.

A yes is a decision that lets something happen: an approval or a retry. A response is the text that a model
gets in place of a result: one is enough, as one rejection is, but it takes the right to approve. A person is
a principal whose credential names one; a relay is none, because it passes on the words of others. Two names
that people take for the same one are those of one person (`runtime/same_name.py`). The first rule that
matches applies:

    ====  =====================================================  =========================================
    rule  the decision                                           the result
    ====  =====================================================  =========================================
    1     names the hash of something that is no longer shown    ``subject_changed``
    2     is about an approval without a requirement             it decides
    3     is of a principal that `approvers` does not list       ``role_required``
    4     is no yes and no response                              it decides
    5     comes without authentication, or with a credential     ``may_not_approve``
          that has become invalid
    6     is of the requester, or the requester is unknown or    ``may_not_approve``
          no person, and `requester_may_approve` is false
    7     is of no person, and `quorum` or                       ``may_not_approve``
          `requester_may_approve` need one
    8     is a response, or meets a quorum of 1                  it decides
    9     has no hash                                            ``subject_changed``
    10    otherwise                                              a vote, counted by the journal
    ====  =====================================================  =========================================

Of the approvers, rule 3 needs a role or a subject in the list; the right to decide is checked before
(`access/rights.py`). With votes on record, the journal applies rule 1 to yeses, after it has recognized
repetitions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ...runtime.journal.vote import Vote
from ...runtime.same_name import is_same_name
from ..access.principal import KEY_PREFIX, Principal
from ..common.errors import AgentError
from .asked import Asked
from .decided import Decided
from .kinds import Approval
from .outcome_approval import Retry
from .requirement import Requirement
from .yes_or_no import Approved, Respond


def vote_of(
    approval: Approval,
    decision: Decided,
    principal: Principal | None,
    is_live: Callable[[str], bool],
    halts: int = 0,
) -> Vote | None:
    """The vote that a decision is; None: it decides alone. `is_live` tells whether a credential is valid,
    `halts` is the number of halts of the agent so far.

    Raises:
        AgentError: ``subject_changed``, ``role_required`` or ``may_not_approve``.
    """
    requires, shown = approval.asked.requires, decision.hash
    if approval.state != "pending" or (requires is None and shown is None):
        return None
    needs_votes = requires is not None and requires.quorum > 1 and is_yes(decision)
    if shown is not None and shown != approval.shown.hash and not (needs_votes and approval.votes):  # 1
        raise subject_changed()
    if requires is None:  # 2
        return None
    if principal is not None and requires.approvers and principal.names.isdisjoint(requires.approvers):  # 3
        wanted = " or ".join(requires.approvers)
        raise AgentError(
            "role_required",
            f"this approval needs {wanted}",
            details={"roles": list(requires.approvers)},
        )
    if not (is_yes(decision) or isinstance(decision, Respond)):  # 4
        return None
    voter = _entitled(approval, requires, principal, is_live)
    if not needs_votes:  # 8
        return None
    if shown is None:  # 9
        raise subject_changed()
    edited = decision.arguments if isinstance(decision, Approved) else None
    return Vote(
        voter=voter.id,
        credential=voter.credential,
        shown=shown,
        subject=shown if edited is None else approval.asked.with_arguments(edited).hash,
        needed=requires.quorum,
        lapsed=frozenset(
            each.credential
            for each in approval.votes
            # As decisions, votes from before a halt of the agent do not count.
            if not is_live(each.credential) or each.decision.get("halts", 0) < halts
        ),
    )


def agreed_edit(approval: Approval, decision: Decided) -> Mapping[str, Any]:
    """The fields that a yes gets from the votes before it: edited arguments that it agrees with."""
    edits = not isinstance(decision, Approved) or decision.arguments is not None
    if edits or approval.shown is approval.asked:
        return {}
    return {"arguments": approval.shown.tool_args}


def shown_after(asked: Asked[Any], vote: Decided) -> Asked[Any]:
    """The question as it is shown after a vote."""
    edited = vote.arguments if isinstance(vote, Approved) else None
    return asked if edited is None else asked.with_arguments(edited)


def is_yes(decision: Decided) -> bool:
    """Whether the decision lets something happen."""
    return isinstance(decision, Approved | Retry)


def _entitled(
    approval: Approval,
    requires: Requirement,
    principal: Principal | None,
    is_live: Callable[[str], bool],
) -> Principal:
    """Rules 5 to 7."""
    if principal is None:
        raise _refusal("the agent does not know who approves", "Call it as an authenticated principal.")
    if not is_live(principal.credential):
        raise _refusal("the credential is no longer valid", "Use another one.")
    needs_person = requires.quorum > 1
    if not requires.requester_may_approve:
        needs_person, requester = True, approval.asked.requester
        if requester is None or requester.startswith(KEY_PREFIX):  # its user may be the approver
            raise _refusal(
                "no person is known as the requester of the run, so an approver may be the same person",
                "Reject it. Requests with credentials that name a person can be approved.",
            )
        if is_same_name(requester, principal.id):
            raise _refusal("the requester of a run may not approve this", "Ask another approver.")
    if needs_person and not principal.is_known_person:
        raise _refusal(f"{principal.id} is no person", "Approve with a credential that names a person.")
    return principal


def _refusal(message: str, hint: str) -> AgentError:
    return AgentError("may_not_approve", message, hint=hint)


def subject_changed() -> AgentError:
    return AgentError(
        "subject_changed",
        "the decision does not name the hash of what is to be approved now",
        hint="Read the approval again, and send its `hash` with the decision.",
    )
