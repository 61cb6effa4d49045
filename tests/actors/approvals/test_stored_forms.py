"""Questions and decisions as they are stored, to the letter; what is stored otherwise is damage."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from stopgo.actors.approvals.asked import Asked, Occasion
from stopgo.actors.approvals.checkpoint_approval import CheckpointQuestion
from stopgo.actors.approvals.decided import Decided
from stopgo.actors.approvals.elicitation_approval import Accept, CancelForm, Decline, ElicitationQuestion
from stopgo.actors.approvals.kinds import KINDS, decision_of, question_of
from stopgo.actors.approvals.outcome_approval import Done, Failed, OutcomeQuestion, Retry
from stopgo.actors.approvals.proxy_approval import ProxyQuestion
from stopgo.actors.approvals.tool_approval import ToolQuestion
from stopgo.actors.approvals.yes_or_no import Approved, Rejected
from stopgo.actors.tools.delegation import RemoteItem, RemoteTask
from stopgo.actors.tools.tool import Elicitation, Tool
from tests.questions import body

HERE = Occasion(
    id="u",
    question="1/:1.0~0",
    key="1/:1.0",
    node="n",
    path=(0, 1),
    session_state={"a": "b"},
    user_message="m",
)
OF_ALL = {
    "id": "u",
    "question": "1/:1.0~0",
    "key": "1/:1.0",
    "node": "n",
    "path": [0, 1],
    "output_key": "",
    "session_state": {"a": "b"},
    "user_message": "m",
}
TOOL = Tool("wipe", "", {"type": "object"}, "s")
WIPE = {"tool_name": "wipe", "tool_args": {"a": 1}, "server": "s"}
SHOWN = '**WIPE**\n\nArgs: {"a": 1}'
STARTED: dict[str, Any] = {"tool": "wipe", "arguments": {"a": 1}, "server": "s"}
FOR_EVER = {"expires": None, "on_expiry": "reject"}


def of_tool(**more: Any) -> ToolQuestion:
    rest: dict[str, Any] = {"rule": "r", "facade": None, "replaces": None, **FOR_EVER, **more}
    return ToolQuestion.about(HERE, tool=TOOL, arguments={"a": 1}, **rest)


def of_server(elicitation: Elicitation, expires: float | None) -> ElicitationQuestion:
    return ElicitationQuestion.about(
        HERE, **STARTED, elicitation=elicitation, in_flight=True, expires=expires
    )


def of_agent(item: RemoteItem, **more: Any) -> ProxyQuestion:
    rest: dict[str, Any] = {"refusal": None, "replaces": None, "mover": None, **FOR_EVER, **more}
    return ProxyQuestion.about(HERE, agent="b", server="a2a:b", task=RemoteTask("t", "x"), item=item, **rest)


WHOLE = RemoteItem(
    message="m",
    id="i",
    kind="tool",
    tool="wipe",
    arguments={"a": 1},
    schema={"type": "object"},
    agents=("c",),
)
IN_WORDS = RemoteItem(message="m", description="May I *go*?\n\n[x](y)", unshown="too long")
TOOL_FORM = {
    **WIPE,
    "kind": "tool",
    "description": SHOWN,
    "input_schema": {"type": "object"},
    "tool_fingerprint": TOOL.fingerprint,
    "rule": "r",
}
SERVER_FORM = {**WIPE, "kind": "elicitation", "message": "Hm?", "rule": "the server asks", "in_flight": True}
ASKS = '**QUESTION**\n\nMCP server "s" asks: Hm?'
NO_SECRETS = "\n\nNever enter a password or a key: the answer is stored."


@pytest.mark.parametrize(
    ("question", "form"),
    [
        (of_tool(), TOOL_FORM),
        (
            of_tool(facade="f", replaces="u0", expires=5.0),
            {
                **TOOL_FORM,
                "description": f"{SHOWN}\n\nServer: s",
                "facade": "f",
                "replaces": "u0",
                "expires": 5.0,
                "on_expiry": "reject",
            },
        ),
        (
            CheckpointQuestion.about(HERE, message="Go on?", values={}, expires=5.0, on_expiry="fail"),
            {
                "kind": "checkpoint",
                "tool_name": "n",
                "tool_args": {},
                "description": "Go on?",
                "rule": "an approval node",
                "expires": 5.0,
                "on_expiry": "fail",
            },
        ),
        (
            of_server(Elicitation("Hm?"), None),
            {**SERVER_FORM, "description": f"{ASKS}{NO_SECRETS}", "input_schema": {"type": "object"}},
        ),
        (
            of_server(Elicitation("Hm?", url="https://x.example"), 5.0),
            {
                **SERVER_FORM,
                "description": f"{ASKS}\n\nIt wants you to visit `https://x.example` and to come back.",
                "url": "https://x.example",
                "expires": 5.0,
                "on_expiry": "cancel",
            },
        ),
        (
            OutcomeQuestion.about(HERE, **STARTED, facade=None, reason="it was lost"),
            {
                **WIPE,
                "kind": "outcome_unknown",
                "description": f"**OUTCOME UNKNOWN**\n\n{SHOWN}\n\nThe call was sent, but it was lost. It may"
                " or may not have happened. Look, then say: retry, done or failed.",
                "rule": "the outcome is unknown",
            },
        ),
        (
            of_agent(
                WHOLE,
                refusal="too many",
                replaces="u0",
                mover="k",
                expires=5.0,
            ),
            {
                **WIPE,
                "server": "a2a:b",
                "kind": "proxy",
                "description": "**PROXY APPROVAL — A2A Agent: b -> c**\n\n"
                f"It did not take the last answer: too many\n\n{SHOWN}",
                "rule": 'agent "b" asks',
                "replaces": "u0",
                "expires": 5.0,
                "on_expiry": "reject",
                "remote_task_id": "t",
                "remote_agent_name": "b",
                "remote_context": "x",
                "remote_message": "m",
                "remote_item": "i",
                "remote_kind": "tool",
                "remote_description": "",
                "remote_digest": WHOLE.digest,
                "input_schema": {"type": "object"},
                "agents": ["b", "c"],
                "mover": "k",
            },
        ),
        (
            of_agent(IN_WORDS),
            {
                "kind": "proxy",
                "tool_name": "a2a_b",
                "tool_args": {},
                "server": "a2a:b",
                "description": "**PROXY APPROVAL — A2A Agent: b**\n\n"
                "The question cannot be approved: too long.\n\n> `May I *go*?`\n> `[x](y)`",
                "remote_digest": IN_WORDS.digest,
                "unshown": "too long",
                "rule": 'agent "b" asks',
                "remote_task_id": "t",
                "remote_agent_name": "b",
                "remote_context": "x",
                "remote_message": "m",
                "remote_kind": "",
                "remote_description": "May I *go*?\n\n[x](y)",
                "agents": ["b"],
            },
        ),
    ],
    ids=["tool", "tool, with all", "checkpoint", "form", "address", "outcome", "agent", "agent, as a whole"],
)
def test_a_question_and_its_stored_form(question: Asked[Any], form: Mapping[str, Any]) -> None:
    assert question.to_json() == {**OF_ALL, **form}
    assert question_of(question.to_json()).to_json() == question.to_json()


@pytest.mark.parametrize(
    "damage",
    [
        *({"kind": kind} for kind in ("proxies", "", None, 7, "checkpoint ")),
        {"path": {}},
        {"path": ["0"]},
        *({name: 7} for name in ("id", "key", "node", "path", "tool_name", "tool_args", "server", "rule")),
        *({name: None} for name in ("id", "tool_args", "input_schema", "tool_fingerprint")),
        {"expires": "soon"},
        {"superseded_by": ["u"]},
    ],
    ids=str,
)
def test_damaged_question_is_refused(damage: dict[str, Any]) -> None:
    question_of(body())
    with pytest.raises((LookupError, TypeError, ValueError)):
        question_of({**body(), **damage})


# Another agent may ask anything.
GATE, CALL = ("tool", "checkpoint", "proxy"), ("outcome_unknown", "proxy")
SERVER = ("elicitation", "proxy")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("kinds", "decision", "form"),
    [
        (GATE, Approved(), {"approved": True}),
        (GATE, Approved(arguments={}, token=True), {"approved": True, "arguments": {}, "token": True}),
        (GATE, Rejected(reason="", decided_by="a"), {"approved": False, "reason": "", "decided_by": "a"}),
        (CALL, Retry(), {"action": "retry"}),
        (CALL, Done(result="7"), {"action": "done", "result": "7"}),
        (CALL, Failed(reason="r"), {"action": "failed", "reason": "r"}),
        (SERVER, Accept(content={"a": 1}), {"action": "accept", "content": {"a": 1}}),
        (SERVER, Accept(), {"action": "accept"}),
        (SERVER, Decline(), {"action": "decline"}),
        (SERVER, CancelForm(), {"action": "cancel"}),
    ],
    ids=str,
)
def test_a_decision_and_its_stored_form(
    kind: str, kinds: tuple[str, ...], decision: Decided, form: dict[str, Any]
) -> None:
    assert decision.to_json() == form
    assert list(decision.to_json()) == list(form)
    assert decision_of(form) == decision
    if kind in kinds:
        KINDS[kind].check_kind(decision_of(form))
    else:
        with pytest.raises(ValueError, match="does not decide"):
            KINDS[kind].check_kind(decision_of(form))


NEITHER: list[Any] = [1, 0, "true", "yes", None, []]


@pytest.mark.parametrize(
    "form",
    [
        *({"approved": each} for each in NEITHER),
        *({"action": other} for other in (True, None, "approve", "RETRY", " done", ["retry"], "")),
        *({}, None, [], "yes", True, {"aproved": True}, {"expired": True, "on_expiry": "reject"}),
        *({"approved": True, name: 7} for name in ("arguments", "reason", "decided_by", "token")),
        *({"action": "done", "result": 7}, {"action": "accept", "content": []}),
    ],
    ids=str,
)
def test_unknown_word_decides_nothing(form: Any) -> None:
    with pytest.raises((TypeError, ValueError)):
        decision_of(form)
