"""Trees of nodes: TS-016, TS-017 and TS-022 to TS-024, step by step."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.e2e.conftest import Server


def said(conversation: dict[str, Any]) -> dict[str, str]:
    """What each node said last."""
    return {
        message["node"]: message["content"]
        for message in conversation["messages"]
        if message["role"] == "assistant"
    }


def called(conversation: dict[str, Any]) -> list[tuple[str, str]]:
    """Node and tool of every call."""
    return [
        (message["node"], message["tool_call"]["name"])
        for message in conversation["messages"]
        if message["role"] == "tool"
    ]


def event_bodies(server: Server, id: str, type: str) -> list[dict[str, Any]]:
    """The bodies of a conversation's events of one type."""
    last = server.conversation(id)["last_seq"]
    found = []
    with server.client.stream("GET", f"/conversations/{id}/events") as stream:
        for line in stream.iter_lines():
            if line.startswith("data: "):
                event = json.loads(line.removeprefix("data: "))
                if event["type"] == type:
                    found.append(event["body"])
                if event["seq"] == last:
                    break
    return found


def test_ts_016_a_value_flows_from_node_to_node(sequential: Server) -> None:
    turn = sequential.post("/conversations", {"message": "list all resources"}, status=201)
    conversation = turn["conversation"]

    assert said(conversation)["analyzer"] == "intent: list"
    assert {"key": "analysis", "value": "intent: list", "node": "analyzer"} in event_bodies(
        sequential, conversation["id"], "state.set"
    )
    # The executor's model sees only its prompt, so that it lists means that the prompt was filled in.
    assert called(conversation) == [("executor", "resources_list")]
    assert turn["result"]["response"].startswith("The resources: {")


def test_ts_017_parallel_nodes_are_combined(parallel: Server) -> None:
    turn = parallel.post(
        "/conversations", {"message": "give me a full overview of all resources"}, status=201
    )

    nodes = said(turn["conversation"])
    assert json.loads(nodes["list-all"])["count"] == 0
    assert nodes["count-analysis"] == "count=0"
    assert nodes["summarizer"].startswith("Overview of 0 resources: {")
    assert turn["result"]["response"] == nodes["summarizer"]


def test_ts_022_harmless_pipeline_does_not_stop(sequential: Server) -> None:
    id = sequential.new()

    turn = sequential.say(id, "list all resources")

    assert list(said(turn["conversation"])) == ["analyzer", "executor"]
    assert turn["result"]["waiting_approval"] is False
    assert turn["conversation"]["approvals"] == []
    assert turn["conversation"]["status"] == "active"


def test_ts_023_pipeline_pauses_and_continues(sequential: Server) -> None:
    id = sequential.new()

    asked = sequential.say(id, "add resource seq-test with value 42")
    assert asked["result"]["waiting_approval"] is True
    assert asked["conversation"]["status"] == "waiting_approval"
    assert asked["conversation"]["pipeline_state"] == {
        "paused_node_path": [1],
        "paused_node_output_key": "outcome",
        "session_state": {"analysis": "intent: add; name: seq-test; value: 42"},
        "user_message": "add resource seq-test with value 42",
    }
    approval = asked["result"]["approval"]
    assert (approval["node"], approval["tool_name"]) == ("executor", "resources_add")
    assert ("seq-test", "42") not in sequential.resources()

    done = sequential.post(f"/approvals/{approval['uuid']}", {"approved": True})
    assert done["result"]["response"] == "Added seq-test with value 42."
    assert done["conversation"]["status"] == "active"
    assert "pipeline_state" not in done["conversation"]
    assert list(said(done["conversation"])) == ["analyzer", "executor"]
    assert sequential.resources()["seq-test", "42"] == 1


def test_rejection_ends_the_pipeline(sequential: Server) -> None:
    """FR-026: no further node runs, and the answer says why."""
    uuid = sequential.ask_for("add resource seq-no with value 1")

    turn = sequential.post(f"/approvals/{uuid}", {"approved": False})

    assert turn["result"]["response"].startswith("Operation cancelled by user")
    assert turn["conversation"]["status"] == "active"
    assert ("seq-no", "1") not in sequential.resources()


def test_ts_024_parallel_nodes_run_without_approval(parallel: Server) -> None:
    id = parallel.new()

    turn = parallel.say(id, "give me an overview of all resources")

    assert {("list-all", "resources_list"), ("count-analysis", "resources_list")} == set(
        called(turn["conversation"])
    )
    nodes = said(turn["conversation"])
    assert nodes.keys() == {"list-all", "count-analysis", "summarizer"}
    kept = {body["key"] for body in event_bodies(parallel, id, "state.set")}
    assert {"resource_list", "count_analysis"} <= kept
    assert turn["conversation"]["approvals"] == []
    assert turn["conversation"]["status"] == "active"
