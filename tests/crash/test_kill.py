"""kill -9 of the real server at every event of a destructive turn."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import attrs
import httpx2
import pytest

from tests.e2e.conftest import Server, Servers

pytestmark = pytest.mark.crash

ECHO_SERVER = Path(__file__).parents[2] / "testdata" / "servers" / "echo_server.py"

AGENT = """
name: careful
llm:
  model: script:replies.yaml
mcp_servers:
  - name: echo
    command: {python}
    args: ["-S", "{server}"]
    env: {{LEDGER: "{ledger}", DELAY: "0.3"}}
"""

REPLIES = """
replies:
  - when: {call: 1}
    delay: 0.2
    tool_calls: [{name: wipe, arguments: {text: everything}}]
  - when: {tool_result: '(?P<result>.+)'}
    delay: 0.2
    text: 'wiped: ${result}'
"""

TURN = (
    "conversation.created",
    "message.added",
    "run.started",
    "step.finished",
    "approval.requested",
    "run.waiting",
    "approval.resolved",
    "run.resumed",
    "tool.started",
    "tool.finished",
    "batch.finished",
    "step.finished",
    "run.finished",
)
"""The events of an undisturbed turn, by seq from 1."""


ENDS = ("run.finished", "run.failed", "run.cancelled")

"""Time limit for a process, in seconds. An undisturbed one takes less."""


@attrs.define
class Person:
    """Says one thing, and yes when asked; and both again, with the same key, until there is an answer."""

    folder: Path
    conversation: str = ""
    asked: str = ""
    """The approval that was decided."""
    seen: list[str] = attrs.field(factory=list)
    answers: dict[str, dict[str, Any]] = attrs.field(factory=dict)

    def live(self, server: Server, kill_at: int | None = None) -> None:
        """Take part until the turn is over, or until the event that the server dies at."""
        if not self.conversation:
            self.conversation = server.new()
        with ThreadPoolExecutor(2) as pool:
            said = pool.submit(self._post, server, "say", f"/conversations/{self.conversation}/messages")
            decided: Future[None] | None = None
            for seq, type in self._events(server):
                if kill_at is None:
                    self._answer_unknowns(server)
                elif seq == kill_at:
                    server.run.kill()
                    break
                if type == "run.waiting" and decided is None:
                    self.asked = self.asked or server.get("/approvals?state=pending")["approvals"][0]["uuid"]
                    decided = pool.submit(self._post, server, "yes", f"/approvals/{self.asked}")
                if type in ENDS:
                    break
            said.result()
            if decided is not None:
                decided.result()

    def _post(self, server: Server, key: str, path: str) -> None:
        if key in self.answers:
            return
        body = {"message": "wipe it all"} if key == "say" else {"approved": True}
        try:
            response = server.client.post(path, json=body, headers={"Idempotency-Key": key})
        except httpx2.TransportError:
            return  # killed: to be said again
        assert response.status_code == 200, response.text
        self.answers[key] = response.json()["result"]

    def _events(self, server: Server) -> Iterator[tuple[int, str]]:
        self.seen.clear()
        path = f"/conversations/{self.conversation}/events"
        with server.client.stream("GET", path) as response:
            seq = 0
            for line in response.iter_lines():
                name, _, value = line.partition(": ")
                if name == "id":
                    seq = int(value)
                elif name == "event":
                    self.seen.append(value)
                    yield seq, value

    def _answer_unknowns(self, server: Server) -> None:
        for approval in server.get("/approvals?kind=outcome_unknown")["approvals"]:
            action = {"action": "done", "result": "everything"} if self.ledger else {"action": "retry"}
            server.client.post(f"/approvals/{approval['uuid']}", json=action)

    @property
    def ledger(self) -> list[str]:
        """The names that were actually wiped."""
        try:
            lines = (self.folder / "ledger.jsonl").read_text().splitlines()
        except FileNotFoundError:
            return []
        return [json.loads(line)["arguments"]["text"] for line in lines]


@pytest.fixture
def servers() -> Iterator[Servers]:
    servers = Servers()
    yield servers
    servers.stop_all()


def write_agent(folder: Path) -> Path:
    (folder / "replies.yaml").write_text(REPLIES)
    text = AGENT.format(python=sys.executable, server=ECHO_SERVER, ledger=folder / "ledger.jsonl")
    (folder / "agent.yaml").write_text(text)
    return folder / "agent.yaml"


@pytest.fixture
def config(tmp_path: Path) -> Path:
    return write_agent(tmp_path)


def test_the_turn_is_the_one_that_is_expected(servers: Servers, config: Path, tmp_path: Path) -> None:
    person = Person(tmp_path)
    person.live(servers(tmp_path / "data", config=config))
    assert tuple(person.seen) == TURN
    assert person.ledger == ["everything"]


@pytest.mark.parametrize("seq", range(1, len(TURN) + 1), ids=lambda seq: f"{seq}-{TURN[seq - 1]}")
def test_killed_at(seq: int, servers: Servers, config: Path, tmp_path: Path) -> None:
    person = Person(tmp_path)
    person.live(servers(tmp_path / "data", config=config), kill_at=seq)
    before, done, answered = list(person.seen), list(person.ledger), dict(person.answers)
    assert before == list(TURN[:seq])

    server = servers(tmp_path / "data", config=config)
    person.live(server)

    assert person.seen[:seq] == before, "an event that was told is lost"
    assert person.seen[-1] == "run.finished"
    assert person.ledger == ["everything"]
    if done:
        assert person.seen.count("tool.started") == 1, "it was done, and done again"
    assert person.answers.items() >= answered.items()
    assert person.answers["say"]["waiting_approval"] is True
    conversation = server.conversation(person.conversation)
    assert conversation["status"] == "active"
    assert conversation["messages"][-1]["content"] == "wiped: everything"
    refused = server.post(f"/approvals/{person.asked}", {"approved": False}, status=409)
    assert refused["approval"]["decision"]["approved"] is True, "the decision that was given stands"
