"""The fold: its invariants, for arbitrary histories and by example."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, get_args

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stopgo.actors.approvals.decided import Decided
from stopgo.actors.approvals.outcome_approval import Done, Failed, Retry
from stopgo.actors.approvals.yes_or_no import Approved, Rejected
from stopgo.actors.log.fold.head import Head, RunHead, fold_head, head_of_summary
from stopgo.actors.log.fold.record import Tally
from stopgo.actors.log.fold.state import Conversation, fold
from stopgo.actors.log.words import events as e
from stopgo.actors.log.words.event_json import decode, encode
from stopgo.actors.log.words.outcomes import NotSent, Replied
from stopgo.actors.models.messages.a2a_end import (
    A2AEnd,
    A2AState,
    DataArtifact,
    FileArtifact,
    LinkArtifact,
    ScriptedArtifact,
    TextArtifact,
)
from stopgo.actors.models.messages.messages import AssistantMessage, ToolCall, ToolMessage
from stopgo.actors.models.messages.usage import NOTHING, Spent, StepUsage
from stopgo.actors.tools.needs import NeedsToken
from stopgo.actors.tools.tool import ToolResult
from stopgo.runtime.journal.protocol import Event, NewEvent
from stopgo.runtime.journal.summary import Summary
from tests.questions import asked

TEXT = st.text(max_size=20)
COUNT = st.integers(0, 9)
USAGE = st.builds(
    StepUsage, COUNT, COUNT, COUNT, cache_write_tokens=COUNT, cost_usd=st.none() | COUNT.map(float)
)
ARTIFACTS = [
    (TextArtifact(("a ", "b")), {"chunks": ["a ", "b"]}),
    (FileArtifact("", "a.txt", "text/plain"), {"content": "", "name": "a.txt", "media_type": "text/plain"}),
    (LinkArtifact("http://a/b"), {"url": "http://a/b"}),
    (DataArtifact({"chunks": [None, 1]}), {"data": {"chunks": [None, 1]}}),
]
ENDS = st.builds(
    A2AEnd,
    st.sampled_from(get_args(A2AState)),
    st.none() | st.sampled_from([artifact for artifact, _ in ARTIFACTS]),
)
RESULTS = st.builds(ToolResult, TEXT, st.booleans())


class Story:
    """Draws a history as the actors would write it, turn by turn."""

    def __init__(self, draw: Any) -> None:
        self.draw = draw
        self.events: list[e.LogEvent] = [e.ConversationCreated("s", draw(TEXT))]
        self.commands = 0
        self.ids = 0

    def command(self) -> str:
        self.commands += 1
        return f"k{self.commands}"

    def id(self) -> str:
        self.ids += 1
        return f"a{self.ids}"

    def turn(self, turn: int) -> None:
        draw, add = self.draw, self.events.append
        run, key = f"r{turn}", self.command()
        add(e.MessageAdded(draw(TEXT), key))
        tree = {"type": "llm"} if turn == 1 else None
        a2a: dict[str, Any] = draw(st.fixed_dictionaries({}, optional={"task": TEXT, "message_id": TEXT}))
        add(e.RunStarted(run, turn, key, "t", e.REPLAY_VERSION, draw(st.booleans()), tree, **a2a))
        for n in range(1, draw(st.integers(0, 3)) + 1):
            step = f"{turn}/:{n}"
            calls = [
                ToolCall(f"c{i}", draw(st.sampled_from(["a", "b"])), {"n": i})
                for i in range(draw(st.integers(0, 3)))
            ]
            end = None if calls else draw(st.none() | ENDS)
            reply = Replied(text=draw(TEXT), tool_calls=calls, usage=draw(USAGE), a2a=end)
            add(e.StepFinished.of(step, "model", "n", reply))
            for index in range(len(calls)):
                self.call(run, f"{step}.{index}")
            add(Tally().finished(step, "n", ["failed"] * len(calls)))
            if draw(st.booleans()):
                add(e.StateSet("key", draw(TEXT), "n"))
        self.end(run)

    def call(self, run: str, key: str) -> None:
        draw, add = self.draw, self.events.append
        path = draw(st.sampled_from(["none", "denied", "run", "lost", "ask", "replaced", "open"]))
        if path == "denied":
            outcome = draw(st.sampled_from(["denied", "not_found", "invalid"]))
            add(e.StepFinished.of(key, "call", "n", NotSent(outcome, draw(TEXT))))
        if path == "replaced":
            first, second = self.ask(key, "tool", 0), self.ask(key, "tool", 1)
            add(e.ApprovalVoid(first, "changed", superseded_by=second))
            self.decide(run, second, Approved())
        if path in ("ask", "open"):
            id = self.ask(key, "tool", 0)
            if path == "open":
                return
            self.decide(run, id, draw(st.sampled_from([Approved, Rejected]))(reason=draw(TEXT)))
        if path in ("run", "lost", "replaced"):
            self.start(key, 1)
            if path == "lost":
                add(e.ToolUnknown(key, 1, "lost"))
                decision = draw(st.sampled_from([Retry(), Done(), Failed()]))
                self.decide(run, self.ask(key, "outcome_unknown", 0), decision)
                if decision != Retry():
                    return
                self.start(key, 2)
            add(e.ToolFinished(key, 2 if path == "lost" else 1, draw(RESULTS)))

    def start(self, key: str, attempt: int) -> None:
        self.events.append(e.ToolStarted(key, attempt, "a", "s", {"n": 0}, "once", asks=True, node="n"))

    def ask(self, key: str, kind: str, n: int) -> str:
        id = self.id()
        question = asked(kind, id=id, key=key, question=f"{key}~{kind}{n}", tool_args={"n": 0})
        self.events.append(e.ApprovalRequested(question))
        return id

    def decide(self, run: str, id: str, decision: Decided) -> None:
        key, token = self.command(), self.draw(st.booleans())
        waits = self.draw(st.booleans())
        if waits:
            self.events.append(e.RunWaiting(run, [id], [], {}))
        self.events.append(e.ApprovalResolved(id, decision, key, token))
        if waits:
            self.events.append(e.RunResumed(run, key, token, answer=False))

    def end(self, run: str) -> None:
        for id in fold_head(Head(), self.events).pending:
            self.events.append(e.ApprovalVoid(id, "the run has ended"))
        text = self.draw(TEXT)
        ends = [
            e.RunFinished(run, text, []),
            e.RunFailed(run, self.draw(st.sampled_from(["model_error", "limit_reached"])), text, []),
            e.RunCancelled(run, []),
        ]
        self.events.append(self.draw(st.sampled_from(ends)))


@st.composite
def histories(draw: Any) -> list[e.LogEvent]:
    story = Story(draw)
    for turn in range(1, draw(st.integers(0, 3)) + 1):
        story.turn(turn)
    if draw(st.booleans()):
        story.events.append(e.ConversationCompleted())
    return story.events


def stored(events: Iterable[e.LogEvent | NewEvent]) -> list[Event]:
    # By way of JSON: what is folded is what was read back.
    new = (event if isinstance(event, NewEvent) else encode(event) for event in events)
    return [
        Event("c", seq, event.type, float(seq), json.loads(json.dumps(event.body)))
        for seq, event in enumerate(new, 1)
    ]


def facts(conversation: Conversation) -> dict[str, Any]:
    return {
        field.name: attrs.asdict(value) if attrs.has(type(value)) else value
        for field in attrs.fields(Conversation)
        for value in [getattr(conversation, field.name)]
    }


@given(histories(), st.data())
def test_history_is_folded_in_parts_and_from_json(history: list[e.LogEvent], data: st.DataObject) -> None:
    rows = stored(history)
    cut = data.draw(st.integers(0, len(rows)))
    conversation = fold("c", rows[:cut])
    before, snapshot = facts(fold("c", rows[:cut])), conversation.snapshot()
    assert facts(snapshot) == before | {"live_run": None}
    for row, event in zip(rows[cut:], history[cut:], strict=True):  # as the writer does, without JSON
        conversation.apply(e.Entry(row.seq, row.at, event))
    assert facts(conversation) == facts(fold("c", rows))
    assert facts(snapshot) == before | {"live_run": None}  # a snapshot stays as it is
    for row in rows:
        decoded = decode(row).event
        assert decoded is not None
        assert encode(decoded).body == row.body


@pytest.mark.parametrize(("artifact", "body"), [(None, None), *ARTIFACTS])
def test_a2a_end_is_stored_with_its_reply(artifact: ScriptedArtifact | None, body: object) -> None:
    step = e.StepFinished.of(
        "1/:1", "model", "n", Replied(text="", tool_calls=(), a2a=A2AEnd("failed", artifact))
    )
    (event,) = stored([step])
    assert event.body["a2a"] == {"state": "failed", **({} if body is None else {"artifact": body})}
    assert decode(event).event == step


@pytest.mark.parametrize(
    "body",
    [
        7,
        {},
        {"state": "failed", "artifact": 7},
        {"state": "failed", "artifact": {}},
        {"state": "failed", "artifact": {"chunks": [7]}},
        {"state": "failed", "artifact": {"data": []}},
    ],
)
def test_a2a_end_of_another_shape_is_refused(body: object) -> None:
    (event,) = stored([e.StepFinished.of("1/:1", "model", "n", Replied(text="", tool_calls=()))])
    assert "a2a" not in event.body
    with pytest.raises((LookupError, TypeError, ValueError)):
        decode(attrs.evolve(event, body={**event.body, "a2a": body}))


@given(histories(), st.data())
def test_fold_invariants_hold_for_any_history(history: list[e.LogEvent], data: st.DataObject) -> None:
    history = history[: data.draw(st.integers(0, len(history)))]
    c = fold("c", stored(history))
    texts = [event.text for event in history if isinstance(event, e.MessageAdded)]
    assert c.last_seq == len(history)
    assert not c.read_only
    assert len({message.id for message in c.messages}) == len(c.messages)
    assert c.head == fold_head(Head(), history)
    assert c.head.pending == tuple(id for id, q in c.approvals.items() if q.state == "pending")
    live = c.head.run is not None and c.head.run.state in ("running", "waiting", "auth_required")
    assert (c.live_run is not None) == live
    assert [m.role for m in c.messages[:1]] == ["system"] * bool(history)
    assert [m.content for m in c.messages if m.role == "user"] == texts
    assert all((message.role == "tool") == (message.call is not None) for message in c.messages)
    if c.head.completed:
        assert c.head.status == "completed"
    else:
        assert c.head.status == ("waiting_approval" if c.head.pending else "active")
    if c.live_run is None:
        states = {message.call.state for message in c.messages if message.call}
        assert not states & {"requested", "waiting", "started"}
        assert not c.head.pending
    assert [turn.user for turn in c.turns] == texts[: len(c.turns)]
    _check_turns(c, history)
    _check_summary(c.head)
    _check_usage(history)


def _check_turns(c: Conversation, history: list[e.LogEvent]) -> None:
    """Ended turns have each reply with calls, followed by one result for each call, in order."""
    replies = [each for each in history if isinstance(each, e.StepFinished) and each.kind == "model"]
    for number, turn in enumerate(c.turns, 1):
        own = (each.outcome for each in replies if each.key.startswith(f"{number}/"))
        asked = [[call.id for call in reply.tool_calls] for reply in own if isinstance(reply, Replied)]
        messages: list[object] = []
        for message in turn.calls.get("n", ()):
            if isinstance(message, AssistantMessage):
                messages.append([call.id for call in message.tool_calls])
            else:
                assert isinstance(message, ToolMessage)
                messages.append(message.call_id)
        assert messages == [each for ids in asked if ids for each in (ids, *ids)]


def _check_summary(head: Head) -> None:
    """The head round-trips through its summary."""
    made = head.summary()
    kept = Summary(made.status, made.title, made.open, json.loads(json.dumps(made.body)))
    assert head_of_summary(kept) == head._replace(pending=())
    assert made.open == (head.run is not None and head.run.state == "running")


def _check_usage(history: list[e.LogEvent]) -> None:
    """The usage of a run is the sum over its steps, that of the conversation the sum over its runs."""
    head, run, all_runs, steps = Head(), NOTHING, NOTHING, list[StepUsage]()
    for event in history:
        head = fold_head(head, [event])
        match event:
            case e.RunStarted():
                run = NOTHING
            case e.StepFinished(outcome=Replied(usage=StepUsage() as usage)):
                run, all_runs = run.plus(usage), all_runs.plus(usage)
                steps.append(usage)
        assert head.usage == all_runs
        if head.run is not None:
            assert head.run.usage == run
    assert all_runs.input_tokens == sum(usage.input_tokens for usage in steps)
    assert all_runs.cached_tokens == sum(usage.cached_tokens for usage in steps)
    assert (all_runs.cost_usd or 0) == sum(usage.cost_usd or 0 for usage in steps)


@given(histories(), st.data(), st.text(min_size=1).filter(lambda word: word not in e.TYPES))
def test_unknown_event_only_sets_read_only(history: list[e.LogEvent], data: st.DataObject, type: str) -> None:
    rows = stored(history)
    cut = data.draw(st.integers(0, len(rows)))
    plain = facts(fold("c", rows[:cut]))
    stranger = fold("c", [*rows[:cut], Event("c", cut + 1, type, 99.0, {"any": [1, None]})])
    assert stranger.read_only
    assert facts(stranger) == plain | {"read_only": True, "last_seq": cut + 1, "updated": 99.0}


def test_summary_of_an_older_version_is_read() -> None:
    run = {"id": "r", "turn": 2, "state": "failed", "code": "x", "input_tokens": 3, "output_tokens": 4}
    head = head_of_summary(Summary("active", "t", False, {"session_id": "s", "run": run}))
    assert head.run == RunHead("r", 2, "failed", "x", usage=Spent(3, 4))
    assert head.usage == NOTHING


# ---------------------------------------------------------------------------- by example


BEGUN = (
    e.ConversationCreated("s", "p"),
    e.MessageAdded("m", "k"),
    e.RunStarted("r", 1, "k", "t", e.REPLAY_VERSION, True, {"type": "llm"}),
)


def folded(*new: e.LogEvent | NewEvent) -> Conversation:
    return fold("c", stored([*BEGUN, *new]))


def model(*calls: ToolCall, text: str = "") -> e.LogEvent:
    return e.StepFinished.of("1/:1", "model", "n", Replied(text=text, tool_calls=calls))


CALL = ToolCall("c", "wipe", {"a": 1})


def test_title_is_the_first_message_on_one_line() -> None:
    head = fold_head(Head(), [e.MessageAdded("  a\n\n b  ", "k"), e.MessageAdded("later", "l")])
    assert head.title == "a b"
    assert len(fold_head(Head(), [e.MessageAdded("x" * 500, "k")]).title) == 80


@pytest.mark.parametrize(
    ("token", "driving", "kept"), [(True, "k2", True), (False, "k", True)], ids=["with a token", "without"]
)
def test_decision_without_token_keeps_the_runs_token(token: bool, driving: str, kept: bool) -> None:
    question = e.ApprovalRequested(asked(id="a", key="1/:1.0"))
    c = folded(model(CALL), question, e.ApprovalResolved("a", Approved(), "k2", token))
    assert c.live_run is not None
    assert (c.live_run.driving_command, c.live_run.token) == (driving, kept)
    assert c.live_run.unreplied == ["k", "k2"]


OWN = e.ApprovalResolved("a", Approved(token=True, principal="ann"), "k2", True)
RESUMED = {
    "by the decision": (e.RunResumed("r", "k2", True, answer=False), "k2", "k"),
    "by an end of another call": (e.RunResumed("r", "k", True, answer=False), "k2", "k"),
    "by an expiry": (e.RunResumed("r", "k3", False, answer=False), "k2", "k"),
    "with another token": (e.RunResumed("r", "k3", True, answer=True), "k3", "k3"),
}


@pytest.mark.parametrize(("resumed", "call", "run"), RESUMED.values(), ids=RESUMED)
def test_decision_with_a_token_of_its_own_drives_its_call(resumed: e.RunResumed, call: str, run: str) -> None:
    question = e.ApprovalRequested(asked(id="a", key="1/:1.0"))
    live = folded(model(CALL), question, OWN, resumed).live_run
    assert live is not None
    assert (live.command_of("1/:1.0"), live.driving_command) == (call, run)


def test_answered_commands_are_not_unreplied() -> None:
    c = folded(e.RunWaiting("r", [], ["k"], {}), e.RunResumed("r", "k2", True, answer=True))
    assert c.live_run is not None
    assert c.live_run.unreplied == ["k2"]


def test_final_answer_is_not_duplicated_as_a_message() -> None:
    ended = folded(model(text="done"), e.RunFinished("r", "done", ["k"]))
    assert [m.content for m in ended.messages] == ["p", "m", "done"]
    joined = folded(model(text="a"), e.RunFinished("r", "a\nb", ["k"]))
    assert [m.content for m in joined.messages] == ["p", "m", "a", "a\nb"]


ASKS = e.ApprovalRequested(asked(id="a", key="1/:1.0"))
NO = e.ApprovalResolved("a", Rejected(), "k2", False)
SENT = e.ToolStarted("1/:1.0", 1, "wipe", "s", {"a": 1}, "once", True, "n")
REJECTED = "Operation rejected by the user."


@pytest.mark.parametrize(
    ("events", "text"),
    [
        ([ASKS, NO], f"{REJECTED} Nothing was done."),
        (
            [SENT, e.ToolUnknown("1/:1.0", 1, "lost"), ASKS, NO],
            f"{REJECTED} An earlier attempt may have happened.",
        ),
        ([ASKS, e.StepFinished.of("1/:1.0", "call", "n", NotSent("not_found", "no tool")), NO], "no tool"),
    ],
    ids=["a call", "a call that was lost", "a call that has ended"],
)
def test_rejection_text_depends_on_earlier_attempts(events: list[e.LogEvent], text: str) -> None:
    c = folded(model(CALL), *events)
    assert [(m.content, m.call.result) for m in c.messages if m.call] == [(text, text)]


@pytest.mark.parametrize(
    ("states", "end"),
    [
        (["lost"], "The call was not repeated."),
        (["lost", "lost"], "The call was sent 2 times."),
        (["asked", "lost"], "The call was not repeated."),  # a call that was not carried out
    ],
)
def test_text_of_an_unknown_outcome_counts_the_attempts_that_may_have_happened(
    states: list[str], end: str
) -> None:
    events: list[e.LogEvent] = []
    for attempt, state in enumerate(states, 1):
        events.append(e.ToolStarted("1/:1.0", attempt, "look", "s", {}, "read", asks=False, node="n"))
        asks = e.ToolFinished("1/:1.0", attempt, ToolResult(""), NeedsToken(401, "k"))
        events.append(asks if state == "asked" else e.ToolUnknown("1/:1.0", attempt, "lost"))
    c = folded(model(CALL), *events)
    assert [m.content for m in c.messages if m.call] == [f"The outcome is unknown: lost. {end}"]


def test_unsent_call_of_an_ended_run_is_cancelled() -> None:
    c = folded(model(CALL), e.RunCancelled("r", ["k"]))
    assert [m.call.state for m in c.messages if m.call] == ["cancelled"]
    assert c.head.run is not None
    assert c.head.run.state == "cancelled"


def test_interrupted_call_denied_on_replay_ends_after_its_batch() -> None:
    ended = folded(
        model(CALL),
        e.ToolStarted("1/:1.0", 1, "a", "s", {}, "read", asks=False, node="n"),
        e.StepFinished.of("1/:1.0", "call", "n", NotSent("denied", "no")),
        Tally().finished("1/:1", "n", ["failed"]),
        e.ToolUnknown("1/:1.0", 1, "the run ended"),
        e.RunFinished("r", "done", ["k"]),
    )
    assert ended.messages[-1].content == "done"


@pytest.mark.parametrize(
    "strange",
    [
        e.ToolFinished("1/:9.0", 1, ToolResult("")),
        e.ApprovalResolved("nobody asked", Approved(), "k", False),
        e.ApprovalVoid("nobody asked", "x"),
        NewEvent(e.StepFinished.type, {"key": "1/:1", "kind": "model", "node": "n"}),
        NewEvent(e.RunStarted.type, {}),
    ],
    ids=lambda event: event.type,
)
def test_fold_refuses_events_that_contradict_the_state(strange: e.LogEvent | NewEvent) -> None:
    with pytest.raises((LookupError, TypeError)):
        folded(strange)
    if strange.type != e.RunStarted.type:
        with pytest.raises(LookupError):
            fold("c", stored([strange]))


RUN: dict[str, Any] = {"id": "r", "turn": 1, "state": "waiting", "used": [0, 0, 0, 0, None, False]}


@pytest.mark.parametrize(
    "damaged",
    [
        *({each: RUN[each] for each in RUN if each != name} for name in ("id", "turn", "state")),
        {**RUN, "state": "x"},
    ],
)
def test_summary_without_run_state_is_damaged(damaged: dict[str, Any]) -> None:
    with pytest.raises((LookupError, TypeError, ValueError)):
        head_of_summary(Summary("active", "t", False, {"session_id": "s", "run": damaged, "used": []}))
