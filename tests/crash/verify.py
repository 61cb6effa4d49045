"""The checks at the end of a story, whatever was killed and when."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import takewhile
from typing import Any

import attrs

from stopgo.actors.approvals.kinds import approval_of
from stopgo.actors.log.fold.record import Message, RecordedExchange
from stopgo.actors.log.fold.state import Conversation
from stopgo.actors.log.words import events as e
from stopgo.actors.models.messages.messages import AssistantMessage, ToolMessage
from stopgo.runtime.journal.protocol import Event, Json
from stopgo.runtime.journal.question import Question

from .demands import NUMBER
from .remote_agent import TOOL as REMOTE
from .story import Record, Story
from .verify_agents import check_agents
from .world import ONCE, label_of

UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")

_UNSENT = ("rejected", "answered", "denied", "requested", "waiting", "cancelled")
"""The states of a call that was never sent."""


def verify(story: Story, undisturbed: Story | None = None) -> None:
    """Check the promises of a story, and compare it with the undisturbed story, if given."""
    assert story.world.wrongs == []
    _check_log(story)
    _check_calls(story)
    _check_attempts(story.record.events)
    if not story.client.deleted:
        _check_indexes(story.record)
        check_agents(story.record.events, story.record.conversation.live_run is None, story.world.remote)
        _check_commands(story)
    story.scenario.check(story)
    if undisturbed is not None and story.scenario.compared:
        assert essence(story) == essence(undisturbed, forgotten=doubtful(story))
        if not (unknowns(story.record) - unknowns(undisturbed.record) or story.client.deleted):
            _check_answers(story, undisturbed)


def _check_answers(story: Story, undisturbed: Story) -> None:
    """Everybody is told the same, unless a token or a question was lost with a process, or nobody was there
    while it could be answered: then others hear of the end, or more."""
    if _waits(story.record) != _waits(undisturbed.record):
        assert _told_ends(story.client.answers) >= _told_ends(undisturbed.client.answers)
    else:
        assert scrubbed(story.client.answers) == scrubbed(undisturbed.client.answers)
        assert _kept(story.record.replies) == _kept(undisturbed.record.replies)


def json_form(event: Event) -> tuple[str, float, object]:
    return event.type, event.at, json.loads(json.dumps(event.body))


# ------------------------------------------------------------------ promise 1


def _check_log(story: Story) -> None:
    """Every published event is on record, and none was missed."""
    events = story.record.events
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    if story.client.deleted:
        assert story.record.row is None
        left = (story.record.questions, story.record.intents, story.record.inbox, events)
        assert not any(left)
        return
    for seq, event in story.client.seen.items():
        assert seq <= len(events), f"{event} was told and is lost"
        assert json_form(events[seq - 1]) == json_form(event)


def _check_commands(story: Story) -> None:
    """Every accepted command is executed and answered, and its answer does not change."""
    record = story.record
    assert record.inbox == ()
    assert record.open_work == ()
    unanswered = [key for key, reply in record.replies.items() if reply is None]
    assert [key for key in unanswered if "error" not in (story.client.answers.get(key) or {})] == []
    said = [event.body["command"] for event in record.events if event.type == e.MessageAdded.type]
    assert len(said) == len(set(said)), "a message was taken twice"
    decided = [event.body["id"] for event in record.events if event.type == e.ApprovalResolved.type]
    assert len(decided) == len(set(decided)), "a question was answered twice"


# ------------------------------------------------------------------ promise 2


def _check_calls(story: Story) -> None:
    """A `once` call ran at most once, plus the retries that humans decided."""
    world, record = story.world, story.record
    retries: dict[str, int] = {}
    for question in record.questions:
        if question.kind == "outcome_unknown" and (question.decision or {}).get("action") == "retry":
            label = label_of(question.body["tool_args"])
            retries[label] = retries.get(label, 0) + 1
    for entry in world.ledger:
        if entry.tool in ONCE:
            allowed = 1 + retries.get(entry.label, 0) if not story.client.deleted else 2
            assert world.times(entry.label) <= allowed, f"{entry} ran {world.times(entry.label)} times"
        assert "delete" not in entry.acknowledged, f"{entry} ran after the deletion"
    for message in record.conversation.messages:
        call = message.call
        if call is not None and call.state == "finished" and not call.is_error and call.name != "exit_loop":
            assert world.times(label_of(call.arguments)) >= 1, f"{call} never ran"
        if call is not None and call.name == REMOTE and call.state in ("waiting", "cancelled"):
            continue  # its agent has a task, which did what people had agreed to by then
        if call is not None and call.state in _UNSENT:
            assert world.times(label_of(call.arguments)) == 0, f"{call} ran"


def _check_attempts(events: Sequence[Event]) -> None:
    """A call is made again only when nothing was done, or when it may be, or a human says so; and not before
    its server can have what it wanted."""
    ended: dict[tuple[str, int], tuple[int, Json | None]] = {}
    keys: dict[str, str] = {}
    answered: dict[str, Json] = {}
    token = -1
    for event in events:
        body = event.body
        match event.type:
            case e.ApprovalRequested.type:
                keys[body["id"]] = body["question"]
            case e.ApprovalResolved.type:
                answered[keys[body["id"]]] = body["decision"]
            case e.ApprovalExpired.type:
                answered[keys[body["id"]]] = {}
            case e.ToolFinished.type:
                ended[body["key"], body["attempt"]] = (event.seq, body.get("need"))
            case e.ToolStarted.type if body["attempt"] > 1:
                key, last = body["key"], body["attempt"] - 1
                seq, need = ended.get((key, last), (0, None))
                if need is None:
                    once = body["effect"] == "once"
                    assert not once or answered[f"{key}?{last}"]["action"] == "retry", (
                        f"{event} was not asked for"
                    )
                elif need["kind"] == "credential":
                    assert token > seq, f"{event} brings no other token"
                elif need["kind"] == "answers":
                    wanted = {f"{key}^{last}.{number}" for number in range(len(need["requests"]))}
                    assert wanted <= answered.keys(), f"{event} brings no answers"
        if body.get("token"):
            token = event.seq


# -------------------------------------------------------------------- indexes


def _check_indexes(record: Record) -> None:
    """Questions, summary and intents agree with the events."""
    folded = record.conversation
    asked = [attrs.evolve(each, settled=None) for each in folded.approvals.values()]
    assert [attrs.evolve(approval_of(each), settled=None) for each in record.questions] == asked
    assert record.row is not None
    assert record.row.summary == folded.head.summary()
    assert record.row.last_seq == folded.last_seq == len(record.events)
    states: dict[tuple[str, int], str] = {}
    for event in record.events:
        if event.type in _INTENT_STATES:
            states[event.body["key"], event.body["attempt"]] = _INTENT_STATES[event.type]
    assert {(intent.key, intent.attempt): intent.state for intent in record.intents} == states
    if folded.live_run is None:
        assert "started" not in states.values(), "the run has ended and the call has not"
        assert folded.head.pending == ()


_INTENT_STATES = {
    e.ToolStarted.type: "started",
    e.ToolFinished.type: "finished",
    e.ToolUnknown.type: "unknown",
}


# -------------------------------------------------------------- what it came to


def doubtful(story: Story) -> frozenset[str]:
    """Labels of the calls whose outcome nobody knows: what they came to may be told differently. Calls that
    may be repeated are not among them, for they are."""
    return frozenset(
        label_of(message.call.arguments)
        for message in story.record.conversation.messages
        if message.call is not None and message.call.state == "unknown" and message.call.name in ONCE
    )


def unknowns(record: Record) -> frozenset[tuple[str, str]]:
    """The calls whose outcome was unknown for a while, with the reason."""
    return frozenset(
        (event.body["key"], event.body["reason"])
        for event in record.events
        if event.type == e.ToolUnknown.type
    )


def _waits(record: Record) -> Any:
    """The tokens a run waited for, and why; the questions that were lost in the middle of calls; and whether
    a question had expired before anybody was told of it."""
    void = [each for each in record.questions if each.state == "void" and each.body.get("in_flight")]
    tokens = [event.body.get("status") for event in record.events if event.type == e.RunAuthRequired.type]
    told = list(takewhile(lambda event: event.type != e.ApprovalExpired.type, record.events))
    unheard = len(told) < len(record.events) and e.RunWaiting.type not in {event.type for event in told}
    return tokens, len(void), unheard


def _told_ends(answers: Mapping[str, Any]) -> set[str]:
    """The answers about the end of a run."""
    ends = ("finished", "failed", "cancelled")
    return {repr(scrubbed(each)) for each in answers.values() if each and each.get("state") in ends}


def essence(story: Story, forgotten: frozenset[str] | None = None) -> Mapping[str, Any]:
    """The conversation without ids, times, questions about unknown outcomes, and the order in which
    branches happened to come."""
    conversation = story.record.conversation
    without = doubtful(story) if forgotten is None else forgotten
    run = conversation.head.run
    return {
        "status": conversation.head.status,
        "title": conversation.head.title,
        "run": run and run._replace(id=""),
        "turns": [_turn(turn, without) for turn in conversation.turns],
        "messages": _by_node(conversation.messages, without),
        "approvals": _approvals(conversation, without),
    }


def _turn(turn: RecordedExchange, without: frozenset[str]) -> Any:
    """The part of it that later turns get as history."""
    told: dict[str, list[object]] = {}
    for node, messages in turn.calls.items():
        labels: list[str] = []
        for each in messages:
            if isinstance(each, AssistantMessage):
                labels = [label_of(call.arguments) for call in each.tool_calls]
                told.setdefault(node, []).append((each.text, each.tool_calls))
            elif isinstance(each, ToolMessage):
                known = labels.pop(0) not in without
                told[node].append((scrubbed(each.content), each.is_error) if known else each.call_id)
    return turn.user, turn.answer, told


def _by_node(messages: Iterable[Message], without: frozenset[str]) -> Mapping[str | None, list[Any]]:
    found: dict[str | None, list[Any]] = {}
    for message in messages:
        call = message.call
        if call is not None and label_of(call.arguments) in without:
            told: Any = (message.role, call.id, call.name, call.arguments)
        else:
            told = (message.role, scrubbed(message.content), call)
        found.setdefault(message.node, []).append(told)
    return found


def _approvals(conversation: Conversation, without: Iterable[str]) -> list[Any]:
    """What was asked about calls, and what servers asked first, each once. What they asked in the middle of
    calls they ask again when a call is made again."""
    asked = conversation.approvals.values()
    about = [each for each in asked if each.kind in ("tool", "proxy")]
    theirs = [
        each
        for each in asked
        if each.kind == "elicitation" and label_of(each.body["tool_args"]) not in without
    ]
    first = [each for each in theirs if not each.body["in_flight"]]
    amid = {_asked(each) for each in theirs if each.body["in_flight"] and each.state != "void"}
    return sorted([*map(_asked, (*about, *first)), *amid])


def _asked(question: Question) -> tuple[str, ...]:
    decision, arguments = scrubbed(question.decision), scrubbed(question.body["tool_args"])
    return question.body["key"], question.kind, question.state, repr(decision), repr(arguments)


def _kept(replies: Mapping[str, Json | None]) -> Any:
    """Without refusals, because their number depends on the number of repetitions."""
    return scrubbed({key: reply for key, reply in replies.items() if reply and "error" not in reply})


def scrubbed(value: Any) -> Any:
    """The same without ids, and without answers about unknown outcomes."""
    match value:
        case str():
            # What is asked at the same moment comes in any order.
            return "\n\n".join(sorted(NUMBER.sub("", UUID.sub("#", value)).split("\n\n")))
        case Mapping():
            known = {key: each for key, each in value.items() if not str(key).startswith("unknown ")}
            return {UUID.sub("#", str(key)): scrubbed(each) for key, each in known.items()}
        case list() | tuple():
            return [scrubbed(each) for each in value]
        case _:
            return value
