"""Histories of one call for `test_lifecycle`: their facts, and their possible continuations."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any, Literal, NamedTuple

from stopgo.actors.calls.facts import (
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
from stopgo.actors.calls.lifecycle import next_step
from stopgo.actors.calls.steps import (
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
from stopgo.actors.gate.gate import Verdict
from stopgo.actors.gate.halt import Halt
from stopgo.actors.log.words import keys
from stopgo.actors.tools.needs import Wanted
from stopgo.actors.tools.tool import EffectClass, Hints, Tool

KEY = "1/:1.0"
WANTED = Wanted("desk", 401)
ARGUMENTS: Mapping[str, Mapping[str, Any]] = {"shown": {"n": 1}, "edited": {"n": 2}}
MISSING = Missing("not_found", "no such tool")


def tool(hints: Hints, description: str = "wipes", name: str = "wipe", listed: Hints | None = None) -> Tool:
    return Tool(name, description, {}, "desk", hints=hints, own_name="wipe", listed_hints=listed or hints)


READS, DESTROYS = Hints(read_only=True), Hints(destructive=True)
TOOLS: Mapping[str, Tool | None] = {
    "reads": tool(READS),
    "held": tool(DESTROYS, listed=READS),  # calls itself harmless now, which no person has accepted
    "idempotent": tool(Hints(destructive=False, idempotent=True)),
    "plain": tool(Hints()),
    "destroys": tool(DESTROYS),
    "renamed": tool(DESTROYS, name="mcp__desk__wipe"),
    "changed": tool(DESTROYS, description="wipes everything"),
    "gone": None,
}
UNWRITTEN = "unwritten"
"""The tool of an attempt whose fingerprint an early version did not write."""

RUN, A, B, DENY = Verdict("run", "r"), Verdict("ask", "a"), Verdict("ask", "b"), Verdict("deny", "d")
RULES: Mapping[str, Mapping[str, Verdict]] = {
    "run": {"shown": RUN, "edited": RUN},
    "ask": {"shown": A, "edited": A},
    "ask more of the edit": {"shown": A, "edited": B},
    "run the edit": {"shown": A, "edited": RUN},
    "run the call as shown": {"shown": RUN, "edited": A},
    "deny the edit": {"shown": A, "edited": DENY},
    "ask by another rule": {"shown": B, "edited": B},
    "deny": {"shown": DENY, "edited": DENY},
}
NEEDS: Mapping[str, CredentialNeed | AnswersNeed | DecisionsNeed] = {
    "token": CredentialNeed(WANTED, met=False),
    "token, given": CredentialNeed(WANTED, met=True),
    "form": AnswersNeed((None, None), takes_refusals=True),
    "form, half": AnswersNeed(("decline", None), takes_refusals=True),
    "form, answered": AnswersNeed(("decline", "cancel"), takes_refusals=True),
    "decisions": DecisionsNeed(settled=False),
    "decisions, made": DecisionsNeed(settled=True),
    "decisions, refused": DecisionsNeed(settled=True),
    "visit": AnswersNeed((None,), takes_refusals=False),
    "visit, made": AnswersNeed(("accept",), takes_refusals=False),
    "visit, declined": AnswersNeed(("decline",), takes_refusals=False),
    "visit, cancelled": AnswersNeed(("cancel",), takes_refusals=False),
}
MET = {
    "token": ["token, given"],
    "decisions": ["decisions, made", "decisions, refused"],
    "form": ["form, answered", "form, half"],
    "form, half": ["form, answered"],
    "visit": ["visit, made", "visit, declined", "visit, cancelled"],
}
"""The states of a prerequisite after humans answer. With the first one the call continues."""


AGREES = ("decisions, made", "visit, made")
"""Prerequisites that a human has agreed to."""


class Question(NamedTuple):
    """Whether the call may go."""

    tool: str
    rule: str
    shown: str
    counts: str
    """The arguments as edited, or as shown."""
    state: Literal["pending", "approved", "rejected", "expired", "void"] = "pending"
    halts: int = 0
    """The number of halts before the decision."""


class Attempt(NamedTuple):
    tool: str
    arguments: str
    effect: EffectClass
    asks: bool
    state: Literal["open", "over", "unknown"] = "open"
    need: str = ""
    outcome: Literal["unasked", "pending", "retry", "known"] = "unasked"
    halts: int = 0
    """The number of halts before a human agreed to its need, or to a retry."""


class Story(NamedTuple):
    """The past of a call, and the present state of the world."""

    tool: str = "destroys"
    rules: str = "ask"
    questions: tuple[Question, ...] = ()
    attempts: tuple[Attempt, ...] = ()
    over: bool = False
    draining: bool = False
    tokened: bool = False
    """The run came with a token."""
    token: bool = False
    """It is in memory."""
    resends: int | None = None
    """As `Send` says."""
    sent_here: bool = False
    """This process has sent the call."""
    resent: int = 0
    """The number of resends after unknown outcomes."""
    changes: int = 0
    """How often tool, rules or drain may still change,"""
    crashes: int = 0
    """and the process die."""
    remote: bool = False
    """The tool is another agent."""
    stops: int = 0
    """How often the agent may still be halted."""
    halts: int = 0
    """How often it was halted."""
    halted: bool = False
    """It is halted now."""

    @property
    def said(self) -> int:
        """The number of halts in a decision that comes now. While the agent is halted, only a decision that
        was stored before agrees."""
        return self.halts - self.halted

    @property
    def last(self) -> Attempt | None:
        return self.attempts[-1] if self.attempts else None

    @property
    def asked(self) -> Question | None:
        return self.questions[-1] if self.questions else None

    @property
    def doubted(self) -> bool:
        """The last attempt may have happened, its outcome is unknown, and no person wants it repeated."""
        return self.last is not None and self.last.state != "over" and self.last.outcome != "retry"

    @property
    def in_doubt(self) -> bool:
        """The same of any attempt."""
        return any(each.state != "over" and each.outcome != "retry" for each in self.attempts)

    @property
    def retried(self) -> bool:
        return any(each.outcome == "retry" for each in self.attempts)

    @property
    def approved(self) -> bool:
        return any(each.state == "approved" for each in self.questions)

    @property
    def pending(self) -> bool:
        return self.asked is not None and self.asked.state == "pending"

    @property
    def refused(self) -> bool:
        """A person rejected the call, or its approval expired."""
        return self.asked is not None and self.asked.state in ("rejected", "expired")

    @property
    def need(self) -> str:
        return self.last.need if self.last else ""

    @property
    def lost(self) -> tuple[int, ...]:
        """The attempts without an end."""
        return tuple(number for number, each in enumerate(self.attempts, 1) if each.state == "open")

    @property
    def arguments(self) -> str:
        if self.asked:
            return self.asked.counts
        return self.last.arguments if self.last else "shown"

    @property
    def verdict(self) -> Verdict:
        """Today's verdict of the gate on the call."""
        return RULES[self.rules][self.arguments]

    def of_last(self, **fields: Any) -> Story:
        return self._replace(attempts=(*self.attempts[:-1], self.attempts[-1]._replace(**fields)))

    def of_asked(self, **fields: Any) -> Story:
        return self._replace(questions=(*self.questions[:-1], self.questions[-1]._replace(**fields)))

    def closed(self) -> Story:
        """The attempts without an end are recorded as unknown."""
        closed = (a._replace(state="unknown") if a.state == "open" else a for a in self.attempts)
        return self._replace(attempts=tuple(closed))


def fingerprint(name: str) -> str | None:
    found = TOOLS.get(name)
    return found.fingerprint if found else None


# ------------------------------------------------------------------ as `next_step` has it


@lru_cache(None)
def facts(
    questions: tuple[Question, ...], attempts: tuple[Attempt, ...], over: bool, remote: bool
) -> tuple[Any, Any]:
    approvals = tuple(
        CallApproval(
            id=f"id{number}",
            question=f"{KEY}~{number}",
            state=each.state,
            tool="wipe",
            server="desk",
            facade=None,
            fingerprint=fingerprint(each.tool) or "",
            rule=each.rule,
            shown=ARGUMENTS[each.shown],
            arguments=ARGUMENTS[each.counts],
            halts=each.halts,
        )
        for number, each in enumerate(questions)
    )
    if not attempts:
        return Record(over), approvals
    sent = Sent(
        attempt=len(attempts),
        state=attempts[-1].state,
        open=Story(attempts=attempts).lost,
        tool="wipe",
        server="desk",
        facade=None,
        fingerprint=fingerprint(attempts[-1].tool),
        arguments=ARGUMENTS[attempts[-1].arguments],
        effect=attempts[-1].effect,
        asks=attempts[-1].asks,
        remote=remote,
        need=NEEDS.get(attempts[-1].need),
        outcome=attempts[-1].outcome,
        retried=any(each.outcome == "retry" for each in attempts),
        in_doubt=Story(attempts=attempts).in_doubt,
        agreed=attempts[-1].halts if attempts[-1].need in AGREES or attempts[-1].outcome == "retry" else None,
    )
    return Record(over, sent), approvals


def judgement(story: Story) -> Judgement | Missing:
    approved = frozenset(each.shown for each in story.questions if each.state == "approved")
    return judged(story.tool, story.rules, story.arguments, approved, story.tokened and not story.token)


@lru_cache(None)
def judged(
    name: str, rules: str, arguments: str, approved: frozenset[str], tokenless: bool
) -> Judgement | Missing:
    found = TOOLS[name]
    if found is None:
        return MISSING
    return Judgement(
        tool=found,
        verdict=RULES[rules][arguments],
        arguments=ARGUMENTS[arguments],
        allowed=frozenset(RULES[rules][each].rule for each in approved),
        lacks_token=WANTED if tokenless else None,
    )


def step_of(story: Story, *, unjudged: bool = False) -> Step:
    record, approvals = facts(story.questions, story.attempts, story.over, story.remote)
    halt = Halt(story.halts, story.halted)
    local = LocalState(resends=story.resends, draining=story.draining, halt=halt)
    return next_step(KEY, record, None if unjudged else judgement(story), approvals, local)


# ------------------------------------------------------------------------ the world


def restarted(story: Story) -> Story:
    story = story.of_last(need="token") if story.need == "token, given" else story
    return story._replace(draining=False, token=False, resends=None, sent_here=False, resent=0)


def answered(story: Story, step: Step) -> Iterator[Story]:
    """The possible results of a step; the first leads to an end soonest."""
    match step:
        case Ask():
            put = Question(story.tool, step.rule, story.arguments, story.arguments)
            yield story._replace(questions=(*story.questions, put))
        case Replace():
            put = Question(story.tool, step.rule, story.questions[-1].shown, story.questions[-1].shown)
            void = story.of_asked(state="void")
            yield void._replace(questions=(*void.questions, put))
        case AskOutcome():
            yield story.closed().of_last(outcome="pending")
        case AwaitDecision() if story.last and step.question == keys.outcome(KEY, len(story.attempts)):
            yield story.of_last(outcome="known")
            yield story.of_last(outcome="retry", halts=story.said)
        case AwaitDecision():
            yes = story.of_asked(state="approved", halts=story.said)
            if not story.halted:
                yield yes
            yield story.of_asked(state="rejected")
            yield story.of_asked(state="expired")
            if story.halted and len(story.questions) < 3:
                yield yes
            if len(story.questions) < 2:
                yield story.of_asked(state="void")
            if len(story.questions) < 3:
                edit = "edited" if story.questions[-1].shown == "shown" else "shown"
                if RULES[story.rules][edit] is not DENY:
                    yield story.of_asked(state="approved", counts=edit, halts=story.said)
        case LookUp():
            yield story.of_last(state="over")._replace(over=True)
            yield from looked_up(story)
        case AwaitCredential() | AwaitAnswers() | AwaitRemote():
            story = story._replace(tokened=True, token=True) if isinstance(step, AwaitCredential) else story
            met = [story.of_last(need=met, halts=story.said) for met in MET.get(story.need, ())]
            yield from met or [story]
        case Send():
            yield from sent(story, step)
        case RecordUnknown():
            yield story.closed()
        case End():
            yield story._replace(over=True)
        case Park():
            yield restarted(story)
        case Judge():
            raise AssertionError("it is judged")


def looked_up(story: Story) -> Iterator[Story]:
    yield story.of_last(state="unknown")
    if len(story.attempts) < 4:
        yield story.of_last(state="over", need="decisions")
        yield story.of_last(state="over", need="token")


def sent(story: Story, step: Send) -> Iterator[Story]:
    resent = story.resent + (story.doubted and story.sent_here)
    left = story.closed()._replace(resends=step.resends, sent_here=True, resent=resent)
    attempt = Attempt(story.tool, story.arguments, step.effect, step.asks)
    left = left._replace(attempts=(*left.attempts, attempt))
    yield left.of_last(state="over")._replace(over=True)
    if len(left.attempts) == 4:
        return
    yield left.of_last(state="unknown")
    if len(left.attempts) < 3:
        yield left.of_last(state="over", need="token")
    if len(left.attempts) == 1:
        for need in ("decisions",) if left.remote else ("form", "form, answered", "visit"):
            yield left.of_last(state="over", need=need)
    if left.crashes:
        yield restarted(left)._replace(crashes=left.crashes - 1)


def mishaps(story: Story) -> Iterator[Story]:
    """The events that may come at any time while the call can still go on."""
    if (story.last and story.last.outcome == "known") or story.refused:
        return
    if story.halted:
        yield story._replace(halted=False)
    elif story.stops:
        yield story._replace(stops=story.stops - 1, halts=story.halts + 1, halted=True)
    if story.crashes and (story.sent_here or story.token):
        yield restarted(story)._replace(crashes=story.crashes - 1)
    if story.changes:
        changed = story._replace(changes=story.changes - 1)
        yield from (changed._replace(tool=name) for name in TOOLS if name not in (story.tool, "gone"))
        yield from (changed._replace(rules=name) for name in RULES if name not in (story.rules, "deny"))


def on_the_way_out(story: Story) -> Iterator[Story]:
    """The story in worlds in which the call can only end or wait."""
    yield story._replace(draining=True)
    yield story._replace(tool="gone")
    yield story._replace(rules="deny")
    yield story._replace(tokened=True, token=False)


def consequence(story: Story) -> Story:
    """Without the details of the past that no rule looks at. The search takes stories that differ only in
    them for one."""
    attempts = (each._replace(tool="", arguments="", need="") for each in story.attempts[:-1])
    questions = (each._replace(tool="", counts="") for each in story.questions[:-1])
    return story._replace(
        attempts=(*attempts, *story.attempts[-1:]), questions=(*questions, *story.questions[-1:])
    )
