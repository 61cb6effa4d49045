"""What `stopgo chat` and `stopgo approvals` make of events, of lines, and of approvals."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stopgo.actors.approvals.yes_or_no import Approved
from stopgo.actors.log.words import events as e
from stopgo.actors.log.words.event_json import encode
from stopgo.actors.log.words.outcomes import Chosen
from stopgo.gateway.cli.chat.chat import message_of
from stopgo.gateway.cli.chat.chat_conversation import CtrlC
from stopgo.gateway.cli.commands.approvals_process import line_of, list_lines, words_of
from stopgo.gateway.cli.terminal.chat_terminal import json_for_people
from stopgo.gateway.cli.terminal.follower import Follower, Line, OnScreen
from stopgo.gateway.cli.terminal.progress import stored_routers
from stopgo.gateway.cli.terminal.terminal import printable
from stopgo.runtime.journal.protocol import Event
from tests.questions import asked

STARTED = e.RunStarted(run="r", turn=1, command="c", tree_id="t", replay_version=1, token=False)
RESUMED = e.RunResumed(run="r", command="c", token=False, answer=True)
ASKS = [e.ApprovalRequested(asked(id=id)) for id in "ab"]
WAITS = e.RunWaiting(run="r", on=["a", "b"], settles=[], worked={})
YES = e.ApprovalResolved("a", Approved(), "c", token=False)
VOID = e.ApprovalVoid("a", "because")
DONE = e.RunFinished("r", "bye", settles=[])
HELLO = e.MessageAdded("hello", "c")


def taken_in(*told: e.LogEvent | Event) -> tuple[Follower, list[OnScreen | None]]:
    follower, shown = Follower(), []
    for seq, each in enumerate(told, 1):
        if not isinstance(each, Event):
            new = encode(each)
            each = Event("c", seq, new.type, 0.0, new.body)
        shown.append(follower.apply(each)[1])
    return follower, shown


@pytest.mark.parametrize(
    ("told", "running", "question"),
    [
        ([], False, None),
        ([HELLO, STARTED], True, None),
        ([STARTED, *ASKS], True, None),
        ([STARTED, *ASKS, WAITS], False, "a"),
        ([STARTED, *ASKS, WAITS, YES], False, "b"),
        ([STARTED, *ASKS, WAITS, VOID], False, "b"),
        ([STARTED, *ASKS, WAITS, YES, RESUMED], True, None),
        ([STARTED, *ASKS, WAITS, YES, RESUMED, DONE], False, None),
        ([STARTED, WAITS], False, None),  # it waits for what this version does not know
        ([STARTED, e.RunCancelled("r", settles=[])], False, None),
        ([STARTED, e.RunFailed("r", "code", "why", settles=[])], False, None),
        ([STARTED, e.RunAuthRequired(run="r", server="s", settles=[], worked={})], False, None),
    ],
)
def test_what_can_be_said_next(told: list[e.LogEvent], running: bool, question: str | None) -> None:
    follower, _ = taken_in(*told)
    assert (follower.running, follower.next_approval and follower.next_approval.id) == (running, question)
    settled = {"a"} if YES in told or VOID in told else set()
    assert set(follower.pending) == {each.asked.id for each in ASKS if each in told} - settled


@pytest.mark.parametrize(
    ("told", "place"),
    [
        ([*ASKS, WAITS], "1 of 2"),
        ([*ASKS, WAITS, YES], "2 of 2"),
        ([*ASKS, WAITS, VOID], "2 of 2"),
        ([ASKS[0], WAITS], ""),
        ([ASKS[0], YES, ASKS[1], WAITS], ""),
    ],
)
def test_question_has_its_place_among_those_that_wait(told: list[e.LogEvent], place: str) -> None:
    assert taken_in(STARTED, *told)[0].progress.place == place


@pytest.mark.parametrize(
    ("type", "body"),
    [
        ("moon.landed", {}),
        ("approval.requested", {"kind": "riddle"}),
        ("message.added", {"txet": "x"}),
        ("step.finished", {"kind": "dance"}),
        ("tool.finished", {"key": "1/", "attempt": 1, "result": {"content": "x", "is_error": False}}),
    ],
)
def test_events_of_a_newer_server_are_passed_over(type: str, body: dict[str, Any]) -> None:
    follower, shown = taken_in(Event("c", 1, type, 0.0, body), HELLO)
    assert shown == [None, Line("> hello", "question")]
    assert list(follower.entries) == [(True, "hello")]


def test_a_choice_is_named_by_the_tree_of_its_run() -> None:
    tree = {
        "type": "sequential",
        "agents": [{"type": "router", "name": "pick", "agents": [{"name": "x"}, {"name": "y"}]}],
    }
    started = e.RunStarted("r", 1, "c", "t", 1, token=False, tree=tree)
    chosen = e.StepFinished.of("1/", "route", "pick", Chosen(choice=1))
    other = e.StepFinished.of("1/", "route", "other", Chosen(choice=1))
    assert taken_in(started, chosen, other)[1][1:] == [Line("pick: picks y"), Line("other: picks 1")]
    assert list(stored_routers({"agents": ["name alone"]})) == []


@pytest.mark.parametrize(
    ("line", "message"),
    [("hi", "hi"), ("  hi\n", "hi"), ("", ""), (" ", ""), ("/help", None), (" /x y", None), ("//x", "/x")],
)
def test_a_line_is_a_message_or_a_command(line: str, message: str | None) -> None:
    assert message_of(line) == message


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(JSON)
def test_arguments_in_the_editor_are_themselves_and_harmless(value: object) -> None:
    text = json_for_people(value)
    assert json.loads(text) == value
    assert printable(text) == text


@pytest.mark.parametrize(
    ("presses", "cancelled"),
    [("", 0), ("before", 1), ("in", 1), ("in in", 1), ("before in", 1), ("before forget", 0), ("after", 0)],
)
def test_ctrl_c_is_heard_once_and_not_forgotten_too_early(presses: str, cancelled: int) -> None:
    ctrl_c, found = CtrlC(), []
    if "before" in presses:
        ctrl_c.press()
    if "forget" in presses:
        ctrl_c.forget()
    with ctrl_c.means(lambda: found.append(1)):
        for _ in range(presses.count("in")):
            ctrl_c.press()
    if "after" in presses:
        ctrl_c.press()
    assert len(found) == cancelled
    if "after" not in presses:  # the next run is not cancelled for it
        with ctrl_c.means(lambda: found.append(2)):
            assert 2 not in found


CALL = {"uuid": "u", "kind": "tool", "tool_name": "add", "tool_args": {"n": 1}, "description": "**ADD**"}


@pytest.mark.parametrize(
    ("changes", "action", "given", "words", "line"),
    [
        ({}, "approve", {}, {"approved": True}, "add(n=1)"),
        ({}, "reject", {"by": "me"}, {"approved": False, "decided_by": "me"}, "add(n=1)"),
        ({}, "reject", {"reason": "no"}, {"approved": False, "reason": "no"}, "add(n=1)"),
        ({}, "approve", {"arguments": {}}, {"approved": True, "arguments": {}}, "add(n=1)"),
        ({}, "respond", {"result": "use b"}, {"action": "respond", "result": "use b"}, "add(n=1)"),
        ({"kind": "checkpoint"}, "approve", {}, {"approved": True}, "**ADD**"),
        ({"kind": "outcome_unknown"}, "retry", {}, {"action": "retry"}, "what came of add(n=1)?"),
        ({"kind": "outcome_unknown"}, "done", {"result": "3"}, {"action": "done", "result": "3"},
         "what came of add(n=1)?"),
        ({"kind": "outcome_unknown"}, "failed", {"reason": "no", "by": "me"},
         {"action": "failed", "reason": "no", "decided_by": "me"}, "what came of add(n=1)?"),
        ({"kind": "elicitation", "message": "Who?"}, "approve", {"arguments": {"name": "Ada"}},
         {"action": "accept", "content": {"name": "Ada"}}, "Who?"),
        ({"kind": "elicitation", "message": "Who?"}, "reject", {}, {"action": "decline"}, "Who?"),
        ({"kind": "proxy", "remote_kind": "elicitation"}, "reject", {}, {"action": "decline"}, "add(n=1)"),
    ],
)  # fmt: skip
def test_decisions_and_lines_of_each_kind(
    changes: dict[str, Any], action: str, given: dict[str, Any], words: dict[str, Any], line: str
) -> None:
    approval = CALL | changes
    assert words_of(approval, action, given) == words
    assert line_of(approval) == line


def test_a_list_names_the_servers_of_tools_of_one_name() -> None:
    asked = [("a", "wipe", "staging"), ("b", "wipe", "production"), ("c", "add", "production")]
    page = [
        {**CALL, "uuid": uuid, "created_at": "t", "tool_name": tool, "server": server}
        for uuid, tool, server in asked
    ]
    assert list(list_lines({"approvals": page})) == [
        "a  t  wipe(n=1) of staging",
        "b  t  wipe(n=1) of production",
        "c  t  add(n=1)",
    ]
