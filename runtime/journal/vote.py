"""Votes: a question that several voters decide together. Pure.

A vote has the subject that its voter was shown, and the subject that it is for; they differ if the voter
proposes a change. The stored votes on a question are always for one subject. The first rule that matches
applies:

    ====  =======================================================  =======================================
    rule  the decision                                             the result
    ====  =======================================================  =======================================
    1     comes when the question is no longer pending, or late    `Already`
    2     is not a vote                                            `Won`
    3     is a vote of a voter who was shown another subject than  `Outdated`: nothing changes
          that of the stored votes
    4     is a vote; these earlier votes are dropped: about        `Won`, if `needed` votes remain,
          another subject, by the same voter, with a credential    else `Voted`
          that has lapsed
    ====  =======================================================  =======================================
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs

from .. import json_text
from ..same_name import is_same_name
from .question import Already, CastVote, Question, Won


@attrs.frozen(kw_only=True)
class Vote:
    """That a decision is only one of several that the question needs."""

    voter: str
    """Each voter has one vote, however its name is written (`is_same_name`)."""
    credential: str
    """Of the voter, for `lapsed`."""
    shown: str
    """The subject that the voter was shown."""
    subject: str
    """The subject that the vote is for."""
    needed: int
    """The number of votes that decide."""
    lapsed: frozenset[str] = frozenset()
    """Credentials that are no longer valid."""


@attrs.frozen
class Voted:
    """The vote is stored, and its command is in the stream's inbox. The question stays pending."""

    question: Question


@attrs.frozen
class Outdated:
    """The voter was shown another subject than the present one. Nothing was written."""

    question: Question


def outcome(
    asked: Question, decision: Mapping[str, Any], vote: Vote | None, at: float
) -> Won | Voted | Already | Outdated:
    """The result of a decision, given as it is stored, with the question as it is after it. `at` is the time
    of the write."""
    if asked.state != "pending" or (asked.expires is not None and asked.expires <= at):
        return Already(asked)
    if vote is None:
        return Won(attrs.evolve(asked, state="decided", decision=decision, settled=at))
    if asked.votes and asked.votes[-1].subject != vote.shown:
        return Outdated(asked)
    kept = [
        each
        for each in asked.votes
        if each.subject == vote.subject
        and not is_same_name(each.voter, vote.voter)
        and each.credential not in vote.lapsed
    ]
    votes = (*kept, CastVote(vote.voter, vote.credential, vote.subject, at, decision))
    if len(votes) < vote.needed:
        return Voted(attrs.evolve(asked, votes=votes))
    return Won(attrs.evolve(asked, state="decided", decision=decision, settled=at, votes=votes))


def command(
    result: Won | Voted, decision: Mapping[str, Any], adds: Mapping[str, Any], vote: Vote | None
) -> tuple[str, Mapping[str, Any]]:
    """The kind and body of the command for the stream. ``sent`` is the decision without `adds`, if there are
    any, for the comparison with a repetition."""
    asked = result.question
    body: dict[str, Any] = {"question": asked.id, "decision": {**decision, **adds}}
    if vote is not None:
        body |= {"subject": vote.subject, "voters": [each.voter for each in asked.votes]}
    if adds:
        body["sent"] = decision
    if isinstance(result, Won):
        return "decision", body
    assert vote is not None
    return "vote", {**body, "needed": vote.needed}


def is_repeat(kind: str, body: Mapping[str, Any], question: str, decision: Mapping[str, Any]) -> bool:
    """Whether a stored command was made by a decision like this one."""
    if kind not in ("decision", "vote"):
        return False
    sent = [body.get("question"), body.get("sent", body.get("decision"))]
    return json_text.same(json_text.dump(sent), json_text.dump([question, decision]))
