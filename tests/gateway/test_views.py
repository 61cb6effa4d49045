"""The JSON of the runtime's values, exact where clients rely on it."""

import json
from datetime import UTC, datetime
from typing import Any

import attrs
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from stopgo.actors.agent.lists import ApprovalPage, ConversationPage, ListedTool
from stopgo.actors.approvals.yes_or_no import Approved
from stopgo.actors.common import errors
from stopgo.actors.conversation.result import Result, turn_of
from stopgo.actors.gate.halt import HaltState
from stopgo.actors.log.fold.head import RunHead
from stopgo.actors.log.words import events
from stopgo.actors.log.words.deltas import ModelDelta
from stopgo.actors.models.messages.messages import ArgumentsDelta
from stopgo.actors.models.messages.usage import Spent
from stopgo.actors.servers.health import Health, PartHealth
from stopgo.actors.tools.tool import Hints, Tool, ToolResult
from stopgo.gateway.contract import examples as ex
from stopgo.gateway.contract.declaration import SHAPES
from stopgo.gateway.rest import views
from stopgo.runtime.journal.protocol import Event
from stopgo.runtime.journal.question import Question
from stopgo.runtime.json_text import dump_wire

NOT_HALTED = HaltState(False, 0)


def shown(view: Any) -> Any:
    """The JSON that clients get of a view."""
    return json.loads(dump_wire(view))


@given(st.floats(0, 4_000_000_000))
@example(59.999_999_6)
def test_times_are_rfc_3339_in_utc(at: float) -> None:
    text = views.timestamp(at)
    assert text.endswith("Z")
    assert abs(datetime.fromisoformat(text).astimezone(UTC).timestamp() - at) < 0.001
    assert text == datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds")[:-6] + "Z"


def test_a_conversation_to_the_letter(agent: Any) -> None:
    agent.grow(
        events.ToolStarted(
            "1/0:1.0",
            1,
            tool="resources_add",
            server="resources",
            arguments={"name": "web-2"},
            effect="once",
            asks=True,
            node="agent",
        )
    )
    agent.grow(events.ToolFinished("1/0:1.0", 1, ToolResult("made")))
    view = shown(views.conversation_view(agent.conversation, tree=True))
    assert list(view)[:5] == ["id", "session_id", "status", "created_at", "updated_at"]
    assert view["created_at"] == "2026-11-21T10:00:01.000Z"
    assert view["status"] == "waiting_approval"
    assert view["title"] == "add a server web-1 with value 42"
    assert view["last_seq"] == 8
    assert view["run"] == {
        "id": ex.RUN_ID,
        "state": "waiting",
        "usage": {"input_tokens": 3, "output_tokens": 2},
    }
    brief = {name: value for name, value in view["pending_approval"].items() if name != "input_schema"}
    assert brief == view["approvals"][0] != view["pending_approval"]
    names = {name: brief[name] for name in ("uuid", "kind", "tool_name", "node")}
    assert view["pending_approvals"] == [names]
    assert view["messages"][0]["content"] == "You manage resources."
    assert set(view["messages"][0]) == {"id", "role", "content", "created_at"}
    assert view["messages"][2]["node"] == "agent"
    assert view["messages"][2]["tool_call"] == {
        "name": "resources_add",
        "arguments": {"name": "web-2"},
        "result": "made",
        "is_error": False,
        "id": "call-1",
        "server": "resources",
        "state": "finished",
    }


def test_absent_values_are_omitted(agent: Any) -> None:
    del agent.log[1:]
    view = shown(views.conversation_view(agent.conversation, tree=True))
    assert {"pending_approval", "pipeline_state", "run"}.isdisjoint(view)
    assert view["approvals"] == view["pending_approvals"] == []
    assert view["status"] == "active"


def test_the_status_follows_the_approvals(agent: Any) -> None:
    agent.grow(events.ApprovalResolved(ex.APPROVAL_ID, Approved(), "c2", False))
    view = shown(views.conversation_view(agent.conversation, tree=True))
    assert view["status"] == "active"
    assert "pending_approval" not in view
    assert view["approvals"][0]["state"] == "decided"
    assert view["approvals"][0]["decision"]["decided_at"] == "2026-11-21T10:00:00.000Z"


def question(**changes: Any) -> Question:
    body = {"tool_name": "t", "tool_args": {}, "description": "d", **changes.pop("body", {})}
    return attrs.evolve(Question("q", "c", "tool", "pending", body, None, 0.0, None, None), **changes)


def test_an_approval_to_the_letter() -> None:
    assert shown(views.approval_view(question())) == {
        "uuid": "q",
        "conversation_id": "c",
        "tool_name": "t",
        "tool_args": {},
        "description": "d",
        "created_at": "1970-01-01T00:00:00.000Z",
        "kind": "tool",
        "state": "pending",
        "rule": None,
    }


def test_an_approval_with_all_there_is() -> None:
    body = {
        "server": "s",
        "node": "n",
        "input_schema": {},
        "rule": "r",
        "replaces": "p",
        "superseded_by": "x",
        "remote_task_id": "t1",
        "remote_agent_name": "a1",
        "key": "k",
        "session_state": {},
    }
    view = shown(views.approval_view(question(body=body, expires=60.0, state="void")))
    expected = {key: value for key, value in body.items() if key not in ("key", "session_state")}
    assert expected.items() <= view.items()
    assert view["expires_at"] == "1970-01-01T00:01:00.000Z"
    assert "key" not in view
    assert "session_state" not in view


@pytest.mark.parametrize(
    ("state", "code", "waiting", "auth"),
    [
        ("finished", None, False, False),
        ("waiting", None, True, False),
        ("queued", "waiting_approval", True, False),
        ("queued", "auth_required", False, True),
        ("auth_required", "auth_required", False, True),
    ],
)
def test_a_result_to_the_letter(state: Any, code: str | None, waiting: bool, auth: bool) -> None:
    view = shown(views.result_view(Result("said", state, run_id="r", code=code, usage=Spent(1, 2))))
    assert view == {
        "response": "said",
        "waiting_approval": waiting,
        "auth_required": auth,
        "state": state,
        "approvals": [],
        "run_id": "r",
        "usage": {"input_tokens": 1, "output_tokens": 2},
    } | ({"code": code} if code else {})


def test_a_result_shows_its_approvals(agent: Any) -> None:
    result = Result("Please", "waiting", code="waiting_approval", approval_ids=(ex.APPROVAL_ID,))
    view = shown(views.turn_view(turn_of(agent.conversation, result), tree=False))["result"]
    approval = view["approval"]
    assert approval["uuid"] == ex.APPROVAL_ID
    assert view["approvals"] == [{name: approval[name] for name in ("uuid", "kind", "tool_name", "node")}]
    assert view["code"] == "waiting_approval"
    assert "usage" not in view


def test_a_tool_to_the_letter() -> None:
    bare = Tool("t", "d", {"type": "object"}, "s")
    assert shown(views.tool_view(ListedTool(bare, "run"))) == {
        "name": "t",
        "description": "d",
        "inputSchema": {"type": "object"},
        "server": "s",
        "policy": "run",
    }
    hinted = attrs.evolve(bare, title="T", hints=Hints(read_only=False, destructive=True, idempotent=False))
    view = shown(views.tool_view(ListedTool(hinted, "ask")))
    assert (view["title"], view["readOnlyHint"], view["destructiveHint"], view["idempotentHint"]) == (
        "T",
        False,
        True,
        False,
    )


def test_held_tool_shows_both_hints() -> None:
    tool = Tool("t", "d", {}, "s", hints=Hints(destructive=True), listed_hints=Hints(read_only=True))
    view = shown(views.tool_view(ListedTool(tool, "ask", held=(tool,))))
    assert (view["destructiveHint"], view["held"]) == (
        True,
        [
            {
                "tool": "t",
                "hash": tool.hash,
                "counts": {"destructiveHint": True},
                "listed": {"readOnlyHint": True},
                "change": "destructiveHint true -> not given, readOnlyHint not given -> true",
            }
        ],
    )
    part = PartHealth("s", "connected", held=("t: worse",))
    assert shown(views.health_view(Health(True, (part,), (), part), NOT_HALTED))["mcp_servers"] == [
        {"name": "s", "state": "connected", "held": ["t: worse"]}
    ]


def test_page_counts_known_statuses() -> None:
    tally = {"active": 2, "completed": 3, "": 7}
    assert shown(views.conversations_view(ConversationPage((), tally, None, {}), tree=False)) == {
        "conversations": [],
        "summary": {"total": 5, "active": 2, "waiting_approval": 0, "completed": 3},
    }


def test_failed_or_blocked_run_has_its_reason() -> None:
    run = RunHead("r", 1, "auth_required", code="auth_required", auth={"server": "s", "status": 401})
    view = shown(views.run_view(run))
    assert (view["state"], view["code"], view["auth"]) == (
        "auth_required",
        "auth_required",
        {"server": "s", "status": 401},
    )
    result = Result("said", "auth_required", run_id="r", auth={"server": "s", "status": 401})
    assert shown(views.result_view(result))["auth"] == {"server": "s", "status": 401}


def test_unready_part_has_its_error() -> None:
    broken = PartHealth("resources", "disconnected", "connection refused")
    view = shown(views.health_view(Health(False, (broken,), (), PartHealth("journal", "ready")), NOT_HALTED))
    assert view["status"] == "not_ready"
    assert view["mcp_servers"] == [
        {"name": "resources", "state": "disconnected", "error": "connection refused"}
    ]
    assert view["store"] == {"name": "journal", "state": "ready"}
    assert "halt" not in view


def test_halted_agent_is_ready() -> None:
    view = views.health_view(
        Health(True, (), (), PartHealth("journal", "ready")), HaltState(True, 2, "drill", at=0.0)
    )
    assert (shown(view)["status"], shown(view)["halt"]) == (
        "ready",
        {"halted": True, "in_flight": 2, "reason": "drill", "at": "1970-01-01T00:00:00.000Z"},
    )


def test_arguments_delta_names_its_call() -> None:
    piece = ModelDelta("c", 3, "1/:1", "agent", "m", 1, ArgumentsDelta(2, "resources_add", '{"na'))
    view = shown(views.delta_view(piece))
    assert view["call"] == {"index": 2, "name": "resources_add", "json": '{"na'}
    assert "text" not in view


def test_event_has_status_only_in_streams_over_all() -> None:
    event = Event("c", 2, "message.added", 60.0, {"text": "hello"})
    body = {
        "conversation_id": "c",
        "seq": 2,
        "type": "message.added",
        "at": "1970-01-01T00:01:00.000Z",
        "body": {"text": "hello"},
    }
    assert list(shown(views.event_view(event)).items()) == list(body.items())
    assert shown(views.event_view(event, "active")) == {**body, "status": "active"}


COMPATIBLE = {
    "Conversation": ("id", "session_id", "status", "created_at", "updated_at"),
    "Message": ("id", "role", "content", "created_at"),
    "ToolCall": ("name", "arguments"),
    "Approval": ("uuid", "conversation_id", "tool_name", "tool_args", "description", "created_at"),
    "Result": ("response", "waiting_approval", "auth_required"),
    "Tool": ("name", "description", "inputSchema"),
    "Error": ("error", "code"),
}


@pytest.mark.parametrize("name", COMPATIBLE)
def test_keys_of_existing_clients_come_first(name: str) -> None:
    fields = attrs.fields(SHAPES[name])
    assert tuple(field.name for field in fields)[: len(COMPATIBLE[name])] == COMPATIBLE[name]


def test_page_has_a_hint_for_broken_conversations() -> None:
    told = errors.broken("event 2 is missing")
    page = shown(views.approvals_view(ApprovalPage((), "next", {"c": "event 2 is missing"})))
    assert (page["approvals"], page["next_cursor"]) == ([], "next")
    assert page["broken"] == [{"id": "c", "error": told.message, "code": told.code, "hint": told.hint}]


def test_a_minimal_answer_has_the_approvals_of_the_last_turn_whatever_the_clock_says(agent: Any) -> None:
    """It was set back after the first events."""
    agent.grow(events.ApprovalResolved(ex.APPROVAL_ID, Approved(), "c2", token=False))
    agent.grow(events.RunFinished(ex.RUN_ID, "done", ()))

    def approvals() -> list[Any]:
        view = views.conversation_view(agent.conversation, tree=False, minimal=True)
        return [each["uuid"] for each in shown(view)["approvals"]]

    assert approvals() == [ex.APPROVAL_ID]
    agent.grow(events.MessageAdded("again", "k"))
    agent.grow(events.RunStarted("run 2", 2, "k", tree_id="tree", replay_version=1, token=False))
    assert approvals() == []
