"""The exact stored form of events and commands. Any other form is damage."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias, get_args

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stopgo.actors.approvals.checkpoint_approval import CheckpointQuestion
from stopgo.actors.approvals.tool_approval import ToolQuestion
from stopgo.actors.approvals.yes_or_no import Approved
from stopgo.actors.common.errors import Fault
from stopgo.actors.log.words import events as e
from stopgo.actors.log.words import inbox
from stopgo.actors.log.words import outcomes as o
from stopgo.actors.log.words.event_json import decode, encode
from stopgo.actors.models.messages.a2a_end import (
    A2AEnd,
    DataArtifact,
    FileArtifact,
    LinkArtifact,
    TextArtifact,
)
from stopgo.actors.models.messages.messages import ToolCall, Verbatim
from stopgo.actors.models.messages.usage import StepUsage
from stopgo.actors.tools.delegation import RemoteItem
from stopgo.actors.tools.needs import Need, NeedsAnswers, NeedsDecisions, NeedsToken, Unaskable
from stopgo.actors.tools.pictures import Picture
from stopgo.actors.tools.tool import Elicitation, ToolResult
from stopgo.actors.tools.verdict_facts import UnsentCall, VerdictFacts
from stopgo.runtime import json_text
from stopgo.runtime.journal.protocol import Command, Event, Json

Stored: TypeAlias = e.LogEvent | inbox.AnyCommand
Rows: TypeAlias = Sequence[tuple[Stored, str]]


def step(kind: o.StepKind, outcome: o.StepOutcome) -> e.StepFinished:
    return e.StepFinished.of("1/:1", kind, "n", outcome)


def step_text(kind: str, outcome: str) -> str:
    return f'step.finished {{"key":"1/:1","kind":"{kind}","node":"n","fingerprint":"{kind} n",{outcome}}}'


CALLS = (ToolCall("c1", "add", {"n": 1}), ToolCall("c2", "add", {}, "no JSON"))
CALLS_TEXT = (
    '"tool_calls":[{"id":"c1","name":"add","arguments":{"n":1}},'
    '{"id":"c2","name":"add","arguments":{},"problem?":"no JSON"}]'
)
USED = StepUsage(9, 4, 3, 2, 0.5)
HOPS = (o.ModelHop("m", "busy", 503), o.ModelHop("k", "gone"))
COST_TEXT = (
    '"usage?":{"input_tokens":9,"output_tokens":4,"cached_tokens!":3,"cache_write_tokens!":2,"cost_usd?":0.5},'
    '"hops!":[{"model":"m","message":"busy","status?":503},{"model":"k","message":"gone"}]'
)
ORIGIN = e.Origin(("a",), "00-1")
ORIGIN_TEXT = '"origin?":{"visited":["a"],"traceparent?":"00-1"}'
PICTURE = Picture("image/png", "iVBORw0KGgoA")
PICTURE_TEXT = '"pictures!":[{"media_type":"image/png","data":"iVBORw0KGgoA"}]'
VERBATIM = Verbatim("p", [1])
RESULT = ToolResult("5", True, ({"type": "text"},), {"n": 5})
RESULT_TEXT = '"result":{"content":"5","is_error":true,"parts":[{"type":"text"}],"structured~":{"n":5}}'
ASKED: Mapping[str, Elicitation | Unaskable] = {
    "f": Elicitation("?", {"x": 1}),
    "u": Elicitation("?", url="https://a.b"),
    "x": Unaskable("long"),
}
CHECKPOINT = CheckpointQuestion(
    id="a", question="1/?", key="1/", node="n", tool_name="n", tool_args={}, description="go?"
)
FACTS = VerdictFacts(
    action="ask",
    policy="0f",
    rule="9a",
    undecided=True,
    held=True,
    hints="rD",
    own_name="t",
    misleading=True,
    facade="all",
    shadows={"9b": "deny"},
)
FACTS_TEXT = (
    '"verdict?":{"action":"ask","policy":"0f","rule!":"9a","undecided!":true,"held!":true,"hints!":"rD",'
    '"own_name?":"t","misleading!":true,"facade?":"all","shadows!":{"9b!":"deny"}}'
)
UNSENT = UnsentCall(
    action="deny", policy="0f", tool_name="t", server="s", fingerprint="f", arguments={"a": 1}
)
UNSENT_TEXT = (
    '"verdict?":{"action":"deny","policy":"0f","tool_name?":"t","server?":"s","fingerprint?":"f",'
    '"arguments?":{"a":1}}'
)
QUESTION = ToolQuestion(
    id="a",
    question="1/:1.0~0",
    key="1/:1.0",
    node="n",
    tool_name="t",
    tool_args={"a": 1},
    description="go?",
    server="s",
    rule="any: ask",
    input_schema={"type": "object"},
    tool_fingerprint="f",
    verdict=FACTS,
)
ITEMS = (
    RemoteItem(
        message="m",
        id="i",
        kind="tool",
        tool="rm",
        arguments={"a": 1},
        description="d",
        schema={"x": 1},
        agents=("b",),
    ),
)
YES = Approved(arguments={"a": 1}, reason="r", decided_by="p", token=True)
YES_TEXT = '"decision":{"approved":true,"arguments?":{"a":1},"reason?":"r","decided_by?":"p","token!":true}'

# Signs at the end of a name: "?" for a field that may be missing or null, "!" for one that may be missing and
# not null, "~" for one that may be null and not missing.
EVENTS: Rows = [
    (e.ConversationCreated("s", "be kind"), 'conversation.created {"session_id":"s","prompt":"be kind"}'),
    (
        e.MessageAdded("hi", "c", None, (PICTURE,)),
        f'message.added {{"text":"hi","command":"c",{PICTURE_TEXT}}}',
    ),
    (e.StateSet("k", "v", "n"), 'state.set {"key":"k","value":"v","node":"n"}'),
    (e.ConversationCompleted(), "conversation.completed {}"),
    *(
        (
            step("model", o.Replied(text="", tool_calls=(), a2a=A2AEnd("failed", artifact))),
            step_text("model", f'"text":"","tool_calls":[],"a2a?":{{"state":"failed","artifact?":{text}}}'),
        )
        for artifact, text in (
            (TextArtifact(("a", "b")), '{"chunks":["a","b"]}'),
            (FileArtifact("x", "f", "text/plain"), '{"content":"x","name?":"f","media_type?":"text/plain"}'),
            (LinkArtifact("u", "f", "text/plain"), '{"url":"u","name?":"f","media_type?":"text/plain"}'),
            (DataArtifact({"n": 5}), '{"data":{"n":5}}'),
        )
    ),
    (
        step(
            "model", o.Replied(text="", tool_calls=CALLS, model="m", verbatim=VERBATIM, usage=USED, hops=HOPS)
        ),
        step_text(
            "model",
            f'"text":"",{CALLS_TEXT},"model?":"m","verbatim?":{{"provider":"p","content~":[1]}},{COST_TEXT}',
        ),
    ),
    (
        step("node", o.Ended(o.NodeEnd("no", True, True, {"k": "no"}), Fault("timed_out", "slow", True))),
        step_text(
            "node",
            '"end":{"text":"no","rejected":true,"exited":true,"writes":{"k!":"no"}},'
            '"continued?":{"code":"timed_out","message":"slow","fatal":true}',
        ),
    ),
    (
        step("delegation", o.Delegation(CALLS[0])),
        step_text("delegation", '"call":{"id":"c1","name":"add","arguments":{"n":1}}'),
    ),
    (step("route", o.Chosen(1)), step_text("route", '"choice":1')),
    (
        step("call", o.NotSent("denied", "no", verdict=UNSENT)),
        step_text("call", f'"outcome":"denied","content":"no",{UNSENT_TEXT}'),
    ),
    (
        step("model", o.StepFailed(error=Fault("x", "gone"), usage=USED, hops=HOPS)),
        step_text("model", f'"error":{{"code":"x","message":"gone","fatal":false}},{COST_TEXT}'),
    ),
    (
        e.BatchFinished("1/:1", "n", 3, 2, 1.5, 0.0, 2, 1),
        'batch.finished {"key":"1/:1","node":"n","size":3,"concurrency":2,"duration":1.5,'
        '"average_duration":0.0,"succeeded":2,"failed":1}',
    ),
    (
        e.ToolStarted("k", 1, "t", "s", {"a": [1]}, "once", True, "n", "f", "all", ("q",), FACTS),
        'tool.started {"key":"k","attempt":1,"tool":"t","server":"s","arguments":{"a":[1]},"effect":"once",'
        '"asks":true,"node":"n","fingerprint?":"f","facade?":"all","brings!":["q"],'
        f"{FACTS_TEXT}}}",
    ),
    (
        e.ToolAccepted("k", 1, "t1", "c1"),
        'tool.accepted {"key":"k","attempt":1,"remote_task":"t1","context!":"c1"}',
    ),
    (
        e.ToolFinished("k", 1, RESULT, NeedsDecisions(ITEMS, {"item i": "no"}), rejected=True),
        f'tool.finished {{"key":"k","attempt":1,{RESULT_TEXT},"need?":{{"kind":"decisions","items":['
        '{"message":"m","id?":"i","kind!":"tool","tool!":"rm","arguments!":{"a":1},"description!":"d",'
        '"schema?":{"x":1},"agents!":["b"]}],"refusals!":{"item i!":"no"}},"rejected!":true}',
    ),
    (
        e.ToolFinished("k", 1, RESULT, NeedsToken(403, "c", "Bearer")),
        f'tool.finished {{"key":"k","attempt":1,{RESULT_TEXT},'
        '"need?":{"kind":"credential","status":403,"command":"c","challenge?":"Bearer"}}',
    ),
    (
        e.ToolFinished("k", 1, RESULT, NeedsAnswers(ASKED, "s", True)),
        f'tool.finished {{"key":"k","attempt":1,{RESULT_TEXT},"need?":{{"kind":"answers","requests":{{'
        '"f!":{"message":"?","schema?":{"x":1}},"u!":{"message":"?","url?":"https://a.b"},'
        '"x!":{"unaskable":"long"}},"state?":"s","answers":true}}',
    ),
    (e.ToolUnknown("k", 1, "lost"), 'tool.unknown {"key":"k","attempt":1,"reason":"lost"}'),
    (
        e.ApprovalRequested(CHECKPOINT),
        'approval.requested {"kind":"checkpoint","id":"a","question":"1/?","key":"1/","node":"n","path?":[],'
        '"output_key?":"","session_state?":{},"user_message?":"","tool_name":"n","tool_args":{},'
        '"description":"go?","rule?":""}',
    ),
    (
        e.ApprovalRequested(QUESTION),
        'approval.requested {"kind":"tool","id":"a","question":"1/:1.0~0","key":"1/:1.0","node":"n",'
        '"path?":[],"output_key?":"","session_state?":{},"user_message?":"","tool_name":"t","tool_args":{"a":1},'
        '"description":"go?","rule?":"any: ask","server":"s","input_schema":{"type":"object"},'
        f'"tool_fingerprint":"f",{FACTS_TEXT}}}',
    ),
    (
        e.ApprovalResolved("a", YES, "c", True),
        f'approval.resolved {{"id":"a",{YES_TEXT},"command":"c","token":true}}',
    ),
    (
        e.ApprovalVoted("a", "ann", "h", ("bob", "ann"), 3, YES, "c"),
        'approval.voted {"id":"a","by":"ann","subject":"h","voters":["bob","ann"],"needed":3,'
        f'{YES_TEXT},"command":"c"}}',
    ),
    (
        e.ApprovalResolved("a", YES, "c", False, "h", ("bob", "ann")),
        f'approval.resolved {{"id":"a",{YES_TEXT},"command":"c","token":false,"subject?":"h",'
        '"voters!":["bob","ann"]}',
    ),
    (e.ApprovalExpired("a", "fail"), 'approval.expired {"id":"a","on_expiry!":"fail"}'),
    (e.ApprovalVoid("a", "over", "b"), 'approval.void {"id":"a","reason":"over","superseded_by?":"b"}'),
    (
        e.RunStarted(
            "r",
            2,
            "c",
            "x",
            1,
            True,
            {"type": "llm"},
            task="t",
            message_id="m",
            origin=ORIGIN,
            prompt="p",
            policy="0f",
        ),
        'run.started {"run":"r","turn":2,"command":"c","tree_id":"x","replay_version":1,"token":true,'
        f'"tree?":{{"type":"llm"}},"task?":"t","message_id?":"m",{ORIGIN_TEXT},"prompt?":"p","policy?":"0f"}}',
    ),
    (
        e.RunWaiting("r", ("a",), ("c",), {"run": 1.5}),
        'run.waiting {"run":"r","on":["a"],"settles":["c"],"worked":{"run!":1.5}}',
    ),
    (
        e.RunAuthRequired(run="r", server="s", status=401, challenge="B", settles=("c",), worked={"1/": 2.5}),
        'run.auth_required {"run":"r","server":"s","settles":["c"],"worked":{"1/!":2.5},'
        '"status?":401,"challenge?":"B"}',
    ),
    (
        e.RunResumed("r", "c", True, False),
        'run.resumed {"run":"r","command":"c","token":true,"answer":false}',
    ),
    (e.RunFinished("r", "hi", ("c",)), 'run.finished {"run":"r","text":"hi","settles":["c"]}'),
    (e.RunFailed("r", "x", "no", ()), 'run.failed {"run":"r","code":"x","message":"no","settles":[]}'),
    (e.RunCancelled("r", ("c",)), 'run.cancelled {"run":"r","settles":["c"]}'),
]
COMMANDS: Rows = [
    (
        inbox.Create("hi", "s", True, "m", ORIGIN, None, (PICTURE,)),
        f'create {{"message~":"hi","session_id~":"s","token":true,"message_id?":"m",'
        f"{ORIGIN_TEXT},{PICTURE_TEXT}}}",
    ),
    (
        inbox.Say("hi", True, "t", "m", ORIGIN, None, (PICTURE,)),
        f'message {{"message":"hi","token":true,"task?":"t","message_id?":"m",{ORIGIN_TEXT},{PICTURE_TEXT}}}',
    ),
    (inbox.Decide("a", YES), f'decision {{"question":"a",{YES_TEXT}}}'),
    (
        inbox.AddVote("a", YES, "h", ("bob", "ann"), 3),
        f'vote {{"question":"a",{YES_TEXT},"subject":"h","voters":["bob","ann"],"needed":3}}',
    ),
    (inbox.Expire("a"), 'expire {"question":"a"}'),
    (inbox.Withdraw("a", "gone"), 'withdraw {"question":"a","reason":"gone"}'),
    (inbox.Resume(True), 'resume {"token":true}'),
    (inbox.Cancel("r1"), 'cancel {"run?":"r1"}'),
    (inbox.Complete(), "complete {}"),
    (inbox.Delete(), "delete {}"),
]
FULL: Rows = [*EVENTS, *COMMANDS]
# With the defaults: most fields are left out then, those of faults, ends and results are not.
SHORT: Rows = [
    (e.MessageAdded("hi", "c"), 'message.added {"text":"hi","command":"c"}'),
    (inbox.Say("hi", True), 'message {"message":"hi","token":true}'),
    (inbox.Cancel(), "cancel {}"),
    (step("model", o.Replied(text="hi", tool_calls=())), step_text("model", '"text":"hi","tool_calls":[]')),
    (
        step("attempt", o.StepFailed(error=Fault("x", "no"))),
        step_text("attempt", '"error":{"code":"x","message":"no","fatal":false}'),
    ),
    (
        step("node", o.Ended(o.NodeEnd("hi"))),
        step_text("node", '"end":{"text":"hi","rejected":false,"exited":false,"writes":{}}'),
    ),
    (step("call", o.NotSent("denied", "no")), step_text("call", '"outcome":"denied","content":"no"')),
    (
        e.ToolStarted(
            "k", 1, "t", "s", {}, "once", True, "n", verdict=VerdictFacts(action="run", policy="0f")
        ),
        'tool.started {"key":"k","attempt":1,"tool":"t","server":"s","arguments":{},"effect":"once",'
        '"asks":true,"node":"n","verdict":{"action":"run","policy":"0f"}}',
    ),
    (
        e.ToolFinished("k", 1, ToolResult("5")),
        'tool.finished {"key":"k","attempt":1,"result":{"content":"5","is_error":false,"parts":[],'
        '"structured":null}}',
    ),
]
# As earlier versions wrote it.
EARLIER: Rows = [
    (
        e.ToolStarted("k", 1, "t", "s", {}, "once", True, "n"),
        'tool.started {"key":"k","attempt":1,"tool":"t","server":"s","arguments":{},"effect":"once",'
        '"asks":true,"node":"n"}',
    ),
    (
        e.ToolStarted(
            "k", 1, "t", "s", {}, "once", True, "n", verdict=attrs.evolve(FACTS, own_name=None, shadows={})
        ),
        'tool.started {"key":"k","attempt":1,"tool":"t","server":"s","arguments":{},"effect":"once",'
        '"asks":true,"node":"n","verdict":{"action":"ask","policy":"0f","rule":"9a","undecided":true,'
        '"held":true,"hints":"rD","misleading":true,"facade":"all"}}',
    ),
    (
        e.ToolFinished("k", 1, ToolResult("5"), NeedsAnswers({}, None, False)),
        'tool.finished {"key":"k","attempt":1,"result":{"content":"5","is_error":false,"parts":[],'
        '"structured":null},"need":{"kind":"answers","requests":{},"answers":false}}',
    ),
]
FREE = {"arguments", "data", "input_schema", "parts", "schema", "session_state", "tool_args", "tree"}
"""Objects, or lists of them, in which anything may be."""
NAMED = {"refusals", "requests", "shadows", "worked", "writes"}
"""Objects whose names are data."""
ANYTHING = {".result.structured", ".verbatim.content"}
WORDS = {
    *(".effect", ".need.kind", ".outcome", ".pictures.media_type", ".verdict.action", ".verdict.shadows.9b")
}
"""Only certain words may be there."""
WRONG: Mapping[type, Sequence[Any]] = {
    str: (5, True, ["x"], {"x": "y"}),
    int: ("5", True, 0.5),
    float: ("5", True),
    bool: (1, "true"),
    list: ("x", {"x": "y"}),
    dict: ("x", ["x"], []),
}


def plain(text: str) -> str:
    return re.sub('[?!~]":', '":', text)


def read(name: str, text: str) -> Stored | None:
    body: Json = json_text.load(plain(text))
    if name in e.TYPES:
        return decode(Event("c", 1, name, 0.0, body)).event
    return inbox.received(Command("c", "k", name, body, 0.0)).command


def written(value: Stored) -> str:
    if isinstance(value, inbox.AnyCommand):
        return f"{value.kind} {json_text.dump(inbox.body_of(value))}"
    new = encode(value)
    return f"{new.type} {json_text.dump(new.body)}"


def is_sound(name: str, body: object) -> bool:
    """Whether it is read without an error. Errors other than the documented ones are raised."""
    try:
        read(name, json_text.dump(body))
    except (LookupError, TypeError, ValueError):
        return False
    return True


def changes(value: Any, place: str = "") -> Iterator[tuple[str, Any, bool]]:
    """All changes of one place: the place and what is wrong there, the changed value, whether it is sound."""
    name = place.rpartition(".")[2]
    if place in ANYTHING:
        return
    if place:
        for wrong in (*WRONG[type(value)], *(["lost"] if place in WORDS else [])):
            yield f"{place}: {wrong!r}", wrong, False
    if isinstance(value, list):
        for change, changed, sound in changes(value[0], place) if value else ():
            yield change, [changed, *value[1:]], sound
    if not isinstance(value, dict) or name in FREE:
        return
    for marked, inner in value.items():
        inside = f"{place}.{marked.rstrip('?!~')}"
        yield f"no {inside}", {each: value[each] for each in value if each != marked}, marked[-1] in "?!"
        yield f"{inside}: null", {**value, marked: None}, marked[-1] in "?~"
        for change, changed, sound in changes(inner, inside):
            yield change, {**value, marked: changed}, sound


def extended(value: Any, name: str = "") -> Any:
    """The value with one more field in each object whose fields are known."""
    if isinstance(value, list):
        return [extended(each, name) for each in value]
    if not isinstance(value, dict) or name in FREE | {"structured"}:
        return value
    more = {} if name in NAMED else {"later": {"x": 1}}
    return {each: extended(inner, each) for each, inner in value.items()} | more


def rows(*tables: Rows) -> pytest.MarkDecorator:
    found = [(value, *text.split(" ", 1)) for table in tables for value, text in table]
    ids = [str(name) for _, name, _ in found]
    return pytest.mark.parametrize(("value", "name", "body"), found, ids=ids)


def test_table_covers_every_stored_class() -> None:
    values = [value for value, _ in (*FULL, *SHORT)]
    steps = [value for value in values if isinstance(value, e.StepFinished)]
    needs = [value.need for value in values if isinstance(value, e.ToolFinished)]
    assert {type(value) for value in values} == {*get_args(e.LogEvent), *get_args(inbox.AnyCommand)}
    assert {type(each.outcome) for each in steps} == set(get_args(o.StepOutcome))
    assert {each.kind for each in steps} == set(get_args(o.StepKind))
    assert {type(each) for each in needs} == {*get_args(Need), type(None)}


@rows(FULL, SHORT)
def test_stored_form_round_trips(value: Stored, name: str, body: str) -> None:
    assert written(value) == f"{name} {plain(body)}"
    assert read(name, body) == value


@rows(EARLIER)
def test_forms_of_earlier_versions_are_read(value: Stored, name: str, body: str) -> None:
    assert read(name, body) == value


@rows(FULL)
def test_unknown_fields_are_ignored(value: Stored, name: str, body: str) -> None:
    assert read(name, json_text.dump(extended(json_text.load(plain(body))))) == value


@rows(FULL)
def test_damaged_bodies_are_refused_and_no_others(value: Stored, name: str, body: str) -> None:
    found = changes(json_text.load(body))
    assert [change for change, changed, sound in found if is_sound(name, changed) is not sound] == []


@pytest.mark.parametrize(
    ("type", "body"),
    [
        ("run.paused", {"run": 5}),
        (e.StepFinished.type, {"kind": "vote"}),
        (e.StepFinished.type, {"kind": "vote", "error": "late"}),
    ],
)
def test_unknown_event_decodes_to_an_empty_entry(type: str, body: Json) -> None:
    assert decode(Event("c", 7, type, 1.5, body)) == e.Entry(7, 1.5, None)


def test_step_without_outcome_is_refused() -> None:
    assert not is_sound(
        e.StepFinished.type, {"key": "1/", "kind": "attempt", "node": "n", "fingerprint": "f"}
    )


def test_unknown_command_is_received_without_value() -> None:
    row = Command("c", "k", "pause", {"run": 5}, 1.5)
    assert inbox.received(row) == inbox.Received("c", "k", 1.5, "pause", None)


NUMBER = st.integers() | st.floats(allow_nan=False, allow_infinity=False)
SCALAR = st.none() | st.booleans() | NUMBER | st.text()
JSON: Any = st.recursive(SCALAR, lambda it: st.lists(it) | st.dictionaries(st.text(), it), max_leaves=8)


@given(st.dictionaries(st.text(max_size=3), JSON, max_size=3), JSON)
def test_free_json_round_trips(free: dict[str, Any], anything: Any) -> None:
    call = ToolCall("c", "t", free)
    for value in (
        step("model", o.Replied(text="", tool_calls=(call,), verbatim=Verbatim("p", anything))),
        e.ToolFinished("k", 1, ToolResult("", parts=(free,), structured=anything)),
        e.RunStarted("r", 1, "c", "x", 1, False, free),
    ):
        body = json_text.load(json_text.dump(encode(value).body))
        assert decode(Event("c", 1, value.type, 0.0, body)).event == value
