"""The shipped agent as A2A clients meet it: TS-011 to TS-014, TS-020 and TS-028, in every
dialect and beside REST."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.gateway.a2a.tongues import DIALECTS, Ask, Told, Tongue, read
from tests.http_client import blocking_client

if TYPE_CHECKING:
    from tests.e2e.conftest import Server

in_every_dialect = pytest.mark.parametrize("tongue", DIALECTS, ids=lambda tongue: tongue.name)


def ask(server: Server, wanted: Ask) -> Told:
    with blocking_client(base_url=server.run.url) as client:
        response = client.request(**wanted.of_client())
    assert response.status_code == 200, response.text
    told = read(response.json())
    assert isinstance(told, Told), told
    return told


def named(server: Server, name: str) -> int:
    """How many resources really have the name."""
    return sum(count for (each, _), count in server.resources().items() if each == name)


def same_in_rest(server: Server, task: Told) -> dict[str, Any]:
    """The conversation of a task. Its REST view agrees with A2A."""
    conversation = server.conversation(task.context)
    waits = task.state == "input-required"
    assert conversation["status"] == ("waiting_approval" if waits else "active")
    if waits:
        assert conversation["pending_approval"]["description"] in task.text
    else:
        assert task.answer.endswith(conversation["messages"][-1]["content"])
    return conversation


@pytest.mark.parametrize("name", ["agent.json", "agent-card.json"])
def test_ts_011_the_card_has_name_address_and_skills(shipped: Server, name: str) -> None:
    with blocking_client(base_url=shipped.run.url) as client:
        card = client.get(f"/.well-known/{name}").json()
    assert card["name"] == "resource-manager"
    assert card["url"] == f"{shipped.run.url}/a2a"
    assert {skill["id"] for skill in card["skills"]} == {
        "resources_add",
        "resources_remove",
        "resources_list",
    }
    assert {skill["name"] for skill in card["skills"]} == {
        tool["name"] for tool in shipped.get("/tools")["tools"]
    }


@in_every_dialect
def test_ts_012_a_request_to_list_is_a_completed_task(shipped: Server, tongue: Tongue) -> None:
    task = ask(shipped, tongue.send("list all resources"))
    assert task.state == "completed"
    assert "resource" in task.answer
    assert same_in_rest(shipped, task)["id"] == task.id


def test_unknown_method_is_32601(shipped: Server) -> None:
    with blocking_client(base_url=shipped.run.url) as client:
        answer = client.post("/a2a", json={"jsonrpc": "2.0", "id": 1, "method": "tasks/guess", "params": {}})
    assert (answer.status_code, answer.json()["error"]["code"]) == (200, -32601)


@in_every_dialect
def test_ts_013_a_request_to_add_waits_for_an_approval_over_rest(shipped: Server, tongue: Tongue) -> None:
    name = f"ts13-{tongue.name.replace('.', '-')}"
    task = ask(shipped, tongue.send(f"add resource {name} with value 77"))
    assert task.state == "input-required"
    assert name in task.text
    approval = same_in_rest(shipped, task)["pending_approval"]
    assert approval["tool_args"] == {"name": name, "value": 77}
    assert named(shipped, name) == 0

    shipped.post(f"/approvals/{approval['uuid']}", {"approved": True})

    done = ask(shipped, tongue.get(task.id))
    assert done.state == "completed"
    same_in_rest(shipped, done)
    assert named(shipped, name) == 1


@in_every_dialect
def test_ts_014_the_task_of_a_conversation_from_rest_is_found(shipped: Server, tongue: Tongue) -> None:
    begun = shipped.post("/conversations", {"message": "list all resources"}, status=201)
    task = ask(shipped, tongue.get(begun["conversation"]["id"]))
    assert (task.id, task.state) == (begun["conversation"]["id"], "completed")
    assert task.answer == begun["result"]["response"]


@in_every_dialect
@pytest.mark.parametrize("word", ["approved", "rejected"])
def test_ts_020_a_word_completes_or_cancels(shipped: Server, tongue: Tongue, word: str) -> None:
    name = f"ts20-{word}-{tongue.name.replace('.', '-')}"
    task = ask(shipped, tongue.send(f"add resource {name} with value 1"))
    assert task.state == "input-required"

    done = ask(shipped, tongue.send(word, task=task.id))

    assert (done.id, done.state) == (task.id, "completed")
    conversation = same_in_rest(shipped, done)
    call = next(each["tool_call"] for each in conversation["messages"] if each["role"] == "tool")
    assert call["state"] == ("finished" if word == "approved" else "rejected")
    assert ("cancelled" in done.answer) == (word == "rejected")
    assert named(shipped, name) == (word == "approved")


@in_every_dialect
def test_ts_028_a_pipeline_is_a_completed_task(sequential: Server, tongue: Tongue) -> None:
    task = ask(sequential, tongue.send("list all resources"))
    assert task.state == "completed"
    assert task.answer
    messages = same_in_rest(sequential, task)["messages"]
    assert {each["node"] for each in messages if "node" in each} == {"analyzer", "executor"}
