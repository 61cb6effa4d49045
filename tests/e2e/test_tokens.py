"""A tool server that requires tokens and asks questions, behind a real `stopgo serve`."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import trio

from tests.actors.mcp.test_questions import asking_server
from tests.http_client import http_client

if TYPE_CHECKING:
    from tests.e2e.conftest import Serve, Server

AGENT = """
llm: {model: script:replies.yaml}
mcp_servers:
  - {name: guarded, url: "${GUARDED_URL}", max_concurrency: 8}
"""
TOOLS = ("look", "wipe", "ask", "resolve")
REPLIES = "replies:\n" + "".join(
    f"  - when: {{call: 1, user: '{tool} (?P<text>.*)'}}\n"
    f"    tool_calls: [{{name: {tool}, arguments: {{text: '${{text}}'}}}}]\n"
    for tool in TOOLS
)
REPLIES += "  - when: {tool_result: '(?s)(?P<result>.*)'}\n    text: 'told: ${result}'\n"
COUNT = 100


@pytest.fixture(scope="module")
def tools(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    """The address of a tool server that requires tokens, and its ledger."""
    ledger = tmp_path_factory.mktemp("tools") / "ledger.jsonl"
    with asking_server("http", {**os.environ, "TOKENS": "+", "LEDGER": str(ledger)}) as url:
        yield url, ledger


@pytest.fixture
def guarded(tools: tuple[str, Path]) -> str:
    return tools[0]


@pytest.fixture
def ledger(tools: tuple[str, Path]) -> Path:
    """The ledger, without the calls of other tests."""
    tools[1].unlink(missing_ok=True)
    return tools[1]


def start(serve: Serve, folder: Path, url: str) -> Server:
    (folder / "replies.yaml").write_text(REPLIES)
    config = folder / "agent.yaml"
    config.write_text(AGENT)
    return serve(folder / "data", config=config, env={"GUARDED_URL": url})


def arrived(ledger: Path) -> list[list[Any]]:
    return [json.loads(line) for line in ledger.read_text().splitlines()] if ledger.exists() else []


def leaks(server: Server, answers: object, secret: str) -> list[str]:
    places = {"the log": server.log.encode(), "the answers": repr(answers).encode()}
    places |= {str(file): file.read_bytes() for file in server.data_dir.rglob("*") if file.is_file()}
    return [place for place, content in places.items() if secret.encode() in content]


async def start_all(url: str) -> list[dict[str, Any]]:
    """So many conversations at once, each with a token of its own."""
    answers: list[dict[str, Any]] = []

    async with http_client(base_url=url) as client, trio.open_nursery() as nursery:

        async def one(number: int) -> None:
            response = await client.post(
                "/conversations",
                json={"message": f"look nr{number}"},
                headers={"Authorization": f"Bearer good-canary-{number}"},
            )
            answers.append(response.json())

        for number in range(COUNT):
            nursery.start_soon(one, number)
    return answers


def test_each_call_arrives_with_its_own_token(
    serve: Serve, guarded: str, tmp_path: Path, ledger: Path
) -> None:
    server = start(serve, tmp_path, guarded)
    ready = server.get("/health/ready")
    assert [each["state"] for each in ready["mcp_servers"]] == ["auth_required"]
    assert server.get("/tools")["tools"] == []

    answers = trio.run(start_all, server.run.url)
    said = sorted(answer["result"]["response"] for answer in answers)
    assert said == sorted(f"told: nr{number}" for number in range(COUNT))
    assert sorted(arrived(ledger)) == sorted(
        ["look", f"nr{number}", f"Bearer good-canary-{number}"] for number in range(COUNT)
    )
    assert leaks(server, answers, "good-canary") == []


def test_run_without_its_token_makes_no_call(
    serve: Serve, guarded: str, tmp_path: Path, ledger: Path
) -> None:
    server = start(serve, tmp_path, guarded)
    turn = server.post("/conversations", {"message": "wipe disk"}, status=201, token="good-canary-1")
    id, uuid = turn["conversation"]["id"], turn["result"]["approval"]["uuid"]
    server.run.kill()

    server = start(serve, tmp_path, guarded)
    lost = server.post(f"/approvals/{uuid}", {"approved": True})
    assert lost["result"]["auth_required"] is True
    assert lost["result"]["auth"] == {"server": "guarded", "status": 401, "challenge": 'Bearer realm="test"'}
    assert lost["conversation"]["run"]["auth"] == lost["result"]["auth"]
    poor = server.post(f"/conversations/{id}/resume", token="poor-canary-2")
    assert poor["result"]["auth"]["status"] == 403
    assert arrived(ledger) == []
    done = server.post(f"/conversations/{id}/resume", token="good-canary-3")
    assert done["result"]["response"] == "told: wiped disk"
    assert arrived(ledger) == [["wipe", "disk", "Bearer good-canary-3"]]
    assert leaks(server, [turn, lost, poor, done], "canary") == []


@pytest.fixture(scope="module")
def asker() -> Iterator[str]:
    """The address of a tool server that requires no token."""
    with asking_server("http", dict(os.environ)) as url:
        yield url


@pytest.mark.parametrize("tool", ["ask", "resolve"])
def test_elicitation_is_answered_over_rest(serve: Serve, asker: str, tmp_path: Path, tool: str) -> None:
    """In the middle of a call, with a handshake; and before it, without."""
    (tmp_path / "replies.yaml").write_text(REPLIES)
    config = tmp_path / "agent.yaml"
    entry = {"name": "asker", "url": asker, "mode": "legacy" if tool == "ask" else "auto"}
    config.write_text(f"llm: {{model: script:replies.yaml}}\nmcp_servers: [{json.dumps(entry)}]\n")
    server = serve(tmp_path / "data", config=config)
    turn = server.post("/conversations", {"message": f"{tool} she"}, status=201)
    asked = turn["result"]["approval"]
    assert (asked["kind"], asked["message"], asked["server"]) == ("elicitation", "Who is she?", "asker")
    assert asked["input_schema"]["properties"]["colour"]["default"] == "blue"
    assert server.get("/approvals", kind="elicitation")["approvals"] == [asked]
    path = f"/approvals/{asked['uuid']}"
    if tool == "resolve":  # the call waits on disk, and so it survives
        server.run.interrupt()
        server = serve(tmp_path / "data", config=config)
    wrong = server.post(path, {"action": "accept", "content": {"name": "A"}}, status=422)
    assert wrong["code"] == "invalid_arguments"
    assert server.post(path, {"approved": True}, status=400)["code"] == "decision_required"
    done = server.post(path, {"action": "accept", "content": {"name": "Ada"}})
    assert done["result"]["response"] == "told: Ada likes blue"
    decision = server.get(path)["approval"]["decision"]
    assert (decision["action"], decision["content"]) == ("accept", {"name": "Ada", "colour": "blue"})
