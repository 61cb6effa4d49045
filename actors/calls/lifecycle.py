"""The rules for the next step of a tool call, as a pure function of the record: `next_step`.

The first rule that matches decides. After each step, the facts are read again and the rules start over.
An attempt is "open" if its intent is on record and its end is not: the process died in between. A call "may
have happened" if one of its attempts is open, or has an unknown outcome and no human has decided to retry it.

    ====  ===================================================  ============================================
    rule  the call                                             what comes next
    ====  ===================================================  ============================================
    1     has ended, or its approval was rejected, or          `End`
          answered with a text, or has expired
    2     is of class `once`, and its last attempt is open
          a. sent to another agent, which can be asked         continue with rule 5
          b. otherwise                                         `RecordUnknown`: it is not sent again unasked
    3     has an unknown outcome, and
          a. is not `once`, and a resend is left               continue with rule 5
          b. a human must decide, and has not been asked       `AskOutcome`
          c. a human must decide, and has not answered         `AwaitDecision`
          d. a human has decided to retry it                   continue with rule 5
          e. otherwise                                         `End`: the model gets the unknown outcome
    4     did nothing at its last attempt, because its server
          demands
          a. another token, which the run does not have        `AwaitCredential`
          b. answers, and that was attempt `MAX_ATTEMPTS`      `End`, as declined
          c. answers, and some are missing                     `AwaitAnswers`
          d. answers; one is a refusal, which the server       `End`, as declined
             does not take
          e. decisions, and that was attempt                   `End`, as declined
             `MAX_EXCHANGES`
          f. decisions, and none of the questions has been     `AwaitRemote`
             settled since
    5     has not been judged on these facts                   `Judge`
    6     may have happened, and
          a. its last attempt is open, sent to another agent   `LookUp`, or `AwaitCredential` as in rule 12;
             that is still configured                          a call that does not pass the gate, or is
                                                               held, is not sent
          b. today its tool is gone, it is denied, it does     `RecordUnknown` if an attempt is open, else
             not pass the gate, or it is of class `once`       `End`: the model gets the unknown outcome
    7     has no tool today, or arguments that do not fit it   `End`, as not sent
    8     has a pending approval, for a different definition   `Replace`
          of the tool
    9     has a pending approval                               `AwaitDecision`
    10    is denied by the gate                                `End`, as denied
    11    does not pass the gate, or is held by a halt, and    `Ask`
          brings more than refusals
    12    lacks a token: its run came with one, and its        `AwaitCredential`
          server is passed the tokens of runs
    13    otherwise                                            `Send`
    ====  ===================================================  ============================================

A call passes the gate (`_passes`)
    * never, if its last approval is void, or is about another definition of the tool;
    * otherwise, after a retry, if a human has approved the call, or the tool is the one that was sent last;
    * otherwise, if the gate lets it run, or asks by a rule that an approval covers: the rule of that
      approval, or the rule that asks today about the arguments that were shown in it. If that rule has a
      requirement today, an approval of these arguments was given under this one or a stricter one.

A halt of the agent holds a call (`_is_held`) of class `once`
    * while it stands;
    * after it, if the last human who agreed to the call did so before it. Calls that nobody had to agree to
      go on.

During a shutdown, `Ask`, `AskOutcome`, `AwaitAnswers`, `AwaitRemote`, `LookUp`, `Replace` and `Send` become
`Park`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import assert_never

from ...runtime import json_text
from ..approvals.requirement import stricter as stricter_requirement
from ..gate.gate import effect_class, stricter
from ..gate.halt import RULE
from ..log.words import keys
from ..tools.tool import EffectClass
from .facts import (
    AnswersNeed,
    CallApproval,
    CredentialNeed,
    DecisionsNeed,
    Judgement,
    LocalState,
    Missing,
    Record,
    Sent,
)
from .steps import (
    Ask,
    AskOutcome,
    AwaitAnswers,
    AwaitCredential,
    AwaitDecision,
    AwaitRemote,
    End,
    Judge,
    LookUp,
    Park,
    RecordUnknown,
    Replace,
    Send,
    Step,
)

_UNSENT = ("rejected", "answered", "expired")
"""The approvals that end a call without sending it."""

RESENDS = 1
"""The number of times that one process sends a call again after an unknown outcome, unless it is `once`."""

MAX_ATTEMPTS = 32
"""The maximum number of attempts of a call whose server asks something each time before it acts. Without it
there could be an endless loop: a question that cannot be shown to a human is declined at once."""

MAX_EXCHANGES = 256
"""The maximum number of attempts of a call of another agent. Each needs a decision, but a program may
decide."""

INTERRUPTED = "the process stopped before its result was recorded"
"""The reason why the outcome of an open attempt is unknown."""

MAY_HAVE_HAPPENED = "The outcome is unknown: an earlier attempt may have happened. It was not sent again."

DECLINED = "The server asked the user something first, and the user declined. Nothing was done."

ASKED_FOR_EVER = f"The agent asked again and again, {MAX_EXCHANGES} times, and was given up."

ASKED_ON = f"The server asked something first, {MAX_ATTEMPTS} times, and was given up. Nothing was done."


def next_step(
    key: str,
    record: Record,
    judgement: Judgement | Missing | None,
    approvals: Sequence[CallApproval],
    local: LocalState,
) -> Step:
    """The next step of the call `key`. `approvals` are those of the call, oldest first."""
    step = _next(key, record, judgement, approvals, local)
    begins = isinstance(step, Ask | AskOutcome | AwaitAnswers | AwaitRemote | LookUp | Replace | Send)
    return Park() if local.draining and begins else step


def _next(
    key: str,
    record: Record,
    judgement: Judgement | Missing | None,
    approvals: Sequence[CallApproval],
    local: LocalState,
) -> Step:
    sent = record.sent
    if record.ended or (approvals and approvals[-1].state in _UNSENT):  # 1
        return End()
    if sent is not None and (step := _before_the_gate(key, sent, local)) is not None:  # 2, 3, 4
        return step
    if judgement is None:
        return Judge()  # 5
    if sent is not None and _can_be_asked_about(sent) and isinstance(judgement, Judgement):
        if judgement.lacks_token is not None:
            return AwaitCredential(judgement.lacks_token)
        may_send = judgement.verdict.action != "deny" and _passes(sent, judgement, approvals)
        return LookUp(sent.attempt, may_send, _is_held(sent, judgement, approvals, local))  # 6a
    if sent is not None and sent.in_doubt and not _may_be_repeated(sent, judgement, approvals):
        return RecordUnknown(sent.open) if sent.open else _end_in_doubt(sent)  # 6b
    if isinstance(judgement, Missing):
        return End(judgement.outcome, judgement.content)  # 7
    return _at_the_gate(key, sent, judgement, approvals, local)


def _before_the_gate(key: str, sent: Sent, local: LocalState) -> Step | None:
    """Rules 2, 3 and 4. None: continue with rule 5."""
    if sent.state == "open":
        lost = sent.effect == "once" and not sent.remote
        return RecordUnknown(sent.open) if lost else None  # 2
    if sent.state == "unknown":
        return _after_a_loss(key, sent, local)  # 3
    match sent.need:
        case CredentialNeed(wanted, met):
            return None if met else AwaitCredential(wanted)  # 4a
        case AnswersNeed(answers, takes_refusals):
            if sent.attempt >= MAX_ATTEMPTS:
                return End("declined", ASKED_ON, sent.open)  # 4b
            if None in answers:
                return AwaitAnswers()  # 4c
            refused = any(answer != "accept" for answer in answers)
            return End("declined", DECLINED, sent.open) if refused and not takes_refusals else None  # 4d
        case DecisionsNeed(settled):
            if sent.attempt >= MAX_EXCHANGES:
                return End("declined", ASKED_FOR_EVER, sent.open)  # 4e
            return None if settled else AwaitRemote()  # 4f
        case None:  # the attempt has its result, so the call has ended
            return End()
        case _:
            assert_never(sent.need)


def _after_a_loss(key: str, sent: Sent, local: LocalState) -> Step | None:
    """Rule 3."""
    if sent.effect != "once" and local.resends:
        return None  # a
    if not sent.asks:
        return End()  # e
    match sent.outcome:
        case "unasked":
            return AskOutcome(sent.attempt)  # b
        case "pending":
            return AwaitDecision(keys.outcome(key, sent.attempt))  # c
        case "retry":
            return None  # d
        case "known":
            return End()  # e
        case _:
            assert_never(sent.outcome)


def _at_the_gate(
    key: str, sent: Sent | None, judgement: Judgement, approvals: Sequence[CallApproval], local: LocalState
) -> Step:
    """Rules 8 to 13."""
    last = approvals[-1] if approvals else None
    lost = () if sent is None else sent.open
    following = keys.permission(key, len(approvals))
    requires = stricter_requirement(None if last is None else last.requires, judgement.verdict.requires)
    if last is not None and last.state == "pending":
        if last.fingerprint != judgement.tool.fingerprint:
            return Replace(last, following, judgement.verdict.rule, requires)  # 8
        return AwaitDecision(last.question)  # 9
    if judgement.verdict.action == "deny":  # 10
        done = "Nothing was done" if sent is None else "It was not sent again"
        return End("denied", f"Denied by policy: {judgement.verdict.rule}. {done}.")
    passes, held = _passes(sent, judgement, approvals), _is_held(sent, judgement, approvals, local)
    if not passes or (held and not _only_refuses(sent)):  # 11
        replaces = None if last is None else last.id
        rule = RULE if passes else judgement.verdict.rule
        return Ask(following, judgement.arguments, rule, replaces, requires)
    if judgement.lacks_token is not None:  # 12
        return AwaitCredential(judgement.lacks_token)
    effect, asks = _class(sent, judgement, approvals)
    repeats = sent is not None and _is_resend(sent)
    return Send(  # 13
        attempt=1 if sent is None else sent.attempt + 1,
        arguments=judgement.arguments,
        effect=effect,
        asks=asks,
        lost=lost,
        resends=RESENDS if local.resends is None else local.resends - repeats,
        held=held,
    )


def _passes(sent: Sent | None, judgement: Judgement, approvals: Sequence[CallApproval]) -> bool:
    """Whether the call passes the gate today; the rules are at the top of this file."""
    last = approvals[-1] if approvals else None
    tool = judgement.tool.fingerprint
    if last is not None and (last.state == "void" or last.fingerprint != tool):
        return False
    approved = [each for each in approvals if each.state == "approved" and each.fingerprint == tool]
    if sent is not None and sent.retried:
        return bool(approved) or sent.fingerprint in (None, tool)
    allowed = judgement.allowed.union(approval.rule for approval in approved)
    verdict = judgement.verdict
    return verdict.action == "run" or (verdict.rule in allowed and _is_met(judgement, approved))


def _is_met(judgement: Judgement, approved: Sequence[CallApproval]) -> bool:
    """Whether today's requirement, or a stricter one, was met for exactly these arguments."""
    wanted = judgement.verdict.requires
    if wanted is None:
        return True
    arguments = json_text.dump(judgement.arguments)
    same = [each for each in approved if json_text.same(json_text.dump(each.arguments), arguments)]
    return any(each.requires is not None and each.requires.meets(wanted) for each in same)


def _is_held(
    sent: Sent | None, judgement: Judgement, approvals: Sequence[CallApproval], local: LocalState
) -> bool:
    """Whether a halt of the agent holds the call; the rules are at the top of this file."""
    if _class(sent, judgement, approvals)[0] != "once":
        return False
    agreed = [each.halts for each in approvals if each.state == "approved"]
    if sent is not None and sent.agreed is not None:
        agreed.append(sent.agreed)
    return local.halt.lapses(max(agreed, default=local.halt.number))


def _only_refuses(sent: Sent | None) -> bool:
    """Whether the next attempt only brings another agent the decisions of humans who refused."""
    return sent is not None and isinstance(sent.need, DecisionsNeed) and sent.agreed is None


def _class(
    sent: Sent | None, judgement: Judgement, approvals: Sequence[CallApproval]
) -> tuple[EffectClass, bool]:
    """The effect class of the next attempt, and whether an unknown outcome asks a human.

    Each is the stricter of the recorded value of the last attempt and the tool's value today.
    """
    approved = any(approval.state == "approved" for approval in approvals) or (
        sent is not None and sent.vouched
    )
    effect = effect_class(judgement.tool, approved=approved)
    asks = effect == "once" and (approved or bool(judgement.tool.hints.destructive))
    if sent is None:
        return effect, asks
    return stricter(effect, sent.effect), asks or sent.asks


def _may_be_repeated(sent: Sent, judgement: Judgement | Missing, approvals: Sequence[CallApproval]) -> bool:
    """Whether a call that may have happened may be sent again."""
    if isinstance(judgement, Missing) or judgement.verdict.action == "deny":
        return False
    effect, _ = _class(sent, judgement, approvals)
    return effect != "once" and _passes(sent, judgement, approvals)


def _can_be_asked_about(sent: Sent) -> bool:
    return sent.remote and sent.state == "open"


def _end_in_doubt(sent: Sent) -> End:
    """The end of a call that may have happened. If its last attempt has an unknown outcome, that is the
    call's result already."""
    return End() if sent.state == "unknown" else End("unknown", MAY_HAVE_HAPPENED)


def _is_resend(sent: Sent) -> bool:
    """Whether the next attempt repeats one with an unknown outcome, without asking a human."""
    return sent.state == "unknown" and sent.outcome != "retry"


def is_heard_from_disk(effect: EffectClass) -> bool:
    """Whether the end of an attempt of this class must be on disk before a model gets it.

    If a crash lost the end of a `once` attempt, a human would have to find out what happened. An attempt of
    another class is repeated.
    """
    return effect == "once"
