"""Decisions in messages, for questions of each kind."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from stopgo.actors.a2a.wire.a2a_errors import A2AError
from stopgo.actors.a2a.wire.a2a_headers import HITL
from stopgo.actors.a2a.wire.task import Data, Message, Part, Text
from stopgo.actors.approvals.asked import Asked
from stopgo.gateway.a2a.hitl import request_of
from stopgo.gateway.a2a.task_answer import decision_in_words, form_of_words, named_decisions
from tests.questions import asked

YES, NO = {"approved": True}, {"approved": False}


def message(*parts: Part, metadata: Mapping[str, Any] | None = None) -> Message:
    return Message(id="m", role="user", parts=parts, metadata=metadata)


def said(kind: str, *words: str) -> Mapping[str, Any] | None:
    """What a text decides about the only pending question, `q`. `o` has been decided before."""
    question = asked(kind, id="q")
    known = {"q": question, "o": asked(id="o")}
    return decision_in_words(message(*map(Text, words)), [question], known).get("q")


@pytest.mark.parametrize(
    ("kind", "words", "decision"),
    [
        *(("tool", word, YES) for word in ("yes", "Y", "true", "approve", "approved", " OK\n", "confirm")),
        *(("tool", word, NO) for word in ("no", "n", "FALSE", "reject", "rejected")),
        *(("tool", word, YES) for word in ("yes.", "Yes!", "APPROVE", "`approve`", "**Yes**", '"yes",')),
        *(("tool", word, NO) for word in ("No!", "(reject)")),
        *(("tool", word, YES) for word in ("approve q", "q: yes", "Approve (q).", "yes, q", "approve `q`")),
        ("tool", "reject: q", NO),
        ("checkpoint", "yes", YES),
        ("elicitation", "decline", {"action": "decline"}),
        ("elicitation", "Decline q.", {"action": "decline"}),
        ("outcome_unknown", "Retry", {"action": "retry"}),
        *(
            ("tool", words, None)
            for words in ("", "q", "yes please", "not approved", "accept", "ja", "yes yes")
        ),
        *(("tool", words, None) for words in ("yes?", "Approve?", "\u00bfyes", "yes Q", "yes q q", "yes p")),
        *(
            ("tool", words, None)
            for words in ("yes \U0001f44e", "y/n", "yes no", "no-yes", "\u00acyes", "don't approve")
        ),
        *(("tool", words, None) for words in ("yes\u200b", "y\u0435s", "yes" + " " * 500, "yes o")),
        ("elicitation", "yes", None),
        ("outcome_unknown", "approved", None),
    ],
)
def test_text_decides_if_it_is_a_word_and_perhaps_the_id(
    kind: str, words: str, decision: Mapping[str, Any] | None
) -> None:
    assert said(kind, words) == decision
    question = asked(kind, id="q")
    assert decision_in_words(message(Text(words), Data({})), [question], {"q": question}) == {}


def test_one_of_several_questions_needs_its_id() -> None:
    both = {"a": asked(id="a"), "b": asked(id="b")}
    pending = list(both.values())
    assert decision_in_words(message(Text("yes")), pending, both) == {}
    assert decision_in_words(message(Text("approve b")), pending, both) == {"b": YES}
    assert decision_in_words(message(Text("approve a b")), pending, both) == {}


@pytest.mark.parametrize(
    ("kind", "data", "decision"),
    [
        # What `KAgentRemoteA2ATool` sends: kagent-adk 0.10.4, kagent/adk/_remote_a2a_tool.py.
        ("tool", {"decision_type": "approve"}, YES),
        ("tool", {"decision_type": "reject"}, NO),
        ("tool", {"decision_type": "reject", "rejection_reason": "not today"}, {**NO, "reason": "not today"}),
        ("tool", {"decision_type": "approve", "rejection_reason": "not today"}, YES),
        ("tool", {"decision_type": "approve", "ask_user_answers": [{"answer": ["a"]}]}, None),
        ("tool", {"decision_type": "batch", "decisions": {"c": "approve"}}, None),
        ("tool", {"decision_type": "later"}, None),
        ("elicitation", {"decision_type": "approve"}, None),
    ],
)
def test_decision_of_kagents_tool_is_one_of_the_only_question(
    kind: str, data: Mapping[str, Any], decision: Mapping[str, Any] | None
) -> None:
    question, other = asked(kind, id="q"), asked(id="p")
    known = {"q": question, "p": other}
    assert decision_in_words(message(Data(data)), [question], known).get("q") == decision
    assert decision_in_words(message(Data(data)), [question, other], known) == {}
    assert decision_in_words(message(Data(data), Text("no")), [question], known) == {}


def test_text_that_asks_names_the_form_that_works() -> None:
    """Each form decides what it says, in the message in which it stands."""
    form = asked("elicitation", id="e")
    for pending in [[asked(id="a")], [form], [asked("outcome_unknown", id="o")], [asked(id="a"), form]]:
        known = {each.id: each for each in pending}
        forms = re.findall(r'"([^"]+)"', form_of_words(pending))
        assert len(forms) >= 2 * len(pending)
        decided = [decision_in_words(message(Text(each)), pending, known) for each in forms]
        assert {id for each in decided for id in each} == known.keys()
        for each in decided:
            [(id, words)] = each.items()
            known[id].original.parse(words)
    assert form_of_words([asked(id="a")]) == 'Reply with "yes" or "no".'
    assert form_of_words([asked(id="a"), asked(id="b")]) == (
        'Reply with "approve a" or "reject a".\nReply with "approve b" or "reject b".'
    )


@pytest.mark.parametrize(
    ("data", "decisions"),
    [
        ({"id": "q", "approved": True}, {"q": YES}),
        ({"approval_id": "q", "decision": "approved"}, {"q": {"action": "approved"}}),
        ({"uuid": "q", "action": "done", "result": "5"}, {"q": {"action": "done", "result": "5"}}),
        ({"approval": {"id": "q"}, "approved": False, "reason": "r"}, {"q": {**NO, "reason": "r"}}),
        (
            {"approvals": [{"id": "q", "approved": True}, {"id": "p", "approved": False}]},
            {"q": YES, "p": NO},
        ),
        *(
            (data, {})
            for data in ({"id": "q"}, {"approved": True}, {"id": 5, "approved": True}, [1], "q", None)
        ),
    ],
)
def test_data_part_decides_the_approval_it_names(data: Any, decisions: Any) -> None:
    assert named_decisions(message(Text("see"), Data(data)), [asked()]) == decisions


@pytest.mark.parametrize(
    "data",
    [
        [{"id": "q", **NO}, {"id": "q", **YES}],
        [{"approvals": [{"id": "q", **NO}, {"id": "q", **YES}]}],
        [{"id": "q", "decision": "approved", **NO}],
        [{"id": "q", "decision": "approved", "action": "reject"}],
        [{"id": "q", "decision": False, **YES}],
        [{"id": "q", "approval_id": "p", **YES}],
    ],
)
def test_a_contradiction_decides_nothing(data: Sequence[Any]) -> None:
    said = message(*map(Data, data))
    with pytest.raises(A2AError) as refused:
        named_decisions(said, [asked(id="q")])
    assert refused.value.reason == "INVALID_PARAMS"
    named_decisions(said, [])  # where nothing is open, it is data like any other


OTHER = asked("outcome_unknown", id="o")
TOOLS = [asked(id="a", tool_args={"n": 1}), asked("checkpoint", id="b"), OTHER]


def test_hitl_request_prefers_tool_approvals() -> None:
    assert request_of(TOOLS, "Go on?") == {
        "type": "tool_approval_request",
        "hint": "Go on?",
        "tools": [
            {"id": "a", "call_id": "1/", "name": "t", "args": {"n": 1}},
            {"id": "b", "call_id": "1/", "name": "n", "args": {}},
        ],
    }
    question = {"question": "?", "choices": ["done", "failed", "retry"], "multiple": False}
    assert request_of([OTHER], "") == {"type": "ask_user_request", "id": "o", "questions": [question]}
    assert request_of([], "") is None


def tools(*approvals: Any) -> Mapping[str, Any]:
    return {"type": "tool_approval_response", "approvals": list(approvals)}


A, B = {"id": "a", "approved": True}, {"id": "b", "approved": False, "rejection_reason": "r"}
ACTION = {"type": "ask_user_response", "id": "o", "answers": [{"answer": ["done"]}]}


@pytest.mark.parametrize(
    ("response", "decisions"),
    [
        (tools(A, B), {"a": YES, "b": {**NO, "reason": "r"}}),
        (tools(A, B, {"id": "c", "approved": True}), {"a": YES, "b": {**NO, "reason": "r"}, "c": YES}),
        (ACTION, {"o": {"action": "done"}}),
    ],
)
def test_a_response_decides_all_that_was_asked(response: Mapping[str, Any], decisions: Any) -> None:
    kind, rest = response["type"], {name: each for name, each in response.items() if name != "type"}
    for said in (
        message(Text("no"), metadata={HITL: response}),
        message(Data(response)),
        message(Data({kind: rest})),
    ):
        assert named_decisions(said, TOOLS) == decisions


@pytest.mark.parametrize(
    ("response", "mistake"),
    [
        (tools(A), "approvals: must decide b, too"),
        (tools(A, B, A), "approvals: must hold each id once, with `approved` true or false"),
        (tools(A, {"id": "b"}), "approvals: must hold each id once, with `approved` true or false"),
        ({"type": "tool_approval_response"}, "approvals: must be a list"),
        (
            {**ACTION, "answers": []},
            "answers: must hold one answer of one choice, beside the id of the request",
        ),
    ],
)
def test_what_a_response_must_not_be(response: Mapping[str, Any], mistake: str) -> None:
    pending: Sequence[Asked[Any]] = TOOLS
    with pytest.raises(A2AError) as raised:
        named_decisions(message(metadata={HITL: response}), pending)
    assert (raised.value.reason, str(raised.value)) == ("INVALID_PARAMS", mistake)
