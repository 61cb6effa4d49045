"""Read the input of `lifecycle` from the log of the conversation. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import count
from typing import Literal, assert_never

from ..approvals import kinds
from ..approvals.decided import Decided
from ..approvals.elicitation_approval import answer_of
from ..approvals.outcome_approval import Retry
from ..approvals.tool_approval import ToolQuestion
from ..approvals.yes_or_no import Approved, Respond
from ..log.fold.record import CallRecord, Run
from ..log.words import keys
from ..log.writer.log import ConversationLog
from ..tools.delegation import is_remote
from ..tools.needs import NeedsAnswers, NeedsDecisions, NeedsToken, Unaskable, Wanted
from ..tools.tokens import Token
from ..tools.tool import ElicitationAnswer
from .facts import AnswersNeed, CallApproval, CredentialNeed, DecisionsNeed, Record, Sent
from .proxies import brought_by_next, has_approved_question, has_settled_question

DECLINE = ElicitationAnswer("decline")

_ATTEMPT_STATES: Mapping[str, Literal["open", "over", "unknown"]] = {
    "started": "open",
    "finished": "over",
    "unknown": "unknown",
}


def record_of(log: ConversationLog, key: str, token: Token | None) -> Record:
    """Return the record of the call `key`. `token` is the token that it has now."""
    record = log.run.calls[key]
    return Record(log.state.has_ended(record), _sent(log, key, record, token))


def _sent(log: ConversationLog, key: str, record: CallRecord, token: Token | None) -> Sent | None:
    if (started := record.started) is None:
        return None
    run, remote = log.run, is_remote(started.server)
    last = max(record.attempts)
    return Sent(
        attempt=last,
        state=_ATTEMPT_STATES[record.attempts[last]],
        open=tuple(attempt for attempt, state in record.attempts.items() if state == "started"),
        tool=started.tool,
        server=started.server,
        facade=started.facade,
        fingerprint=started.fingerprint,
        arguments=started.arguments,
        effect=started.effect,
        asks=started.asks,
        remote=remote,
        vouched=remote and has_approved_question(run, key),
        need=_need(log, key, record, started.server, token),
        outcome=_outcome(run, key, last),
        retried=any(_outcome(run, key, attempt) == "retry" for attempt in record.attempts),
        in_doubt=any(
            state != "finished" and _outcome(run, key, attempt) != "retry"
            for attempt, state in record.attempts.items()
        ),
        agreed=_agreed(log, key, record, last),
    )


def _agreed(log: ConversationLog, key: str, record: CallRecord, last: int) -> int | None:
    run = log.run
    ids = [run.asked.get(keys.outcome(key, last)), *brought_by_next(log, key)]
    if isinstance(record.need, NeedsAnswers) and record.asked is not None:
        questions = range(len(record.asked.requests))
        ids.extend(run.asked.get(keys.elicitation(key, record.asked_at, number)) for number in questions)
    decisions = (run.decisions.get(id or "") for id in ids)
    return min((each.halts for each in decisions if each is not None and each.agrees), default=None)


def _outcome(run: Run, key: str, attempt: int) -> Literal["unasked", "pending", "retry", "known"]:
    id = run.asked.get(keys.outcome(key, attempt))
    if id is None:
        return "unasked"
    if id not in run.decisions:
        return "pending"
    return "retry" if isinstance(run.decisions[id], Retry) else "known"


def _need(
    log: ConversationLog, key: str, record: CallRecord, server: str, token: Token | None
) -> CredentialNeed | AnswersNeed | DecisionsNeed | None:
    run = log.run
    match record.need:
        case None:
            return None
        case NeedsToken(status, command, challenge):
            return CredentialNeed(
                Wanted(server, status, challenge), met=run.command_of(key) != command and token is not None
            )
        case NeedsAnswers(answers=takes_refusals):
            answers = answers_so_far(run, key, record).values()
            return AnswersNeed([None if each is None else each.action for each in answers], takes_refusals)
        case NeedsDecisions():
            return DecisionsNeed(has_settled_question(log, key))
        case _:
            assert_never(record.need)


def answers_so_far(run: Run, key: str, record: CallRecord) -> Mapping[str, ElicitationAnswer | None]:
    """Return the answers to the questions that the server of a call asked last, by the server's names.

    None means not answered yet. A question that cannot be shown to a human is declined.
    """
    assert record.asked is not None
    answers: dict[str, ElicitationAnswer | None] = {}
    for number, (name, request) in enumerate(record.asked.requests.items()):
        if isinstance(request, Unaskable):
            answers[name] = DECLINE
            continue
        decision = run.decisions.get(run.asked.get(keys.elicitation(key, record.asked_at, number), ""))
        answers[name] = None if decision is None else answer_of(decision)
    return answers


def approvals_of(log: ConversationLog, key: str) -> tuple[CallApproval, ...]:
    """Return the approvals of the call, oldest first."""
    return tuple(_approval(log.state.approvals[id], log.run) for id in _approval_ids(log.run, key))


def _approval_ids(run: Run, key: str) -> Iterator[str]:
    for number in count():
        if (id := run.asked.get(keys.permission(key, number))) is None:
            return
        yield id


def _approval(approval: kinds.Approval, run: Run) -> CallApproval:
    asked, decision = approval.asked, run.decisions.get(approval.id)
    assert isinstance(asked, ToolQuestion)
    edited = decision.arguments if isinstance(decision, Approved) else None
    return CallApproval(
        id=asked.id,
        question=asked.question,
        state=_state(approval, decision),
        tool=asked.tool_name,
        server=asked.server,
        facade=asked.facade,
        fingerprint=asked.tool_fingerprint,
        rule=asked.rule,
        requires=asked.requires,
        shown=asked.tool_args,
        arguments=asked.tool_args if edited is None else edited,
        halts=0 if decision is None else decision.halts,
    )


def _state(
    approval: kinds.Approval, decision: Decided | None
) -> Literal["pending", "approved", "rejected", "answered", "expired", "void"]:
    match approval.state:
        case "decided":
            if isinstance(decision, Respond):
                return "answered"
            return "approved" if isinstance(decision, Approved) else "rejected"
        case "pending" | "expired" | "void" as state:
            return state
