"""Every history of a call that can happen, each step of it compared with an oracle.

The search carries out each step that `next_step` returns, with every possible answer of the world, lets
processes crash and tools and rules change in between, and checks for every history of a call (`Story`) that
it reaches

* that the oracle (`permitted`, `exact`) allows the step. The oracle is written from the documentation of the
  promises, of approvals and of the gate, not from the code;
* that the step keeps each of `PROMISES`;
* that the call ends if each step gets the first of its answers from then on.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, TypeAlias, get_args

import attrs
import pytest

from stopgo.actors.calls.lifecycle import (
    ASKED_FOR_EVER,
    ASKED_ON,
    DECLINED,
    MAX_ATTEMPTS,
    MAX_EXCHANGES,
    MAY_HAVE_HAPPENED,
    RESENDS,
)
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
from stopgo.actors.gate.halt import RULE
from stopgo.actors.log.words import keys
from stopgo.actors.tools.tool import EFFECTS, EffectClass
from tests.actors.calls.story import (
    AGREES,
    ARGUMENTS,
    KEY,
    MET,
    MISSING,
    RULES,
    TOOLS,
    UNWRITTEN,
    WANTED,
    Attempt,
    Question,
    Story,
    answered,
    consequence,
    facts,
    fingerprint,
    mishaps,
    on_the_way_out,
    step_of,
)

Steps: TypeAlias = set[type[Step]]

REFUSED = ("visit, declined", "visit, cancelled")
"""Prerequisites that a person refused and without which the server does not act."""


BEGINNINGS: Steps = {Ask, Replace, AskOutcome, AwaitAnswers, AwaitRemote, LookUp, Send}
"""The steps that do not start during a shutdown."""


# ------------------------------------------------------------------------- oracle


def permitted(story: Story) -> Steps:
    """The steps that the documentation allows, in most cases one."""
    if story.over or story.refused:
        return {End}
    steps = when_in_doubt(story) if story.doubted else when_it_may_go(story)
    return {Park} | steps - BEGINNINGS if story.draining else steps


def when_in_doubt(story: Story) -> Steps:
    """The last attempt may have happened, and its outcome is unknown."""
    last = story.attempts[-1]
    if last.outcome != "unasked":
        return {AwaitDecision} if last.outcome == "pending" else {End}
    interrupted = last.state == "open"
    if interrupted and story.remote and TOOLS[story.tool] is not None:
        return {AwaitCredential} if story.tokened and not story.token else {LookUp}
    if interrupted or (story.sent_here and story.resent < RESENDS):
        again = when_it_may_go(story)
        if again <= {Send, AwaitCredential} and "once" not in (last.effect, effect_today(story)):
            return again
    asks: Steps = {AskOutcome} if last.asks else set()
    return asks | {RecordUnknown} if interrupted else asks or {End}


def when_it_may_go(story: Story) -> Steps:
    """No attempt did anything that is in doubt, or a person wants the call repeated in spite of that."""
    if story.need in REFUSED:
        return {End}
    gate: Steps = {AwaitDecision} if story.pending else {Send}
    if needs_a_yes(story):
        gate = {Replace} if story.pending else {Ask}
    elif not story.pending and is_held(story) and story.need != "decisions, refused":
        gate = {Ask}
    if TOOLS[story.tool] is None or story.verdict.action == "deny":
        gate = {End} | (gate if story.pending else set())
    if story.in_doubt and (gate != {Send} or effect_today(story) == "once"):
        gate = {RecordUnknown} if story.lost else {End}
    before: Steps = set()
    if story.need in MET:
        waits = {"token": AwaitCredential, "decisions": AwaitRemote}
        before = {waits.get(story.need, AwaitAnswers)}
    elif story.tokened and not story.token and gate == {Send}:
        before = {AwaitCredential}
    return before if before and gate == {Send} else before | gate


def needs_a_yes(story: Story) -> bool:
    """Whether the call needs an approval that it does not have."""
    asked = story.asked
    if asked and (asked.state == "void" or fingerprint(asked.tool) != fingerprint(story.tool)):
        return True
    if story.pending:
        return False
    if story.retried:  # which covers the call that was sent
        sent = story.attempts[-1].tool
        return not asked and sent != UNWRITTEN and fingerprint(sent) != fingerprint(story.tool)
    return story.verdict.action == "ask" and story.verdict.rule not in rules_approved(story)


def is_held(story: Story) -> bool:
    """Whether a halt of the agent holds the call: it stands, or it came after the last human agreed."""
    if TOOLS[story.tool] is None or "once" not in (
        effect_today(story),
        *(each.effect for each in story.attempts),
    ):
        return False
    return story.halted or 0 < len(agreed(story)) == sum(halts < story.halts for halts in agreed(story))


def agreed(story: Story) -> list[int]:
    """For each human who agreed to what leaves next, the number of halts before."""
    approved = [each.halts for each in story.questions if each.state == "approved"]
    last = [each.halts for each in story.attempts[-1:] if each.need in AGREES or each.outcome == "retry"]
    return approved + last


def rules_approved(story: Story) -> set[str]:
    """The rules that approvals cover: those of the questions, and today's rules for the shown arguments."""
    approved = [each for each in story.questions if each.state == "approved"]
    return {each.rule for each in approved} | {RULES[story.rules][each.shown].rule for each in approved}


def effect_today(story: Story) -> EffectClass:
    found = TOOLS[story.tool]
    assert found
    if found.hints.read_only:
        return "read"
    harmless = found.hints.idempotent and not found.hints.destructive and not story.approved
    return "idempotent" if harmless else "once"


def exact(story: Story, step: Step) -> bool:
    """Whether the fields of the step are right."""
    number, attempt = len(story.questions), len(story.attempts)
    match step:
        case Ask():
            follows = f"id{number - 1}" if number else None
            rule = story.verdict.rule if needs_a_yes(story) else RULE
            return step == Ask(f"{KEY}~{number}", ARGUMENTS[story.arguments], rule, follows)
        case Replace(old):
            return old.id == f"id{number - 1}" and step == Replace(old, f"{KEY}~{number}", story.verdict.rule)
        case AskOutcome():
            return step == AskOutcome(attempt)
        case AwaitDecision():
            return step.question == (keys.outcome(KEY, attempt) if story.doubted else f"{KEY}~{number - 1}")
        case AwaitCredential():
            return step == AwaitCredential(WANTED)
        case Send():
            found = TOOLS[story.tool]
            assert found
            effects = [effect_today(story), *(each.effect for each in story.attempts)]
            asks = any(each.asks for each in story.attempts)
            return step == Send(
                attempt=attempt + 1,
                arguments=ARGUMENTS[story.arguments],
                effect=max(effects, key=EFFECTS.index),
                asks=asks or (effects[0] == "once" and (found.hints.destructive is True or story.approved)),
                lost=story.lost,
                resends=RESENDS if story.resends is None else story.resends - story.doubted,
                held=is_held(story),
            )
        case RecordUnknown():
            return step == RecordUnknown(story.lost)
        case End():
            return step in ends(story, step.content)
        case LookUp():
            may_send = story.verdict.action != "deny" and not needs_a_yes(story)
            return step == LookUp(attempt, may_send, is_held(story))
        case Judge() | AwaitAnswers() | AwaitRemote() | Park():
            return True


def ends(story: Story, content: str) -> list[End]:
    """The possible `End` steps; the text of a denial varies."""
    if story.over or story.refused or story.doubted:
        return [End()]
    if story.need in REFUSED:
        return [End("declined", DECLINED, story.lost)]
    if story.in_doubt:
        return [End("unknown", MAY_HAVE_HAPPENED)]
    if TOOLS[story.tool] is None:
        return [End(MISSING.outcome, MISSING.content, story.lost)]
    return [End("denied", content, story.lost)]


# ----------------------------------------------------------------------- promises


PROMISES_OF_SENDING: Mapping[str, Callable[[Story, Send], bool]] = {
    "a `once` call that may have happened is sent again only if a person says so": lambda story, step: (
        not (story.in_doubt and step.effect == "once")
        and all(
            each.effect != "once" or each.state == "over" or each.outcome == "retry"
            for each in story.attempts
        )
    ),
    "a call is sent again by itself at most `RESENDS` times": lambda story, step: (
        not (story.doubted and story.sent_here) or story.resent < RESENDS
    ),
    "after a question, a call leaves only with approved arguments to the approved tool": lambda story, step: (
        story.asked is None
        or (story.asked.state, fingerprint(story.asked.tool), ARGUMENTS[story.asked.counts])
        == ("approved", fingerprint(story.tool), step.arguments)
    ),
    "a call that the gate asks about leaves only after a person allowed it": lambda story, step: (
        story.verdict.action != "ask" or story.approved or story.retried
    ),
    "nothing is sent that is denied or gone": lambda story, step: (
        story.verdict.action != "deny" and TOOLS[story.tool] is not None
    ),
    "nothing is sent without the token of its run": lambda story, step: story.token or not story.tokened,
    "no `once` call leaves while the agent is halted, except with refusals": lambda story, step: (
        not story.halted or step.effect != "once" or (step.held and story.need == "decisions, refused")
    ),
    "an approval lapses with the next halt": lambda story, step: (
        step.effect != "once" or step.held or not agreed(story) or story.halts in agreed(story)
    ),
    "attempts count up by one": lambda story, step: step.attempt == len(story.attempts) + 1,
    "no class is weaker than an earlier one, or than the tool's": lambda story, step: all(
        EFFECTS.index(step.effect) >= EFFECTS.index(each)
        for each in (effect_today(story), *(each.effect for each in story.attempts))
    ),
}
PROMISES: Mapping[str, Callable[[Story, Step], bool]] = {
    "the loss of a destructive or approved call asks a person": lambda story, step: (
        not (isinstance(step, End) and story.doubted and story.attempts[-1].asks)
        or story.over
        or story.attempts[-1].outcome == "known"
    ),
    "no call has two pending questions": lambda story, step: (
        not isinstance(step, Ask | AskOutcome)
        or not (story.pending or any(each.outcome == "pending" for each in story.attempts))
    ),
    "a process that shuts down neither asks nor sends": lambda story, step: (
        not (story.draining and isinstance(step, tuple(BEGINNINGS)))
    ),
}


# ------------------------------------------------------------------------- search

EARLY = Attempt(UNWRITTEN, "shown", "once", asks=True)
"""An attempt recorded by a version that did not store the tool's fingerprint."""

ROOTS = [
    *(
        Story(name, rules, crashes=1)
        for name in ("reads", "held", "idempotent", "plain", "destroys")
        for rules in RULES
        if rules not in ("ask by another rule", "deny")
    ),
    Story("reads", "run", changes=1, crashes=1),
    Story("idempotent", "run", changes=1),
    *(Story("destroys", rules, changes=1) for rules in ("run", "ask")),
    Story("idempotent", "run", tokened=True, token=True, crashes=1),
    Story("destroys", "ask", tokened=True, token=True, crashes=1),
    Story("destroys", "ask", attempts=(EARLY,)),
    *(
        Story(name, rules, remote=True, crashes=2)
        for name in ("plain", "destroys")
        for rules in ("run", "ask")
    ),
    Story("plain", "run", remote=True, tokened=True, token=True, crashes=1),
    Story("idempotent", "run", stops=1),
    *(Story(name, rules, stops=1) for name, rules in (("plain", "run"), ("destroys", "ask"))),
    Story("plain", "run", remote=True, stops=1, crashes=1),
]


def test_every_reachable_history_keeps_the_promises() -> None:
    soonest: dict[Story, Story] = {}
    waiting, reached, taken = deque(ROOTS), set(map(consequence, ROOTS)), Counter[type[Step]]()
    while waiting:
        story = waiting.popleft()
        step = checked(story)
        taken[type(step)] += 1
        if story.over:
            continue
        for each in on_the_way_out(story):
            taken[type(checked(each))] += 1
        after = list(answered(story, step))
        soonest[consequence(story)] = consequence(after[0])
        for each in (*after, *mishaps(story)):
            if (same := consequence(each)) not in reached:
                reached.add(same)
                waiting.append(each)
    assert taken.keys() == set(get_args(Step)) - {Judge}
    end: set[Story] = set()
    for story in soonest:
        path = [story]
        while path[-1] not in end and not path[-1].over:
            path.append(soonest[path[-1]])
            assert len(path) < 20, f"no end: {path}"
        end.update(path)


def checked(story: Story) -> Step:
    """The step after a story. Stories that differ only in the changes and crashes to come share a check."""
    return check(story._replace(changes=0, crashes=0, stops=0))


@cache
def check(story: Story) -> Step:
    """The step after a story; it must be right with and without the judgement."""
    allowed, step, unjudged = permitted(story), step_of(story), step_of(story, unjudged=True)
    assert not isinstance(step, Judge)
    for each in (step,) if unjudged in (step, Judge()) else (step, unjudged):
        assert type(each) in allowed, f"{each} is not one of {allowed} after {story}"
        assert exact(story, each), f"{each} is wrong in itself after {story}"
        for promise, kept in PROMISES.items():
            assert kept(story, each), f"not kept: {promise}: {each} after {story}"
        if isinstance(each, Send):
            for promise, in_sending in PROMISES_OF_SENDING.items():
                assert in_sending(story, each), f"not kept: {promise}: {story}"
    return step


# -------------------------------------------------------------------------- table


def asked(state: Any = "approved", counts: str = "shown") -> Question:
    return Question("destroys", "a", "shown", counts, state)


def lost(**fields: Any) -> Attempt:
    """An attempt whose outcome is unknown, with these fields."""
    return Attempt("destroys", "shown", "once", asks=True, state="unknown")._replace(**fields)


def over(need: str) -> Attempt:
    return lost(state="over", need=need)


def send(number: int, **fields: Any) -> Send:
    shown = ARGUMENTS["shown"]
    first = Send(attempt=number, arguments=shown, effect="once", asks=True, lost=(), resends=RESENDS)
    return attrs.evolve(first, **fields)


def ask(replaces: str | None, arguments: str = "shown", rule: str = "a") -> Ask:
    return Ask(f"{KEY}~{1 if replaces else 0}", ARGUMENTS[arguments], rule, replaces)


YES, EDIT = asked(), asked(counts="edited")
LOST_READ = lost(tool="reads", effect="read", asks=False)
CUT_OFF = lost(state="open")
CUT_OFF_READ = LOST_READ._replace(state="open")
DENIED = "Denied by policy: d. "

TABLE: Mapping[str, tuple[Story, Step]] = {
    "destructive": (Story(), ask(None)),
    "a yes": (Story(questions=(YES,)), send(1)),
    "a yes to an edit": (Story(questions=(EDIT,)), send(1, arguments=ARGUMENTS["edited"])),
    "an edit that another rule asks about": (
        Story(rules="ask more of the edit", questions=(EDIT,)),
        ask("id0", "edited", "b"),
    ),
    "an edit that is denied": (
        Story(rules="deny the edit", questions=(EDIT,)),
        End("denied", DENIED + "Nothing was done."),
    ),
    "a no, and the rules would run it": (Story(rules="run", questions=(asked("rejected"),)), End()),
    "a text instead, and the rules would run it": (Story(rules="run", questions=(asked("answered"),)), End()),
    "no answer in time": (Story(rules="run", questions=(asked("expired"),)), End()),
    "a yes, then a no to the next question": (Story(questions=(YES, asked("rejected"))), End()),
    "a question that was taken back": (Story(questions=(asked("void"),)), ask("id0")),
    "no answer yet": (Story(rules="run", questions=(asked("pending"),)), AwaitDecision(f"{KEY}~0")),
    "another description after the yes": (Story("changed", questions=(YES,)), ask("id0")),
    "weaker hints after the yes": (Story("reads", "run", (YES,)), ask("id0", rule="r")),
    "another name after the yes": (Story("renamed", questions=(YES,)), send(1)),
    "another rule after the yes": (Story(rules="ask by another rule", questions=(YES,)), send(1)),
    "a denial after the yes": (
        Story(rules="deny", questions=(YES,)),
        End("denied", DENIED + "Nothing was done."),
    ),
    "a yes in a shutdown": (Story(questions=(YES,), draining=True), Park()),
    "a yes, but no token any more": (Story(questions=(YES,), tokened=True), AwaitCredential(WANTED)),
    "a yes to the tool as it was before the last question": (
        Story(questions=(YES, YES._replace(tool="changed"))),
        Ask(f"{KEY}~2", ARGUMENTS["shown"], "a", "id1"),
    ),
    "a rule whose question was taken back": (
        Story(rules="ask more of the edit", questions=(asked("void")._replace(rule="b"), EDIT)),
        Ask(f"{KEY}~2", ARGUMENTS["edited"], "b", "id1"),
    ),
    "an edit that only the same rule asks about": (
        Story(rules="run the call as shown", questions=(EDIT,)),
        send(1, arguments=ARGUMENTS["edited"]),
    ),
    "several attempts without an end": (Story(attempts=(CUT_OFF, CUT_OFF)), RecordUnknown((1, 2))),
    "a crash in between": (Story(questions=(YES,), attempts=(CUT_OFF,)), RecordUnknown((1,))),
    "its outcome is unknown": (Story(questions=(YES,), attempts=(lost(),)), AskOutcome(1)),
    "neither destructive nor approved": (
        Story("plain", "run", attempts=(lost(tool="plain", asks=False),)),
        End(),
    ),
    "destructive when it was sent, only reads now": (
        Story("reads", "run", attempts=(lost(tool="held"),), sent_here=True, resends=1),
        AskOutcome(1),
    ),
    "refused, and its hints are weaker now": (
        Story("reads", "run", attempts=(over("token, given")._replace(tool="held"),)),
        send(2),
    ),
    "only reads, cut off by a crash": (
        Story("reads", "run", attempts=(CUT_OFF_READ,)),
        send(2, effect="read", asks=False, lost=(1,)),
    ),
    "only read when it was cut off": (Story("held", "run", attempts=(CUT_OFF_READ,)), RecordUnknown((1,))),
    "ran unasked when it was cut off": (Story("reads", "ask", attempts=(CUT_OFF_READ,)), RecordUnknown((1,))),
    "only reads, sent again already": (Story("reads", "run", attempts=(LOST_READ,)), End()),
    "it happened, a person says": (Story(questions=(YES,), attempts=(lost(outcome="known"),)), End()),
    "a retry needs no second yes": (Story(attempts=(lost(outcome="retry"),)), send(2)),
    "a retry of a changed tool": (Story("changed", attempts=(lost(outcome="retry"),)), ask(None)),
    "a retry that is denied": (
        Story(rules="deny", questions=(YES,), attempts=(lost(outcome="retry"),)),
        End("denied", DENIED + "It was not sent again."),
    ),
    "a retry that is lost": (Story(attempts=(lost(outcome="retry"), lost())), AskOutcome(2)),
    "a crash, and a token is wanted": (
        Story(questions=(YES,), attempts=(over("token"),), tokened=True),
        AwaitCredential(WANTED),
    ),
    "the token is there": (Story(questions=(YES,), attempts=(over("token, given"),)), send(2)),
    "a form was declined": (Story(questions=(YES,), attempts=(over("form, answered"),)), send(2)),
    "a visit was declined": (Story(attempts=(over("visit, declined"),)), End("declined", DECLINED)),
    "it may have happened before, and is denied now": (
        Story("reads", "deny", attempts=(LOST_READ, over("token, given")._replace(effect="read"))),
        End("unknown", MAY_HAVE_HAPPENED),
    ),
    "an agent, cut off by a crash": (
        Story("plain", "run", remote=True, attempts=(CUT_OFF,)),
        LookUp(1, True),
    ),
    "an agent, cut off and denied now": (
        Story(rules="deny", remote=True, questions=(YES,), attempts=(CUT_OFF,)),
        LookUp(1, False),
    ),
    "an agent, cut off and gone now": (Story("gone", remote=True, attempts=(CUT_OFF,)), RecordUnknown((1,))),
    "an agent, cut off and without the token": (
        Story("plain", "run", remote=True, tokened=True, attempts=(CUT_OFF,)),
        AwaitCredential(WANTED),
    ),
    "an agent that asks": (Story("plain", "run", remote=True, attempts=(over("decisions"),)), AwaitRemote()),
    "an agent that is answered": (
        Story(questions=(YES,), remote=True, attempts=(over("decisions, made"),)),
        send(2),
    ),
    "an agent that asks for ever": (
        Story(questions=(YES,), remote=True, attempts=(over("decisions, made"),) * MAX_EXCHANGES),
        End("declined", ASKED_FOR_EVER),
    ),
    "halted": (Story("plain", "run", halted=True, halts=1), ask(None, rule=RULE)),
    "halted, and a rule asks, too": (Story(halted=True, halts=1), ask(None)),
    "halted, and it is denied": (
        Story(rules="deny", halted=True, halts=1),
        End("denied", DENIED + "Nothing was done."),
    ),
    "halted, and it only reads": (
        Story("reads", "run", halted=True, halts=1),
        send(1, effect="read", asks=False),
    ),
    "halted after the yes": (Story(questions=(YES,), halted=True, halts=1), ask("id0", rule=RULE)),
    "halted for a while after the yes": (Story(questions=(YES,), halts=1), ask("id0", rule=RULE)),
    "a yes after the halt": (Story(questions=(YES, YES._replace(halts=1)), halts=1), send(1)),
    "halted for a while, and nobody was asked": (Story("plain", "run", halts=1), send(1, asks=False)),
    "a retry before a halt": (Story(attempts=(lost(outcome="retry"),), halts=1), ask(None, rule=RULE)),
    "a retry after a halt": (
        Story(questions=(YES,), attempts=(lost(outcome="retry", halts=1),), halts=1),
        send(2),
    ),
    "halted, and an agent is cut off by a crash": (
        Story("plain", "run", remote=True, attempts=(CUT_OFF,), halted=True, halts=1),
        LookUp(1, True, held=True),
    ),
    "halted, and an agent is refused": (
        Story("plain", "run", remote=True, attempts=(over("decisions, refused"),), halted=True, halts=1),
        send(2, held=True),
    ),
    "halted, and an agent was answered before": (
        Story("plain", "run", remote=True, attempts=(over("decisions, made"),), halted=True, halts=1),
        ask(None, rule=RULE),
    ),
    "a server that asks on and on": (
        Story(questions=(YES,), attempts=(over("form"),) * MAX_ATTEMPTS),
        End("declined", ASKED_ON),
    ),
    "a server that asks once less": (
        Story(questions=(YES,), attempts=(over("form"),) * (MAX_ATTEMPTS - 1)),
        AwaitAnswers(),
    ),
}


@pytest.mark.parametrize(("story", "expected"), TABLE.values(), ids=TABLE)
def test_next_step_by_table(story: Story, expected: Step) -> None:
    assert [step_of(story), step_of(story)] == [expected, expected]


def test_changed_tool_replaces_the_pending_approval() -> None:
    story = Story("changed", questions=(asked("pending"),))
    _, (old,) = facts(story.questions, (), False, False)
    assert step_of(story) == Replace(old, f"{KEY}~1", "a")
