"""Agents that call in a circle, or are not where they are looked for: a clear end, no hang."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.e2e.chains import (
    SCRIPTED,
    TELL,
    Json,
    answer_of,
    begin,
    calls_of,
    held_port,
    passing_on,
    written,
)
from tests.http_client import blocking_client

pytestmark = pytest.mark.agents

if TYPE_CHECKING:
    from tests.e2e.conftest import Serve, Server

CIRCLE = "the message has come through this agent: agents call in a circle"
PATH = "urn:agent-stop-and-go:path:v1"


@pytest.fixture
def port() -> Iterator[int]:
    with held_port() as port:
        yield port


def asking(to: str) -> Json:
    """An agent whose model delegates everything and reports the result."""
    return {"llm": SCRIPTED, "a2a": {to: {"url": "${NEXT}/a2a"}}}


def replies(to: str) -> list[Json]:
    call = {"name": f"a2a_{to}", "arguments": {"message": "${text}"}}
    return [{"when": {"call": 1, "user": "(?P<text>.*)"}, "tool_calls": [call]}, TELL]


def at(port: int) -> dict[str, str]:
    return {"NEXT": f"http://127.0.0.1:{port}"}


def start(serve: Serve, folder: Path, to: str, kind: str, next: int, port: int = 0) -> Server:
    """An agent of that kind whose next one is at that port."""
    config = asking(to) if kind == "model" else passing_on(to)
    return serve(folder / "data", config=written(folder, config, replies(to)), env=at(next), port=port)


def total(server: Server) -> int:
    count: int = server.get("/conversations")["summary"]["total"]
    return count


@pytest.mark.parametrize("kind", ["node", "model"])
def test_circle_of_two_agents_is_refused(serve: Serve, tmp_path: Path, port: int, kind: str) -> None:
    a = start(serve, tmp_path / "a", "b", kind, next=port)
    b = start(serve, tmp_path / "b", "a", kind, next=int(a.run.url.rpartition(":")[2]), port=port)

    turn = begin(a, "round and round")

    assert turn["result"]["state"] == ("failed" if kind == "node" else "finished")
    assert turn["conversation"]["status"] == "active"
    assert CIRCLE in turn["result"]["response"]
    assert 'agent "a"' in turn["result"]["response"]
    # Each was asked once; what came round was refused before it became anything.
    assert (total(a), total(b)) == (1, 1)
    # Of people both are asked as before.
    assert CIRCLE in begin(b, "the other way")["result"]["response"]
    assert (total(a), total(b)) == (2, 2)


@pytest.mark.parametrize("kind", ["node", "model"])
def test_agent_that_delegates_to_itself_is_refused(
    serve: Serve, tmp_path: Path, port: int, kind: str
) -> None:
    server = start(serve, tmp_path, "me", kind, next=port, port=port)
    turn = begin(server, "do it yourself")
    assert turn["result"]["state"] == ("failed" if kind == "node" else "finished")
    assert CIRCLE in turn["result"]["response"]
    [call] = calls_of(turn["conversation"])
    assert (call["state"], call["is_error"]) == ("finished", True)
    assert total(server) == 1


def test_message_passes_at_most_sixteen_agents(serve: Serve, tmp_path: Path) -> None:
    """The message names agents that it has already passed."""
    last = serve(tmp_path / "last", config=written(tmp_path / "b", {"llm": {"model": "offline:rules"}}))
    first = start(serve, tmp_path / "a", "b", "node", next=int(last.run.url.rpartition(":")[2]))

    def send(before: int) -> Json:
        metadata = {PATH: {"agents": [f"agent-{number}" for number in range(before)]}}
        parts = [{"text": "hello"}]
        message = {"messageId": str(before), "role": "ROLE_USER", "parts": parts, "metadata": metadata}
        with blocking_client(base_url=first.run.url) as client:
            answer: Json = client.post("/a2a/message:send", json={"message": message}).json()
        return answer

    assert send(14)["task"]["status"]["state"] == "TASK_STATE_COMPLETED"
    assert (total(first), total(last)) == (1, 1)
    refused = send(15)["task"]["status"]
    assert refused["state"] == "TASK_STATE_FAILED"
    assert "through 16 agents, too many" in str(refused)
    assert (total(first), total(last)) == (2, 1)
    assert "through 16 agents, too many" in send(16)["error"]["message"]
    assert (total(first), total(last)) == (2, 1)


@pytest.mark.parametrize("kind", ["node", "model"])
def test_missing_agent_is_reported_and_found_later(
    serve: Serve, tmp_path: Path, port: int, kind: str
) -> None:
    """It stops neither the start nor the run for long; and once it is there, it is found."""
    server = start(serve, tmp_path / "a", "b", kind, next=port)
    assert server.get("/health/ready")["agents"] == [{"name": "b", "state": "unknown"}]

    turn = begin(server, "list all resources")

    assert turn["result"]["state"] == ("failed" if kind == "node" else "finished")
    [call] = calls_of(turn["conversation"])
    assert (call["state"], call["is_error"]) == ("finished", True)
    assert call["result"].startswith("sub-agent unavailable: b")
    assert "sub-agent unavailable: b" in turn["result"]["response"]
    ready = server.get("/health/ready")
    [told] = ready["agents"]
    assert (ready["status"], told["name"], told["state"]) == ("ready", "b", "unreachable")
    assert told["error"]
    assert "sub-agent unavailable: b" in server.log

    serve(tmp_path / "b", config=written(tmp_path / "b", {"llm": {"model": "offline:rules"}}), port=port)
    turn = begin(server, "list all resources")
    assert turn["result"]["state"] == "finished"
    assert "not a language model" in turn["result"]["response"]
    assert server.get("/health/ready")["agents"] == [{"name": "b", "state": "reached"}]


@contextmanager
def card_of(url: str) -> Iterator[tuple[str, list[Json]]]:
    """Another origin, which has only the card of the agent at that address; and the headers it is sent."""
    requests: list[Json] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            requests.append({name.lower(): value for name, value in self.headers.items()})
            with blocking_client() as client:
                found = client.get(f"{url}{self.path}")
            self.send_response(found.status_code)
            self.send_header("content-type", "application/json")
            self.end_headers()
            self.wfile.write(found.content)

        def log_message(self, format: str, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}", requests
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.parametrize("listed", [False, True])
def test_card_may_point_only_to_listed_origins(serve: Serve, tmp_path: Path, listed: bool) -> None:
    """Only to an origin that the configuration lists; else nothing goes there, least of all the token. The
    agent is called at the configured origin, where there is only the card here."""
    last = serve(tmp_path / "last", config=written(tmp_path / "b", {"llm": {"model": "offline:rules"}}))
    with card_of(last.run.url) as (url, requests):
        remote = {"name": "b", "url": url, "origins": [last.run.url] if listed else []}
        config = passing_on("b", a2a=[remote])
        server = serve(tmp_path / "data", config=written(tmp_path / "a", config))
        turn = begin(server, "list all resources", token="canary-of-the-user")
        assert requests
        assert "canary" not in json.dumps(requests)
    assert (turn["result"]["state"] == "finished") is listed
    assert total(last) == listed
    if not listed:
        text = answer_of(turn["conversation"])
        assert "sub-agent unavailable: b" in text
        assert last.run.url in text
