"""The fold: a conversation is its events, whatever they are and however they are cut."""

from __future__ import annotations

import json
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stopgo.actors.log import events as e
from stopgo.actors.log.head import Head, RunHead, fold_head, head_of_summary
from stopgo.actors.log.record import Tally
from stopgo.actors.log.state import Conversation, fold
from stopgo.actors.models.usage import NOTHING, Spent
from stopgo.runtime.journal.protocol import Event, NewEvent, Summary
from tests.questions import body

TEXT = st.text(max_size=20)
COUNT = st.integers(0, 9)
USAGE = st.fixed_dictionaries(
    {"input_tokens": COUNT, "output_tokens": COUNT},
    optional={"cached_tokens": COUNT, "cache_write_tokens": COUNT, "cost_usd": st.integers(0, 9).map(float)},
)


class Story:
    """Tells a history as the actors write it, each turn of it drawn."""

    def __init__(self, draw: Any) -> None:
        self.draw = draw
        self.events: list[NewEvent] = [e.conversation_created("s", draw(TEXT))]
        self.commands = 0
        self.ids = 0

    def command(self) -> str:
        self.commands += 1
        return f"k{self.commands}"

    def id(self) -> str:
        self.ids += 1
        return f"a{self.ids}"

    def turn(self, turn: int) -> None:
        draw, tell = self.draw, self.events.append
        run, key = f"r{turn}", self.command()
        tell(e.message_added(draw(TEXT), key))
        tell(e.run_started(run, turn, key, "t", {"type": "llm"} if turn == 1 else None, draw(st.booleans())))
        for n in range(1, draw(st.integers(0, 3)) + 1):
            step = f"{turn}/:{n}"
            calls = [
                {"id": f"c{i}", "name": draw(st.sampled_from(["a", "b"])), "arguments": {"n": i}}
                for i in range(draw(st.integers(0, 3)))
            ]
            outcome = {"text": draw(TEXT), "tool_calls": calls, "usage": draw(USAGE)}
            tell(e.step_finished(step, "model", "n", "model n", **outcome))
            for index in range(len(calls)):
                self.call(run, f"{step}.{index}")
            tell(e.batch_finished(step, "n", Tally().figures([False] * len(calls))))
            if draw(st.booleans()):
                tell(e.state_set("key", draw(TEXT), "n"))
        self.end(run)

    def call(self, run: str, key: str) -> None:
        draw, tell = self.draw, self.events.append
        path = draw(st.sampled_from(["none", "denied", "run", "lost", "ask", "replaced", "open"]))
        if path == "denied":
            outcome = draw(st.sampled_from(["denied", "not_found", "invalid"]))
            tell(e.step_finished(key, "call", "n", "call n", outcome=outcome, content=draw(TEXT)))
        if path == "replaced":
            first, second = self.ask(key, "tool", 0), self.ask(key, "tool", 1)
            tell(e.approval_void(first, "changed", superseded_by=second))
            self.decide(run, second, {"approved": True})
        if path in ("ask", "open"):
            asked = self.ask(key, "tool", 0)
            if path == "open":
                return
            self.decide(run, asked, {"approved": draw(st.booleans()), "reason": draw(TEXT)})
        if path in ("run", "lost", "replaced"):
            self.start(key, 1)
            if path == "lost":
                tell(e.tool_unknown(key, 1, "lost"))
                action = draw(st.sampled_from(["retry", "done", "failed"]))
                self.decide(run, self.ask(key, "outcome_unknown", 0), {"action": action})
                if action != "retry":
                    return
                self.start(key, 2)
            result = {"content": draw(TEXT), "is_error": draw(st.booleans()), "parts": [], "structured": None}
            tell(e.tool_finished(key, 2 if path == "lost" else 1, result))

    def start(self, key: str, attempt: int) -> None:
        common = {"tool": "a", "server": "s", "effect": "once", "asks": True, "node": "n"}
        self.events.append(e.tool_started(key, attempt, arguments={"n": 0}, **common))  # type: ignore[arg-type]

    def ask(self, key: str, kind: str, n: int) -> str:
        id = self.id()
        asked = body(kind, id=id, key=key, question=f"{key}~{kind}{n}", tool_args={"n": 0})
        self.events.append(e.approval_requested(asked))
        return id

    def decide(self, run: str, id: str, decision: dict[str, Any]) -> None:
        key, token = self.command(), self.draw(st.booleans())
        waits = self.draw(st.booleans())
        if waits:
            self.events.append(e.run_waiting(run, [id], []))
        self.events.append(e.approval_resolved(id, decision, key, token))
        if waits:
            self.events.append(e.run_resumed(run, key, token, answer=False))

    def end(self, run: str) -> None:
        for id in fold_head(Head(), self.events).pending:
            self.events.append(e.approval_void(id, "the run has ended"))
        text = self.draw(TEXT)
        ends = [
            e.run_finished(run, text, []),
            e.run_failed(run, self.draw(st.sampled_from(["model_error", "limit_reached"])), text, []),
            e.run_cancelled(run, []),
        ]
        self.events.append(self.draw(st.sampled_from(ends)))


@st.composite
def histories(draw: Any) -> list[Event]:
    story = Story(draw)
    for turn in range(1, draw(st.integers(0, 3)) + 1):
        story.turn(turn)
    if draw(st.booleans()):
        story.events.append(e.conversation_completed())
    return numbered(story.events)


def numbered(events: list[NewEvent]) -> list[Event]:
    # By way of JSON: what is folded is what was read back.
    return [
        Event("c", seq, event.type, float(seq), json.loads(json.dumps(event.body)))
        for seq, event in enumerate(events, 1)
    ]


def facts(conversation: Conversation) -> dict[str, Any]:
    return {
        field.name: attrs.asdict(value) if attrs.has(type(value)) else value
        for field in attrs.fields(Conversation)
        for value in [getattr(conversation, field.name)]
    }


@given(histories(), st.data())
def test_any_prefix_folds_and_two_parts_are_one_whole(history: list[Event], data: st.DataObject) -> None:
    cut = data.draw(st.integers(0, len(history)))
    conversation = fold("c", history[:cut])
    before, kept = facts(fold("c", history[:cut])), conversation.snapshot()
    assert facts(kept) == before | {"run": None}
    for event in history[cut:]:
        conversation.apply(event)
    assert facts(conversation) == facts(fold("c", history))
    assert facts(kept) == before | {"run": None}  # a snapshot stays as it is


@given(histories(), st.data())
def test_what_always_holds_of_a_conversation(history: list[Event], data: st.DataObject) -> None:
    history = history[: data.draw(st.integers(0, len(history)))]
    c = fold("c", history)
    assert c.last_seq == len(history)
    assert not c.read_only
    assert len({message.id for message in c.messages}) == len(c.messages)
    assert c.head == fold_head(Head(), history)
    assert c.head.pending == tuple(id for id, q in c.approvals.items() if q.state == "pending")
    live = c.head.run is not None and c.head.run.state in ("running", "waiting", "auth_required")
    assert (c.run is not None) == live
    assert [m.role for m in c.messages[:1]] == ["system"] * bool(history)
    assert [m.content for m in c.messages if m.role == "user"] == [
        event.body["text"] for event in history if event.type == e.MESSAGE_ADDED
    ]
    assert all((message.role == "tool") == (message.call is not None) for message in c.messages)
    if c.head.completed:
        assert c.head.status == "completed"
    else:
        assert c.head.status == ("waiting_approval" if c.head.pending else "active")
    if c.run is None:
        states = {message.call.state for message in c.messages if message.call}
        assert not states & {"requested", "waiting", "started"}
        assert not c.head.pending
    for turn, ended in zip(c.turns, [x for x in history if x.type == e.MESSAGE_ADDED], strict=False):
        assert turn.user == ended.body["text"]


@given(histories(), st.data())
def test_a_head_survives_its_summary(history: list[Event], data: st.DataObject) -> None:
    head = fold_head(Head(), history[: data.draw(st.integers(0, len(history)))])
    made = head.summary()
    kept = Summary(made.status, made.title, made.open, json.loads(json.dumps(made.body)))
    assert head_of_summary(kept) == head._replace(pending=())
    assert made.open == (head.run is not None and head.run.state == "running")


@given(histories(), st.data(), st.text(min_size=1).filter(lambda word: word not in e.KNOWN))
def test_an_unknown_event_makes_it_read_only_and_changes_nothing_else(
    history: list[Event], data: st.DataObject, type: str
) -> None:
    cut = data.draw(st.integers(0, len(history)))
    plain = facts(fold("c", history[:cut]))
    stranger = fold("c", [*history[:cut], Event("c", cut + 1, type, 99.0, {"any": [1, None]})])
    assert stranger.read_only
    assert facts(stranger) == plain | {"read_only": True, "last_seq": cut + 1, "updated": 99.0}


@given(histories())
def test_what_was_used_adds_up(history: list[Event]) -> None:
    head, run, all_runs = Head(), NOTHING, NOTHING
    for event in history:
        head = fold_head(head, [event])
        if event.type == e.RUN_STARTED:
            run = NOTHING
        if "usage" in event.body:
            run, all_runs = run.plus(event.body["usage"]), all_runs.plus(event.body["usage"])
        assert head.used == all_runs
        if head.run is not None:
            assert head.run.used == run
    steps = [event.body["usage"] for event in history if "usage" in event.body]
    assert all_runs.input_tokens == sum(usage["input_tokens"] for usage in steps)
    assert all_runs.cached_tokens == sum(usage.get("cached_tokens", 0) for usage in steps)
    assert (all_runs.cost_usd or 0) == sum(usage.get("cost_usd", 0) for usage in steps)


def test_a_summary_of_an_older_version_is_read() -> None:
    run = {"id": "r", "turn": 2, "state": "failed", "code": "x", "input_tokens": 3, "output_tokens": 4}
    head = head_of_summary(Summary("active", "t", False, {"session_id": "s", "run": run}))
    assert head.run == RunHead("r", 2, "failed", "x", used=Spent(3, 4))
    assert head.used == NOTHING


# ---------------------------------------------------------------------------- by example


def said(*new: NewEvent) -> Conversation:
    begun = [e.conversation_created("s", "p"), e.message_added("m", "k")]
    return fold("c", numbered([*begun, e.run_started("r", 1, "k", "t", {"type": "llm"}, True), *new]))


def model(*calls: dict[str, Any], text: str = "") -> NewEvent:
    return e.step_finished("1/:1", "model", "n", "model n", text=text, tool_calls=list(calls))


CALL = {"id": "c", "name": "wipe", "arguments": {"a": 1}}


def test_a_title_is_the_first_message_in_one_line() -> None:
    head = fold_head(Head(), [e.message_added("  a\n\n b  ", "k"), e.message_added("later", "l")])
    assert head.title == "a b"
    assert len(fold_head(Head(), [e.message_added("x" * 500, "k")]).title) == 80


@pytest.mark.parametrize(
    ("token", "mover", "kept"), [(True, "k2", True), (False, "k", True)], ids=["with a token", "without"]
)
def test_a_decision_without_a_token_takes_none_away(token: bool, mover: str, kept: bool) -> None:
    asked = e.approval_requested(body(id="a", key="1/:1.0"))
    c = said(model(CALL), asked, e.approval_resolved("a", {"approved": True}, "k2", token))
    assert c.run is not None
    assert (c.run.mover, c.run.token) == (mover, kept)
    assert c.run.unsettled == ["k", "k2"]


def test_who_was_answered_is_settled() -> None:
    c = said(e.run_waiting("r", [], ["k"]), e.run_resumed("r", "k2", True, answer=True))
    assert c.run is not None
    assert c.run.unsettled == ["k2"]


def test_the_final_answer_is_a_message_once() -> None:
    ended = said(model(text="done"), e.run_finished("r", "done", ["k"]))
    assert [m.content for m in ended.messages] == ["p", "m", "done"]
    joined = said(model(text="a"), e.run_finished("r", "a\nb", ["k"]))
    assert [m.content for m in joined.messages] == ["p", "m", "a", "a\nb"]


def test_a_call_that_was_never_made_ends_cancelled() -> None:
    c = said(model(CALL), e.run_cancelled("r", ["k"]))
    assert [m.call.state for m in c.messages if m.call] == ["cancelled"]
    assert c.head.run is not None
    assert c.head.run.state == "cancelled"


def test_an_interrupted_call_that_is_denied_today_is_lost_after_its_batch() -> None:
    started: dict[str, Any] = {
        "tool": "a",
        "server": "s",
        "arguments": {},
        "effect": "read",
        "asks": False,
        "node": "n",
    }
    ended = said(
        model(CALL),
        e.tool_started("1/:1.0", 1, **started),
        e.step_finished("1/:1.0", "call", "n", "call n", outcome="denied", content="no"),
        e.batch_finished("1/:1", "n", Tally().figures([False])),
        e.tool_unknown("1/:1.0", 1, "the run ended"),
        e.run_finished("r", "done", ["k"]),
    )
    assert ended.messages[-1].content == "done"


@pytest.mark.parametrize(
    "strange",
    [
        e.tool_finished("1/:9.0", 1, {"content": "", "is_error": False}),
        e.approval_resolved("nobody asked", {"approved": True}, "k", False),
        e.approval_void("nobody asked", "x"),
        NewEvent(e.STEP_FINISHED, {"key": "1/:1", "kind": "model", "node": "n"}),
        NewEvent(e.RUN_STARTED, {}),
    ],
    ids=lambda event: event.type,
)
def test_events_that_do_not_follow_are_not_made_sense_of(strange: NewEvent) -> None:
    with pytest.raises((LookupError, TypeError)):
        said(strange)
    if strange.type != e.RUN_STARTED:
        with pytest.raises(LookupError):
            fold("c", numbered([strange]))
