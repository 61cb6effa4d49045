"""What `stopgo run` understands, and what it says."""

from __future__ import annotations

import json
import os
import unicodedata
from typing import Any

import attrs
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from stopgo.actors.approvals.description import MAX_LINE, call_text
from stopgo.actors.approvals.kinds import KINDS
from stopgo.actors.approvals.yes_or_no import Approved, Rejected
from stopgo.actors.common.errors import Fault
from stopgo.actors.log.words import events as e
from stopgo.actors.log.words.event_json import encode
from stopgo.actors.log.words.outcomes import Chosen, Ended, NodeEnd, NotSent, Replied, StepFailed
from stopgo.actors.tools.tool import ToolResult
from stopgo.config.sections.nodes import LlmNode, RouterNode, SequentialNode
from stopgo.gateway.cli.terminal.progress import ProgressView, routers
from stopgo.gateway.cli.terminal.terminal import colourful, printable
from stopgo.gateway.cli.terminal.typed_reply import (
    PROMPTS,
    Edit,
    Fill,
    NotUnderstood,
    ShowAll,
    TypedDecision,
    edited,
    fields,
    understand,
)
from stopgo.runtime.journal.protocol import Event
from tests.questions import asked

YES_OR_NO = frozenset({"y", "yes", "n", "no"})
DECIDING = {
    "tool": YES_OR_NO,
    "checkpoint": YES_OR_NO,
    "outcome_unknown": frozenset({"retry", "r", "done", "d", "failed", "f"}),
    "elicitation": frozenset({"decline", "d", "cancel", "c"}),
}
"""The words that decide about a question of each kind by themselves."""
WORDS = sorted(frozenset[str]().union(*DECIDING.values()))


@pytest.mark.parametrize(
    ("kind", "line", "reply"),
    [
        ("tool", "y", TypedDecision({"approved": True})),
        ("tool", " YES ", TypedDecision({"approved": True})),
        ("tool", "n", TypedDecision({"approved": False})),
        ("tool", "no  not  now ", TypedDecision({"approved": False, "reason": "not  now"})),
        ("tool", "e", Edit()),
        ("tool", "?", ShowAll()),
        ("tool", "", NotUnderstood()),
        ("tool", "yes but not today", NotUnderstood()),
        ("tool", "retry", NotUnderstood()),
        ("tool", "r  use b ", TypedDecision({"action": "respond", "result": "use b"})),
        ("tool", "respond no", TypedDecision({"action": "respond", "result": "no"})),
        ("tool", "r", NotUnderstood()),
        ("checkpoint", "r use b", NotUnderstood()),
        ("checkpoint", "y", TypedDecision({"approved": True})),
        ("checkpoint", "e", NotUnderstood()),
        ("outcome_unknown", "y", NotUnderstood()),
        ("outcome_unknown", "retry", TypedDecision({"action": "retry"})),
        ("outcome_unknown", "r please", NotUnderstood()),
        ("outcome_unknown", "d", TypedDecision({"action": "done"})),
        ("outcome_unknown", "done it is 5", TypedDecision({"action": "done", "result": "it is 5"})),
        ("outcome_unknown", "f", TypedDecision({"action": "failed"})),
        ("outcome_unknown", "failed no power", TypedDecision({"action": "failed", "reason": "no power"})),
        ("outcome_unknown", "?", ShowAll()),
        ("elicitation", "a", Fill(())),
        ("elicitation", "Decline", TypedDecision({"action": "decline"})),
        ("elicitation", "c", TypedDecision({"action": "cancel"})),
        ("elicitation", "accept it", NotUnderstood()),
        ("elicitation", "y", NotUnderstood()),
    ],
)
def test_replies(kind: str, line: str, reply: object) -> None:
    assert understand(asked(kind), line) == reply


def test_each_kind_has_a_prompt() -> None:
    assert PROMPTS.keys() == KINDS.keys()


@given(st.sampled_from(sorted(DECIDING)), st.text() | st.sampled_from(WORDS))
def test_only_a_clear_word_decides(kind: str, line: str) -> None:
    question = asked(kind)
    reply = understand(question, line)

    if isinstance(reply, TypedDecision):
        question.parse(reply.words)  # and it is one that the agent understands
        assert line.split()[0].lower() in DECIDING[kind]


@given(st.text())
@example("[" * 100_000)
@example('"text"')
def test_only_an_object_is_a_set_of_arguments(line: str) -> None:
    arguments = edited(line)

    assert isinstance(arguments, str) or arguments == json.loads(line)


@given(st.text())
@example("\x1b[2J\u202e\x9b31m\r\ud800")
def test_nothing_that_is_printed_moves_a_cursor(text: str) -> None:
    shown = printable(text)

    assert not [
        each for each in shown if unicodedata.category(each) in ("Cc", "Cf", "Cs") and each not in "\n\t"
    ]
    shown.encode("utf-8")


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({"TERM": "xterm"}, True),
        ({"TERM": "xterm", "NO_COLOR": ""}, True),
        ({"TERM": "xterm", "NO_COLOR": "1"}, False),
        ({"TERM": "dumb"}, False),
    ],
)
def test_colour_is_for_terminals_that_have_it(environ: dict[str, str], expected: bool) -> None:
    keyboard, terminal = os.openpty()
    with os.fdopen(keyboard, "rb"), os.fdopen(terminal, "w") as stream:
        assert colourful(stream, environ) is expected
    with open(os.devnull, "w") as stream:
        assert not colourful(stream, environ)


@given(st.text(min_size=1), st.dictionaries(st.text(), st.one_of(st.text(), st.integers(), st.none())))
def test_a_call_is_one_line_and_not_long(tool: str, arguments: dict[str, Any]) -> None:
    shown = call_text(tool, arguments)

    assert len(shown) <= MAX_LINE
    assert len(shown.splitlines()) <= 1


TREE = SequentialNode(
    name="root",
    agents=(
        RouterNode(
            name="pick",
            prompt="",
            agents=tuple(LlmNode(name=name, prompt="", model="m") for name in ("left", "right")),
        ),
    ),
)
STARTED = e.ToolStarted("k", 1, "add", "s", {"name": "x"}, "once", asks=True, node="left")
ASKED = e.ApprovalRequested(asked(id="u1", node="left", tool_name="add", tool_args={"n": 1}, replaces="u0"))


def told(*new: e.LogEvent) -> list[str | None]:
    progress = ProgressView(dict(routers(TREE)))
    stored = enumerate(map(encode, new), 1)
    return [progress.line(Event("c", seq, each.type, 0.0, each.body)) for seq, each in stored]


def test_progress() -> None:
    gone = StepFailed(error=Fault("model_error", "gone"))
    assert told(
        e.ConversationCreated("sid", ""),
        e.StepFinished.of("1", "route", "pick", Chosen(1)),
        e.StepFinished.of("2", "model", "right", Replied(text="so\nbe it", tool_calls=())),
        e.StepFinished.of("2", "model", "right", Replied(text="", tool_calls=())),
        e.StepFinished.of("3", "model", "right", gone),
        e.StepFinished.of("4", "attempt", "right", gone),
        e.StepFinished.of("5", "node", "right", gone),
        e.StepFinished.of("6", "node", "right", Ended(NodeEnd("text"))),
        e.StepFinished.of("7", "call", "right", NotSent("denied", "not allowed")),
        e.StepFinished.of("7", "call", "right", NotSent("exit_loop", "ok")),
        STARTED,
        e.ToolUnknown("k", 1, "the connection was lost"),
        attrs.evolve(STARTED, attempt=2),
        e.ToolFinished("k", 2, ToolResult("done\nwell")),
        e.ToolFinished("k", 2, ToolResult("no", is_error=True)),
    ) == [
        "conversation c",
        "pick: picks right",
        "right: so be it",
        None,
        "right: failed: gone",
        "right: failed, retrying: gone",
        None,
        None,
        "right: not called: not allowed",
        "right: exits the loop",
        'left: add(name="x")',
        "left: add: outcome unknown: the connection was lost",
        'left: add(name="x"), attempt 2',
        "left: add -> done well",
        "left: add failed: no",
    ]


@pytest.mark.parametrize(
    ("event", "line"),
    [
        (e.ApprovalResolved("u1", Approved(), "c", False), "left: approved"),
        (
            e.ApprovalResolved("u1", Approved(arguments={}), "c", False),
            "left: approved, edited: n=1 -> (not set)",
        ),
        (
            e.ApprovalResolved("u1", Approved(arguments={"n": 2}, decided_by="ann"), "c", False),
            "left: approved, edited: n=1 -> 2, by ann",
        ),
        (e.ApprovalResolved("u1", Rejected(reason="no"), "c", False), "left: rejected (no)"),
        (e.ApprovalExpired("u1", "reject"), "left: not answered in time"),
        (e.ApprovalVoid("u1", "the run was cancelled"), "left: withdraws u1: the run was cancelled"),
        (e.StateSet("k", "v", "left"), None),
    ],
)
def test_progress_of_an_approval(event: e.LogEvent, line: str | None) -> None:
    assert told(ASKED, event) == ["left: asks u1: add(n=1), in place of u0", line]


def test_a_form_is_asked_field_by_field() -> None:
    schema = {
        "properties": {
            "name": {"type": "string", "title": "Your name"},
            "age": {"type": "integer"},
            "sure": {"type": "boolean", "default": False},
            "colour": {"type": "string", "enum": ["red", "blue"]},
            "odd": True,
        },
        "required": ["name", "sure"],
    }
    name, age, sure, colour, odd = fields(schema)
    assert (name.prompt, name.required) == ("name, Your name (string) >", True)
    assert (age.prompt, age.required) == ("age (integer; may be left out) >", False)
    assert (sure.prompt, sure.required) == ("sure (boolean; default: false) >", False)
    assert colour.prompt == "colour (red | blue; may be left out) >"
    assert [name.value("5"), age.value("5"), age.value("five")] == ["5", 5, "five"]
    assert [sure.value("yes"), sure.value("N"), sure.value("true"), odd.value("x")] == [
        True,
        False,
        True,
        "x",
    ]
    assert list(fields({"properties": []})) == list(fields({})) == []


@pytest.mark.parametrize(
    ("kind", "more", "answer"),
    [
        ("tool", {}, {"approved": True}),
        ("checkpoint", {}, {"approved": True}),
        ("outcome_unknown", {}, {"action": "done"}),
        ("elicitation", {"url": "https://x.example"}, {"action": "accept"}),
        ("elicitation", {"input_schema": {"properties": {"name": {}}}}, {"action": "accept"}),
        (
            "elicitation",
            {"input_schema": {"properties": {"name": {}, "age": {}}, "required": ["name"]}},
            {"action": "accept", "content": {"name": "..."}},
        ),
    ],
)
def test_an_answer_that_is_shown_is_one_of_its_kind(kind: str, more: Any, answer: dict[str, Any]) -> None:
    question = asked(kind, **more)
    assert question.example() == answer
    assert question.parse(answer).to_json() == answer
