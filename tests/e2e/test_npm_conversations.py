"""Public tool servers in conversations: over HTTP, with a scripted model, as an operator would see them."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeAlias

import pytest
import yaml

from tests.e2e.conftest import Serve, Server, Servers
from tests.e2e.test_npm_servers import everything_over, script
from tests.http_client import blocking_client
from tests.waiting import until_true

pytestmark = pytest.mark.npm

Json: TypeAlias = dict[str, Any]

TRANSPORTS = ("stdio", "http", "sse")
CALLS: dict[str, list[tuple[str, Json]]] = {
    "say": [("echo", {"message": "grüße"})],
    "sum": [("get-sum", {"a": 2, "b": 3})],
    "image": [("get-tiny-image", {})],
    "annotated": [("get-annotated-message", {"messageType": "error", "includeImage": True})],
    "links": [("get-resource-links", {"count": 2})],
    "embedded text": [("get-resource-reference", {"resourceType": "Text", "resourceId": 1})],
    "embedded blob": [("get-resource-reference", {"resourceType": "Blob", "resourceId": 1})],
    "structured": [("get-structured-content", {"location": "New York"})],
    "ask": [("trigger-elicitation-request", {})],
    "ask for a visit": [("trigger-url-elicitation", {"url": "http://127.0.0.1/visit", "message": "Look."})],
    "visit first": [
        ("trigger-url-elicitation", {"url": "http://127.0.0.1/first", "message": "Look.", "errorPath": True})
    ],
    "long": [("trigger-long-running-operation", {"duration": 0.5, "steps": 5})],
}


def agent_file(folder: Path, servers: list[Json], calls: dict[str, list[tuple[str, Json]]]) -> Path:
    """An agent whose model calls what the message names, and then repeats what came of it."""
    replies: list[Json] = [
        {
            "when": {"user": f"^{message}$", "call": 1},
            "tool_calls": [{"name": name, "arguments": arguments} for name, arguments in made],
        }
        for message, made in calls.items()
    ]
    replies.append({"when": {"tool_result": r"(?s)(?P<result>\A.*\Z)"}, "text": "I got: ${result}"})
    (folder / "replies.yaml").write_text(yaml.safe_dump({"replies": replies}, allow_unicode=True))
    path = folder / "agent.yaml"
    path.write_text(yaml.safe_dump({"llm": {"model": "script:replies.yaml"}, "mcp_servers": servers}))
    return path


def result_of(server: Server, message: str) -> tuple[str, Json]:
    """What the model was told of the one call that it makes, and the call as it is kept."""
    turn = server.post("/conversations", {"message": message}, status=201)
    (called,) = [each for each in turn["conversation"]["messages"] if each["role"] == "tool"]
    assert turn["result"]["state"] == "finished"
    assert turn["result"]["response"].startswith("I got: ")
    return turn["result"]["response"].removeprefix("I got: "), called["tool_call"]


@pytest.fixture(scope="module", params=TRANSPORTS)
def everything(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp(request.param)
    servers = Servers()
    with everything_over(request.param) as where:
        server: Json = {"name": "everything", "max_concurrency": 4, **where}
        yield servers(folder / "data", config=agent_file(folder, [server], CALLS))
        servers.stop_all()


@pytest.mark.parametrize(
    ("message", "parts"),
    [
        ("say", ["Echo: grüße"]),
        ("sum", ["5"]),
        ("image", ["Here's the image you requested:", "[image: image/png", "The image above is"]),
        ("annotated", ["Error: Operation failed", "[image: image/png"]),
        ("links", ["2 resource links", "Blob Resource 1", "Text Resource 2", "://"]),
        ("embedded text", ["Resource 1", "plaintext resource"]),
        ("embedded blob", ["Resource 1", "://"]),
        ("structured", ["temperature", "conditions"]),
    ],
)
def test_every_kind_of_content_reaches_the_model(everything: Server, message: str, parts: list[str]) -> None:
    shown, called = result_of(everything, message)
    for part in parts:
        assert part in shown
    assert called["server"] == "everything"
    assert called["is_error"] is False


def test_what_the_server_says_of_its_tools_decides(everything: Server) -> None:
    tools = {tool["name"]: tool for tool in everything.get("/tools")["tools"]}
    assert tools["echo"]["readOnlyHint"] is True
    assert {tool["policy"] for tool in tools.values()} == {"run"}


def test_progress_is_streamed_and_not_kept(everything: Server) -> None:
    id = everything.new()
    frames: list[tuple[str, Json]] = []
    connected = threading.Event()

    def read() -> None:
        url = f"{everything.run.url}/conversations/{id}/events?deltas=true"
        with blocking_client() as client, client.stream("GET", url) as stream:
            kind = ""
            for line in stream.iter_lines():
                connected.set()
                if line.startswith("event: "):
                    kind = line.removeprefix("event: ")
                elif line.startswith("data: "):
                    frames.append((kind, json.loads(line.removeprefix("data: "))))
                    if kind == "run.finished":
                        return

    reader = threading.Thread(target=read)
    reader.start()
    connected.wait()
    everything.say(id, "long")
    reader.join()
    progress = [frame for kind, frame in frames if kind == "tool.progress"]
    assert [(each["progress"], each["total"]) for each in progress] == [(step, 5) for step in range(1, 6)]
    assert {each["server"] for each in progress} == {"everything"}
    assert all("progress" not in json.dumps(frame) for kind, frame in frames if kind == "tool.finished")


def test_a_list_that_changed_after_the_start_is_followed(everything: Server) -> None:
    """The server offers some tools only once it has learned, after the handshake, what its client can do."""

    def names() -> set[str]:
        return {tool["name"] for tool in everything.get("/tools")["tools"]}

    until_true(lambda: "trigger-elicitation-request" in names())


def test_a_form_of_the_server_is_an_approval(everything: Server) -> None:
    question = asked(everything, "ask")
    uuid = question["uuid"]
    refused = everything.post(
        f"/approvals/{uuid}", {"action": "accept", "content": {"integer": 1000}}, status=422
    )
    assert refused["code"] == "invalid_arguments"
    content = {"name": "Ada", "check": True, "integer": 7}
    result = everything.post(f"/approvals/{uuid}", {"action": "accept", "content": content})["result"]
    assert result["state"] == "finished"
    assert "Ada" in result["response"]


@pytest.mark.parametrize("action", ["decline", "cancel"])
def test_no_is_an_answer_to_a_form(everything: Server, action: str) -> None:
    result = everything.post(f"/approvals/{asked(everything, 'ask')['uuid']}", {"action": action})["result"]
    assert result["state"] == "finished"
    assert action in result["response"].lower()


@pytest.mark.parametrize(
    ("message", "url"),
    [("ask for a visit", "http://127.0.0.1/visit"), ("visit first", "https://modelcontextprotocol.io")],
)
def test_an_address_to_visit_is_an_approval(everything: Server, message: str, url: str) -> None:
    """Asked in the middle of the call, or by an error before it does anything."""
    question = asked(everything, message)
    assert f"`{url}`" in question["description"]
    while True:  # Who asked first asks again in the call that follows.
        answer = everything.post(f"/approvals/{question['uuid']}", {"action": "accept"})
        result = answer["result"]
        if not result["waiting_approval"]:
            break
        question = result["approval"]
    assert result["state"] == "finished"
    assert "accept" in result["response"].lower()


def asked(server: Server, message: str) -> Json:
    """The question of the server that a new conversation waits for."""
    result = server.post("/conversations", {"message": message}, status=201)["result"]
    assert result["waiting_approval"] is True, result
    question: Json = result["approval"]
    assert question["kind"] == "elicitation"
    return question


def filesystem(folder: Path) -> Json:
    return {"name": "files", "command": "node", "args": [script("server-filesystem"), str(folder)]}


def test_the_filesystem_server_stops_before_it_writes(serve: Serve, tmp_path: Path) -> None:
    files = tmp_path / "files"
    files.mkdir()
    (files / "old.txt").write_text("old\n")
    calls: dict[str, list[tuple[str, Json]]] = {
        "write": [("write_file", {"path": f"{files}/new.txt", "content": "new"})],
        "move": [("move_file", {"source": f"{files}/old.txt", "destination": f"{files}/moved.txt"})],
        "read": [("read_text_file", {"path": f"{files}/old.txt"})],
        "folder": [("create_directory", {"path": f"{files}/folder"})],
    }
    server = serve(tmp_path / "data", config=agent_file(tmp_path, [filesystem(files)], calls))
    policies = {tool["name"]: tool["policy"] for tool in server.get("/tools")["tools"]}
    asking = {name for name, policy in policies.items() if policy == "ask"}
    assert asking == {"write_file", "edit_file", "move_file"}

    assert result_of(server, "read")[0].startswith("old")
    assert result_of(server, "folder")[1]["is_error"] is False
    assert (files / "folder").is_dir()

    write, move = server.ask_for("write"), server.ask_for("move")
    assert not (files / "new.txt").exists()
    server.post(f"/approvals/{write}", {"approved": True})
    assert (files / "new.txt").read_text() == "new"
    server.post(f"/approvals/{move}", {"approved": False, "reason": "it stays"})
    assert (files / "old.txt").exists()


def test_one_reply_calls_two_servers_at_once_and_goes_on_when_one_fails(serve: Serve, tmp_path: Path) -> None:
    files = tmp_path / "files"
    files.mkdir()
    (files / "note.txt").write_text("a note\n")
    calls: dict[str, list[tuple[str, Json]]] = {
        "all": [
            ("trigger-long-running-operation", {"duration": 2, "steps": 2}),
            ("read_text_file", {"path": f"{files}/missing.txt"}),
            ("read_text_file", {"path": f"{files}/note.txt"}),
        ]
    }
    with everything_over("stdio") as where:
        servers = [{"name": "everything", **where}, filesystem(files)]
        server = serve(tmp_path / "data", config=agent_file(tmp_path, servers, calls))
        turn = server.post("/conversations", {"message": "all"}, status=201)
    called = [each["tool_call"] for each in turn["conversation"]["messages"] if each["role"] == "tool"]
    assert [(call["server"], call["is_error"]) for call in called] == [
        ("everything", False),
        ("files", True),
        ("files", False),
    ]
    assert "a note" in called[2]["result"]
    assert turn["result"]["response"].startswith("I got: Long running operation completed")
    events = stored_events(server, turn["conversation"]["id"])
    kinds = [
        (kind, body["body"]["key"].rpartition(".")[2]) for kind, body in events if kind.startswith("tool.")
    ]
    # Both of the other server's calls came and went while the first was going.
    assert kinds[-1] == ("tool.finished", "0")
    assert kinds.index(("tool.started", "0")) < kinds.index(("tool.finished", "1"))
    (batch,) = [body["body"] for kind, body in events if kind == "batch.finished"]
    assert (batch["size"], batch["succeeded"], batch["failed"]) == (3, 2, 1)


def stored_events(server: Server, id: str) -> list[tuple[str, Json]]:
    """What is kept of a conversation whose run is over."""
    found: list[tuple[str, Json]] = []
    kind = ""
    with server.client.stream("GET", f"/conversations/{id}/events") as stream:
        for line in stream.iter_lines():
            if line.startswith("event: "):
                kind = line.removeprefix("event: ")
            elif line.startswith("data: "):
                found.append((kind, json.loads(line.removeprefix("data: "))))
                if kind == "run.finished":
                    break
    return found
