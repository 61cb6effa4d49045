"""One agent without a tree: TS-001 to TS-008 and TS-015, step by step."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.e2e.chains import SCRIPTED, TELL, calling, done, echo_server, written

if TYPE_CHECKING:
    from tests.e2e.conftest import Serve, Server


def tool_calls(conversation: dict[str, Any]) -> list[dict[str, Any]]:
    return [message["tool_call"] for message in conversation["messages"] if message["role"] == "tool"]


def test_ts_001_the_server_starts_with_its_configuration(shipped: Server) -> None:
    # FR-002: nothing but the program was there, no key and no agent file.
    assert shipped.log.startswith("no agent file here: serving the agent that comes with the package")
    assert "MCP Server [resources]: stopgo\n" in shipped.log

    assert shipped.get("/health")["status"] == "ok"
    tools = {tool["name"]: tool for tool in shipped.get("/tools")["tools"]}

    assert tools.keys() == {"resources_add", "resources_remove", "resources_list"}
    assert tools["resources_add"]["destructiveHint"] is True
    assert tools["resources_remove"]["destructiveHint"] is True
    assert tools["resources_list"]["readOnlyHint"] is True
    assert {tool["server"] for tool in tools.values()} == {"resources"}
    assert {name: tool["policy"] for name, tool in tools.items()} == {
        "resources_add": "ask",
        "resources_remove": "ask",
        "resources_list": "run",
    }


def test_ts_002_a_conversation_is_created_with_and_without_a_message(shipped: Server) -> None:
    empty = shipped.post("/conversations", status=201)
    assert "result" not in empty
    assert empty["conversation"]["status"] == "active"
    assert [message["role"] for message in empty["conversation"]["messages"]] == ["system"]
    assert empty["conversation"]["messages"][0]["content"].startswith("You manage resources.")

    listed = shipped.post("/conversations", {"message": "list resources"}, status=201)
    roles = [message["role"] for message in listed["conversation"]["messages"]]
    assert roles == ["system", "user", "tool", "assistant"]
    assert listed["conversation"]["messages"][1]["content"] == "list resources"
    [call] = tool_calls(listed["conversation"])
    assert (call["name"], call["state"], call["is_error"]) == ("resources_list", "finished", False)
    assert "count" in json.loads(call["result"])


def test_ts_003_a_safe_tool_runs_at_once(shipped: Server) -> None:
    shipped.post(f"/approvals/{shipped.ask_for('add ts3-item with value 3')}", {"approved": True})
    id = shipped.new()

    turn = shipped.say(id, "list all resources")

    assert "ts3-item" in turn["result"]["response"]
    assert turn["result"]["waiting_approval"] is False
    assert turn["conversation"]["status"] == "active"
    [call] = tool_calls(turn["conversation"])
    assert call["name"] == "resources_list"
    found = {each["name"]: each["value"] for each in json.loads(call["result"])["resources"]}
    assert found["ts3-item"] == 3
    assert shipped.conversation(id)["messages"] == turn["conversation"]["messages"]


def test_ts_004_a_destructive_tool_waits_for_approval(shipped: Server) -> None:
    id = shipped.new()

    asked = shipped.say(id, "create a server my-test with value 42")
    assert asked["result"]["waiting_approval"] is True
    approval = asked["result"]["approval"]
    assert approval["tool_name"] == "resources_add"
    assert approval["tool_args"] == {"name": "my-test", "value": 42}
    assert asked["conversation"]["status"] == "waiting_approval"
    assert asked["conversation"]["pending_approval"] == approval
    assert ("my-test", "42") not in shipped.resources()

    refused = shipped.post(f"/conversations/{id}/messages", {"message": "are you there?"}, status=409)
    assert refused["code"] == refused["result"]["code"] == "waiting_approval"
    assert refused["approvals"] == [approval]  # FR-004: "an error with the pending approval details"

    turn = shipped.post(f"/approvals/{approval['uuid']}", {"answer": "yes"})
    [call] = tool_calls(turn["conversation"])
    created = json.loads(call["result"])
    assert (created["name"], created["value"]) == ("my-test", 42)
    assert "my-test" in turn["result"]["response"]
    assert turn["conversation"]["status"] == "active"
    assert "pending_approval" not in turn["conversation"]
    # NFR-008: the whole trace is there, the refused message is not.
    assert [message["role"] for message in turn["conversation"]["messages"]] == [
        "system",
        "user",
        "tool",
        "assistant",
    ]
    assert turn["conversation"]["approvals"][0]["decision"]["approved"] is True
    assert shipped.resources()["my-test", "42"] == 1


def test_ts_005_an_approval_survives_a_restart(serve: Serve, tmp_path: Path) -> None:
    agent = {"llm": SCRIPTED, "mcp_servers": [echo_server("tools")]}
    config = written(tmp_path / "agent", agent, [calling("wipe"), TELL])
    ledger = tmp_path / "ledger"
    server = serve(tmp_path / "data", config=config, env={"LEDGER": str(ledger)})
    uuid = server.ask_for("wipe persistent")
    before = server.get(f"/approvals/{uuid}")["approval"]
    server.run.interrupt()
    assert done(ledger) == []

    server = serve(tmp_path / "data", config=config, env={"LEDGER": str(ledger)})
    assert server.get(f"/approvals/{uuid}")["approval"] == before
    assert [each["uuid"] for each in server.get("/approvals")["approvals"]] == [uuid]
    turn = server.post(f"/approvals/{uuid}", {"approved": True})

    [call] = tool_calls(turn["conversation"])
    assert (call["name"], call["arguments"]) == ("wipe", {"text": "persistent"})
    assert (call["state"], call["is_error"]) == ("finished", False)
    assert done(ledger) == ["wipe persistent"]


@pytest.mark.parametrize("text", ["list", "show me all resources"])
def test_ts_006_ways_to_list(shipped: Server, text: str) -> None:
    [call] = tool_calls(shipped.post("/conversations", {"message": text}, status=201)["conversation"])
    assert call["name"] == "resources_list"


def test_ts_006_ways_to_create_and_remove(shipped: Server) -> None:
    id = shipped.new()
    for text, tool, arguments in (
        ("create a server test-1 with value 10", "resources_add", {"name": "test-1", "value": 10}),
        ("add resource test-2 value 20", "resources_add", {"name": "test-2", "value": 20}),
        ("add resource test-10 value 30", "resources_add", {"name": "test-10", "value": 30}),
        ("remove test-1", "resources_remove", {"pattern": r"^test\-1$"}),
        ("delete resource test-2", "resources_remove", {"pattern": r"^test\-2$"}),
    ):
        approval = shipped.say(id, text)["result"]["approval"]
        assert (approval["tool_name"], approval["tool_args"]) == (tool, arguments)
        shipped.post(f"/approvals/{approval['uuid']}", {"approved": True})

    left = {name for name, _ in shipped.resources()}
    assert "test-10" in left
    assert left.isdisjoint({"test-1", "test-2"})


def test_ts_007_a_rejection_cancels(shipped: Server) -> None:
    shipped.post(f"/approvals/{shipped.ask_for('add ts7-kept with value 1')}", {"approved": True})

    for text in ("add ts7-refused with value 7", "remove ts7-kept"):
        uuid = shipped.ask_for(text)
        turn = shipped.post(f"/approvals/{uuid}", {"answer": "no", "reason": "not today"})
        assert turn["result"]["response"].startswith("Operation cancelled by user.")
        assert turn["conversation"]["status"] == "active"
        [call] = tool_calls(turn["conversation"])
        assert call["state"] == "rejected"
        assert turn["conversation"]["approvals"][0]["decision"]["reason"] == "not today"
        # The model was told, and says so.
        assert "not today" in turn["result"]["response"]

    names = {name for name, _ in shipped.resources()}
    assert "ts7-refused" not in names
    assert "ts7-kept" in names


def test_ts_008_every_format_of_a_decision_counts(shipped: Server) -> None:
    formats = ({"approved": True}, {"action": "approve"}, {"answer": "yes"})
    uuids = [shipped.ask_for(f"add ts8-{number} with value {number}") for number in range(3)]

    for uuid, decision in zip(uuids, formats, strict=True):
        turn = shipped.post(f"/approvals/{uuid}", decision)
        assert [call["state"] for call in tool_calls(turn["conversation"])] == ["finished"]

    assert [shipped.resources()[f"ts8-{number}", str(number)] for number in range(3)] == [1, 1, 1]


def test_ts_015_without_a_tree_there_is_one_agent(shipped: Server) -> None:
    listed = shipped.post("/conversations", {"message": "list resources"}, status=201)["conversation"]
    assert {message["node"] for message in listed["messages"][2:]} == {"resource-manager"}
    assert [call["name"] for call in tool_calls(listed)] == ["resources_list"]

    asked = shipped.get(f"/approvals/{shipped.ask_for('add ts15 with value 15')}")["approval"]
    # Nothing of a pipeline is shown where there is none.
    assert "pipeline_state" not in shipped.conversation(asked["conversation_id"])
    shipped.post(f"/conversations/{asked['conversation_id']}/cancel")
