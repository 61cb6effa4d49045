"""The invariants of a conversation's record, checked after every simulated process."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import attrs

from stopgo.actors.approvals.kinds import approval_of
from stopgo.actors.gate.halt import RULE
from stopgo.actors.log.fold.state import Conversation, fold
from stopgo.actors.log.words import events as e
from stopgo.actors.log.words import keys
from stopgo.runtime.journal.memory.memory_stream import Intent
from stopgo.runtime.journal.protocol import Command, Event
from stopgo.runtime.journal.question import Question
from stopgo.runtime.journal.summary import Row
from stopgo.runtime.json_text import dump
from tests.actors.log.rebuilt_keys import keys_of

from .plan import DENIED_ABOVE
from .trees import walk

FAILURES = frozenset(
    {"approval_expired", "delegation_failed", "limit_reached", "model_error", "no_route", "timed_out"}
)
"""The codes with which a run may fail if nothing is wrong."""


@attrs.frozen(eq=False)
class Record:
    """A conversation as the journal holds it."""

    id: str
    events: tuple[Event, ...]
    row: Row
    questions: tuple[Question, ...]
    intents: tuple[Intent, ...]
    inbox: tuple[Command, ...]
    came_to: Mapping[tuple[str, str, int], str | None] = {}
    """The tools' results of the attempts that were sent (`World.came_to`)."""


def audit(record: Record) -> Iterator[str]:
    """A sentence for each violation."""
    seqs = [event.seq for event in record.events]
    if seqs != list(range(1, len(seqs) + 1)):
        yield f"seq has gaps: {seqs}"
    yield from _indexes(record)
    yield from _order(record.events)
    yield from _keys(record.events)
    yield from _outcomes(record)
    for run in _runs(record.events):
        yield from _calls(run)
        yield from _attempts(run)
        yield from _loops(run)
        yield from _rejections(run)
        yield from _repetitions(run)
        yield from _questions(run)
        yield from _bounds(run)


def _keys(events: Sequence[Event]) -> Iterator[str]:
    for event in events:
        for key, again in keys_of(event.type, event.body):
            if again != key:
                yield f"event {event.seq} has the key {key}, which is built as {again}"


# --------------------------------------------------------------------- indexes


def _indexes(record: Record) -> Iterator[str]:
    folded = fold(record.id, record.events)
    # A decision counts as soon as it is in the inbox; its event comes with the next life.
    coming = {command.body["question"] for command in record.inbox if command.kind == "decision"}
    asked = [attrs.evolve(each, settled=None) for each in folded.approvals.values() if each.id not in coming]
    rows = [approval_of(each) for each in record.questions if each.id not in coming]
    kept = [attrs.evolve(each, settled=None) for each in rows]
    if plain(sorted(asked, key=_id)) != plain(sorted(kept, key=_id)):
        yield f"the questions are not what the events say: {kept} and {asked}"
    if plain(record.row.summary) != plain(folded.head.summary()):
        yield f"the summary is not what the events say: {record.row.summary} and {folded.head.summary()}"
    if (record.row.created, record.row.updated) != (folded.created, folded.updated):
        yield f"the row is dated {record.row}, and the events {folded.created} to {folded.updated}"
    if record.row.last_seq != len(record.events):
        yield f"last_seq is {record.row.last_seq}, with {len(record.events)} events"
    states = {
        (event.body["key"], event.body["attempt"]): _INTENT_STATES[event.type]
        for event in record.events
        if event.type in _INTENT_STATES
    }
    if {(intent.key, intent.attempt): intent.state for intent in record.intents} != states:
        yield f"the intents are not what the events say: {record.intents} and {states}"
    if folded.live_run is None and (folded.head.pending or "started" in states.values()):
        yield "the run has ended, and something of it has not"


_INTENT_STATES = {
    e.ToolStarted.type: "started",
    e.ToolFinished.type: "finished",
    e.ToolUnknown.type: "unknown",
}


def _id(question: Question) -> str:
    return question.id


def difference(live: Conversation, events: Sequence[Event]) -> str | None:
    """The differences between a live fold and the fold of its events."""
    replayed = fold(live.id, events[: live.last_seq])
    for name in (
        "head",
        "messages",
        "approvals",
        "turns",
        "trees",
        "live_run",
        "created",
        "updated",
        "last_seq",
    ):
        if plain(getattr(live, name)) != plain(getattr(replayed, name)):
            return f"{name} is {getattr(live, name)} live, and replayed {getattr(replayed, name)}"
    return None


def plain(value: Any) -> Any:
    """The value with tuples as lists, because JSON does not distinguish them."""
    if attrs.has(type(value)):
        return {field.name: plain(getattr(value, field.name)) for field in attrs.fields(type(value))}
    if isinstance(value, Mapping):
        return {str(key): plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    return value


# --------------------------------------------------------------------- outcomes


def _outcomes(record: Record) -> Iterator[str]:
    """An attempt that left has the result that its tool gave; without one, it may have happened, and it ends
    as unknown."""
    for event in record.events:
        if event.type == e.ToolFinished.type and "need" not in event.body:
            place = (record.id, event.body["key"], event.body["attempt"])
            content = event.body["result"]["content"]
            if place in record.came_to and record.came_to[place] != content:
                yield f"{place} is said to have come to {content!r}, and came to {record.came_to[place]!r}"


# ------------------------------------------------------------------------ order


_ENDS = frozenset({e.RunFinished.type, e.RunFailed.type, e.RunCancelled.type})
_OF_A_RUN = frozenset(e.TYPES) - {
    e.ConversationCreated.type,
    e.MessageAdded.type,
    e.RunStarted.type,
    e.ConversationCompleted.type,
}


def _order(events: Sequence[Event]) -> Iterator[str]:
    """Runs begin and end alternately, and all events of a run are between its start and its end."""
    going, completed = False, False
    said: set[str] = set()
    for event in events:
        starts = event.type == e.RunStarted.type
        if completed or (starts and going) or (event.type in _OF_A_RUN and not going):
            yield f"event {event.seq}, {event.type}, comes too late or too early"
        if event.type == e.RunStarted.type:
            going = True
        elif event.type in _ENDS:
            going = False
        completed = completed or event.type == e.ConversationCompleted.type
        if event.type == e.MessageAdded.type:
            if event.body["command"] in said:
                yield f"{event.body['command']} was taken twice"
            said.add(event.body["command"])
        if event.type == e.RunFailed.type and event.body["code"] not in FAILURES:
            yield f"the run failed with {event.body}"


# -------------------------------------------------------------------- one run


@attrs.frozen(eq=False)
class _Run:
    events: Sequence[Event]
    nodes: Mapping[tuple[int, ...], Mapping[str, Any]]
    """The nodes, by path, of the tree with which it was started."""

    def keyed(self) -> Iterator[tuple[Event, str]]:
        for event in self.events:
            if "key" in event.body:
                yield event, event.body["key"]


def _runs(events: Sequence[Event]) -> Iterator[_Run]:
    trees = {event.body["tree_id"]: event.body["tree"] for event in events if "tree" in event.body}
    starts = [n for n, event in enumerate(events) if event.type == e.RunStarted.type]
    for start, end in zip(starts, [*starts[1:], len(events)], strict=True):
        yield _Run(events[start:end], dict(walk(trees[events[start].body["tree_id"]])))


def _calls(run: _Run) -> Iterator[str]:
    """A call is sent only as a human last approved it, and once, unless a human decides to retry it."""
    questions: dict[str, dict[str, Any]] = {}
    answers: dict[str, tuple[str, Mapping[str, Any] | None]] = {}
    last_asked: dict[str, str] = {}
    retried: set[str] = set()
    refused: set[str] = set()
    """Attempts whose server demanded a prerequisite."""
    over: dict[str, str] = {}
    begun: set[tuple[str, int]] = set()
    for event in run.events:
        body = event.body
        match event.type:
            case e.ApprovalRequested.type:
                questions[body["id"]] = dict(body)
                if body["kind"] == "tool":
                    last_asked[body["key"]] = body["id"]
                if body["key"] in over:
                    yield f"{body['key']} is asked about, and was {over[body['key']]}"
            case e.ApprovalResolved.type | e.ApprovalExpired.type | e.ApprovalVoid.type:
                if body["id"] in answers:
                    yield f"{body['id']} was answered twice"
                question = questions[body["id"]]
                answers[body["id"]] = (event.type, body.get("decision"))
                yield from _answer(event, question)
                if question["kind"] == "tool" and _says_no(event):
                    over[question["key"]] = event.type
                if body.get("decision", {}).get("action") == "retry":
                    retried.add(question["question"])
            case e.StepFinished.type if body["kind"] == "call":
                over[body["key"]] = body["outcome"]
            case e.ToolFinished.type if "need" in body:
                refused.add(f"{body['key']}?{body['attempt']}")
            case e.ToolFinished.type:
                over[body["key"]] = "finished"
            case e.ToolStarted.type:
                key, attempt = body["key"], body["attempt"]
                if key in over:
                    yield f"{key} was started, and was {over[key]}"
                if (key, attempt) in begun or (attempt > 1 and (key, attempt - 1) not in begun):
                    yield f"attempt {attempt} of {key} was started out of turn"
                begun.add((key, attempt))
                again = f"{key}?{attempt - 1}" in retried | refused
                if attempt > 1 and body["effect"] == "once" and not again:
                    yield f"attempt {attempt} of {key} was started unasked"
                if attempt == 1 and key in last_asked:
                    yield from _allowed(body, questions[last_asked[key]], answers.get(last_asked[key]))
                if body["tool"] == "wipe" and body["arguments"]["level"] > DENIED_ABOVE:
                    yield f"{key} was started, which a rule denies"


def _answer(event: Event, question: Mapping[str, Any]) -> Iterator[str]:
    expires = question.get("expires")
    if event.type == e.ApprovalResolved.type and expires is not None and event.at >= expires:
        yield f"{question['id']} was decided at {event.at}, and had expired at {expires}"
    if event.type == e.ApprovalExpired.type and (expires is None or event.at < expires):
        yield f"{question['id']} expired at {event.at}, and was good until {expires}"


def _says_no(event: Event) -> bool:
    """Whether the call ends without being sent."""
    decision = event.body.get("decision", {})
    ends = decision.get("approved") is False or decision.get("action") == "respond"
    return event.type == e.ApprovalExpired.type or ends


def _allowed(
    started: Mapping[str, Any],
    question: Mapping[str, Any],
    answer: tuple[str, Mapping[str, Any] | None] | None,
) -> Iterator[str]:
    key = started["key"]
    type, decision = answer or ("pending", None)
    if decision is None or decision.get("approved") is not True:
        yield f"{key} was started, and its approval is {type}: {decision}"
    elif started["arguments"] != decision.get("arguments", question["tool_args"]):
        yield f"{key} was started with {started['arguments']}, and {decision} was approved"


def _attempts(run: _Run) -> Iterator[str]:
    """A node that has started a `once` call is not retried."""
    failed: dict[str, int] = {}
    for event, key in run.keyed():
        if event.type == e.StepFinished.type and event.body["kind"] == "attempt":
            failed[key.removesuffix("!")] = event.seq
    for event, key in run.keyed():
        if event.type == e.ToolStarted.type and event.body["effect"] == "once":
            for attempt, seq in failed.items():
                if key.startswith((f"{attempt}:", f"{attempt}.", f"{attempt}@")) and event.seq < seq:
                    yield f"{attempt} was given up for another attempt, and had started {key}"
    for attempt in failed:
        base, _, number = attempt.rpartition("!")
        tries = int(number) + 1 if base and number.isdigit() else 2
        retries = run.nodes[path_of(attempt)].get("retries", 0)
        if tries > retries + 1:
            yield f"{attempt} failed and is tried for the {tries}. time"


def _loops(run: _Run) -> Iterator[str]:
    """No child or iteration starts after `exit_loop` or after the last iteration."""
    exited: list[str] = []
    for event, key in run.keyed():
        for match in _ITERATION.finditer(key):
            loop, iteration, rest = key[: match.start()], int(match[1]), key[match.end() :]
            if iteration > run.nodes[path_of(loop)].get("max_iterations", 10):
                yield f"{key} is an iteration too many"
            child = int(re.match(r"\.(\d+)", rest)[1]) if rest else 0  # type: ignore[index]
            for by in exited:
                gone, _, place = by.rpartition("@")
                if gone == loop and [iteration, child] > [int(n) for n in re.findall(r"\d+", place)[:2]]:
                    yield f"{key} began after {by} exited its loop"
        if event.type == e.StepFinished.type and event.body.get("outcome") == "exit_loop":
            exited.append(key)
        exited = _without_failed(exited, event)


def _without_failed(begun: list[str], event: Event) -> list[str]:
    """Without those of an execution that this event says has failed: it has no end that could be that of the
    nodes above it, whatever happened in it."""
    if event.type != e.StepFinished.type or not event.body.keys() & {"error", "continued"}:
        return begun
    return [key for key in begun if not keys.is_within(key, event.body["key"].removesuffix("!"))]


def _rejections(run: _Run) -> Iterator[str]:
    """After a rejection, no sequential node or loop above it starts anything further, up to one that contains
    the rejection; and no model is told of it."""
    subjects: dict[str, str] = {}
    rejected: list[str] = []
    for event in run.events:
        if event.type == e.ApprovalRequested.type:
            subjects[event.body["id"]] = event.body["key"]
        if (key := event.body.get("key")) is not None and event.type != e.StateSet.type:
            yield from (f"{key} began after {no} was rejected" for no in rejected if _is_ended(run, no, key))
        if event.type in (e.ApprovalResolved.type, e.ApprovalExpired.type) and _rejects(event):
            rejected.append(subjects[event.body["id"]])
        if event.type == e.ToolFinished.type and event.body.get("rejected"):  # at another agent
            rejected.append(event.body["key"])
        if event.type == e.StepFinished.type and "repeats" in event.body:
            rejected.append(event.body["key"])


def _repetitions(run: _Run) -> Iterator[str]:
    """No person is asked anew about a call that was rejected in the same run, unless it was sent before."""
    sent: set[str] = set()
    asked: dict[str, tuple[str, ...]] = {}
    rejected: set[tuple[str, ...]] = set()
    for event in run.events:
        body = event.body
        if event.type == e.ToolStarted.type:
            sent.add(body["key"])
        if event.type == e.ApprovalRequested.type and body["kind"] == "tool":
            asked[body["id"]] = (body["server"], body["tool_name"], dump(body["tool_args"]))
            is_new = body["question"].endswith("~0") and body["key"] not in sent
            if is_new and asked[body["id"]] in rejected:
                yield f"{body['key']} is asked about, and was rejected before"
        if event.type in (e.ApprovalResolved.type, e.ApprovalExpired.type) and _rejects(event):
            rejected |= {asked[body["id"]]} if body["id"] in asked else set()


def _rejects(event: Event) -> bool:
    return event.body.get("on_expiry") == "reject" or event.body.get("decision", {}).get("approved") is False


def _is_ended(run: _Run, no: str, key: str) -> bool:
    """Whether `key` names an execution that must not start after the rejection of `no`."""
    asker, _, reply = no.partition(":")
    ends, tried_again = False, _is_later_attempt(key, asker)
    # The executions above what asked, the nearest first, and each time the place below it that leads there.
    for match in reversed(list(re.finditer(r"(@\d+)?\.\d+", asker))):
        above = run.nodes[path_of(asker[: match.start()])]
        tried_again = tried_again or _is_later_attempt(key, asker[: match.start()])
        if above["type"] not in ("sequential", "loop"):
            continue
        ends = True
        began = (
            re.match(r"(@\d+)?\.\d+", key[match.start() :])
            if key.startswith(asker[: match.start()])
            else None
        )
        if began is not None and _numbers(began[0]) > _numbers(match[0]):
            return True
        if above.get("on_reject") == "continue":
            break
    if ends and tried_again:
        return True
    told = re.fullmatch(r"(\d+)(\..*)?", key.removeprefix(f"{asker}:")) if reply else None
    return ends and told is not None and int(told[1]) > int(reply.partition(".")[0])


def _is_later_attempt(key: str, execution: str) -> bool:
    """Whether `key` names a later attempt of the same execution."""
    base, attempt = re.fullmatch(r"(.*?)(?:!(\d+))?", execution).groups("1")  # type: ignore[union-attr]
    later = re.match(r"!(\d+)", key.removeprefix(base)) if key.startswith(base) else None
    return later is not None and int(later[1]) > int(attempt)


def _numbers(text: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", text)]


def _questions(run: _Run) -> Iterator[str]:
    """The first questions of a reply come in the order of its calls; but for `peek`, which may ask from one
    life on, for calls that were sent already, and for those that a halt held back on their way."""
    last: dict[str, int] = {}
    sent: set[str] = set()
    for event in run.events:
        if event.type == e.ToolStarted.type:
            sent.add(event.body["key"])
        elif event.type == e.ApprovalRequested.type and event.body["question"].endswith("~0"):
            reply, _, number = event.body["key"].rpartition(".")
            if event.body["kind"] != "tool" or event.body["tool_name"] == "peek" or event.body["key"] in sent:
                continue
            if event.body["rule"] == RULE:
                continue
            if int(number) < last.get(reply, 0):
                yield f"{event.body['key']} is asked about after call {last[reply]} of its reply"
            last[reply] = int(number)


_ITERATION = re.compile(r"@(\d+)")


def _bounds(run: _Run) -> Iterator[str]:
    for event, key in run.keyed():
        if event.type == e.StepFinished.type and event.body["kind"] == "model":
            execution, _, call = key.rpartition(":")
            if int(call) > run.nodes[path_of(execution)].get("max_turns", 10):
                yield f"{key} is a model call too many"


def path_of(key: str) -> tuple[int, ...]:
    """The tree path of the node of an execution's key."""
    _, _, path = re.sub(r"[!@]\d+", "", key.partition(":")[0]).partition("/")
    return tuple(int(index) for index in path.split(".") if index)
