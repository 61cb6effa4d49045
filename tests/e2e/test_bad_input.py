"""Bad input at a real server: each gets its error code, and leaves no traceback (checked at the stop)."""

from __future__ import annotations

import threading
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import trio

from tests.canary import KEY
from tests.gateway.conftest import InProcess
from tests.http_client import http_client
from tests.providers.servers.talk import Heard, Said
from tests.providers.servers.threaded import servers_in_a_thread

if TYPE_CHECKING:
    import httpx2

    from tests.e2e.conftest import Serve, Server

TEN_MISTAKES = """\
nam: broken
port: 99999
mcp:
  command: stopgo
llm:
  model: 5
mcp_servers:
  - url: http://127.0.0.1:1/mcp
  - name: twice
    command: stopgo
  - name: twice
    url: ftp://nowhere
approval:
  unannotated: perhaps
agent:
  type: sequental
  name: pipeline
  agents: []
description: "${NOWHERE_SET}"
"""

LINES_OF_MISTAKES = [1, 2, 3, 6, 8, 11, 12, 14, 16, 19]


@pytest.mark.parametrize(
    ("content", "status", "code", "says"),
    [
        (b'{"message": ', 400, "invalid_request_body", "invalid request body: "),
        (b'{"message": 5}', 400, "invalid_request_body", "message must be a string, not a number"),
        (b"", 400, "message_required", "message is required"),
        (b'{"message": "' + b"x" * (2 << 20) + b'"}', 413, "body_too_large", "larger than 1048576 bytes"),
    ],
    ids=lambda value: repr(value[:24]) if isinstance(value, bytes) else "",
)
def test_invalid_body_changes_nothing(
    shipped: Server, content: bytes, status: int, code: str, says: str
) -> None:
    id = shipped.new()

    response = shipped.client.post(f"/conversations/{id}/messages", content=content)

    assert response.status_code == status, response.text
    assert response.json()["code"] == code
    assert says in response.json()["error"]
    assert len(shipped.conversation(id)["messages"]) == 1


UNKNOWN = "00000000-0000-0000-0000-000000000000"


@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        ("GET", f"/conversations/{UNKNOWN}", 404, "conversation_not_found"),
        ("GET", "/conversations/%00", 404, "conversation_not_found"),
        ("GET", f"/conversations/{UNKNOWN}/events", 404, "conversation_not_found"),
        ("POST", f"/conversations/{UNKNOWN}/messages", 404, "conversation_not_found"),
        ("POST", f"/conversations/{UNKNOWN}/cancel", 404, "conversation_not_found"),
        ("POST", f"/conversations/{UNKNOWN}/complete", 404, "conversation_not_found"),
        ("DELETE", f"/conversations/{UNKNOWN}", 404, "conversation_not_found"),
        ("GET", f"/approvals/{UNKNOWN}", 404, "approval_not_found"),
        ("POST", f"/approvals/{UNKNOWN}", 404, "approval_not_found"),
        ("GET", "/nowhere", 404, "not_found"),
        ("PUT", "/conversations", 405, "method_not_allowed"),
        ("GET", "/conversations?status=asleep", 400, "invalid_request"),
        ("GET", "/conversations?limit=many", 400, "invalid_request"),
        ("GET", "/conversations?cursor=none", 400, "invalid_cursor"),
        ("GET", "/conversations?statsu=active", 400, "invalid_request"),
        ("GET", "/approvals?state=perhaps", 400, "invalid_request"),
    ],
)
def test_unknown_id_or_word_has_its_code(
    shipped: Server, method: str, path: str, status: int, code: str
) -> None:
    bodies = {"messages": {"message": "hi"}, UNKNOWN: {"approved": True}}
    response = shipped.client.request(method, path, json=bodies.get(path.rpartition("/")[2], {}))

    assert response.status_code == status, response.text
    assert response.json()["code"] == code
    assert response.json()["error"]


@pytest.mark.parametrize(
    ("decision", "status", "code"),
    [
        ({}, 400, "decision_required"),
        ({"approved": "yes"}, 400, "decision_required"),
        ({"answer": "perhaps"}, 400, "decision_required"),
        ({"action": "retry"}, 400, "decision_required"),
        ({"approved": True, "reason": 5}, 400, "invalid_request"),
        ({"approved": True, "arguments": "name=x"}, 422, "invalid_arguments"),
        ({"approved": True, "arguments": {"name": "x"}}, 422, "invalid_arguments"),
        ({"approved": True, "arguments": {"name": 5, "value": 1}}, 422, "invalid_arguments"),
        ({"approved": True, "arguments": {"name": "x", "value": [1]}}, 422, "invalid_arguments"),
    ],
)
def test_invalid_decision_leaves_approval_pending(
    shipped: Server, decision: dict[str, Any], status: int, code: str
) -> None:
    asked = shipped.ask_for("add never-decided with value 1")

    error = shipped.post(f"/approvals/{asked}", decision, status=status)

    assert error["code"] == code
    approval = shipped.get(f"/approvals/{asked}")["approval"]
    assert approval["state"] == "pending"
    shipped.post(f"/conversations/{approval['conversation_id']}/cancel")


def test_edited_decision_takes_effect_once(shipped: Server) -> None:
    asked = shipped.ask_for("add edited with value 1")
    edit = {"approved": True, "arguments": {"name": "edited", "value": 2}}

    shipped.post(f"/approvals/{asked}", edit)
    again = shipped.post(f"/approvals/{asked}", {"approved": False}, status=409)

    assert again["code"] == "already_decided"
    assert again["approval"]["decision"]["approved"] is True
    assert {key: count for key, count in shipped.resources().items() if key[0] == "edited"} == {
        ("edited", "2"): 1
    }


async def test_one_of_concurrent_decisions_wins(shipped: Server) -> None:
    asked = shipped.ask_for("add contested with value 1")
    answers: list[httpx2.Response] = []

    async with http_client(base_url=shipped.run.url) as client:

        async def decide(approved: bool) -> None:
            answers.append(await client.post(f"/approvals/{asked}", json={"approved": approved}))

        async with trio.open_nursery() as nursery:
            for number in range(10):
                nursery.start_soon(decide, number % 2 == 0)

    assert Counter(answer.status_code for answer in answers) == {200: 1, 409: 9}
    decision = shipped.get(f"/approvals/{asked}")["approval"]["decision"]
    losers = [answer.json() for answer in answers if answer.status_code == 409]
    assert all(loser["approval"]["decision"] == decision for loser in losers)
    assert shipped.resources()["contested", "1"] == int(decision["approved"])


async def test_fifty_concurrent_messages_are_neither_lost_nor_doubled(serve: Serve, tmp_path: Path) -> None:
    """The first run lasts until as many are refused as must be: then no more than 17 others have arrived."""
    refused: set[int] = set()
    full = threading.Event()
    heard: list[str] = []

    def reply(request: Heard) -> Said:
        heard.append(request.user)
        if len(heard) > 1:
            return Said(request.user.replace("message", "answer"))
        full.wait()
        return Said("first")

    with servers_in_a_thread("openai") as models:
        model = models["openai"]
        model.answered = reply
        config = tmp_path / "agent.yaml"
        config.write_text(f"llm: {{model: 'openai:{model.model}'}}\n", encoding="utf-8")
        env = {"OPENAI_BASE_URL": model.base_url, "OPENAI_API_KEY": KEY}
        server = serve(tmp_path / "data", config=config, env=env)
        id = server.new()
        answers: dict[int, httpx2.Response] = {}

        async def say(number: int) -> None:
            message = {"message": f"message {number}"}
            answers[number] = await client.post(f"/conversations/{id}/messages", json=message)
            if answers[number].status_code == 429:
                refused.add(number)
            if len(refused) == 33:
                full.set()

        try:
            async with http_client(base_url=server.run.url) as client, trio.open_nursery() as nursery:
                for number in range(50):
                    nursery.start_soon(say, number)
        finally:
            full.set()

    accepted = answers.keys() - refused
    # 16 wait, and the first one does not wait any more if its run began before the last of them came.
    assert len(accepted) in (16, 17)
    for number in refused:
        assert answers[number].json()["code"] == "queue_full"
        assert int(answers[number].headers["Retry-After"]) > 0
    said = [each["content"] for each in server.conversation(id)["messages"] if each["role"] == "user"]
    assert sorted(said) == sorted(f"message {number}" for number in accepted)
    responses = Counter(answers[number].json()["result"]["response"] for number in accepted)
    assert responses == Counter(["first", *(each.replace("message", "answer") for each in said[1:])])


def test_serve_reports_every_mistake_in_an_agent_file(tmp_path: Path, in_process: InProcess) -> None:
    file = tmp_path / "agent.yaml"
    file.write_text(TEN_MISTAKES, encoding="utf-8")

    done = in_process("serve", "--port", "0", "--config", file)

    assert done.returncode == 2
    assert done.stdout == ""
    assert len(LINES_OF_MISTAKES) == 10
    lines = [int(line.removeprefix(f"{file}:").partition(":")[0]) for line in done.stderr.splitlines()]
    assert lines == LINES_OF_MISTAKES
    assert list(tmp_path.iterdir()) == [file]
