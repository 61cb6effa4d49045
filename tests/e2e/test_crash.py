"""What a crash leaves behind: two questions at once, a server killed twice, and nothing done twice."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pytest

from tests.e2e.chains import done
from tests.e2e.conftest import wait_until_gone
from tests.waiting import until_true

if TYPE_CHECKING:
    from tests.e2e.conftest import Serve, Server

TWO_BRANCHES = """
name: two-branches
llm:
  model: script:replies.yaml
mcp_servers:
  - name: tools
    command: {python}
    args: ["-S", "{server}"]
    env: {{LEDGER: "${{data_dir}}/ledger.jsonl"}}
approval:
  in_parallel: ask
agent:
  type: sequential
  name: pipeline
  agents:
    - type: parallel
      name: both
      agents:
        - {{type: llm, name: left, prompt: Wipe left., output_key: left}}
        - {{type: llm, name: right, prompt: Wipe right., output_key: right}}
    - {{type: llm, name: summary, prompt: "left: {{left}}; right: {{right}}"}}
"""

TWO_REPLIES = """
replies:
  - when: {node: left, call: 1}
    tool_calls: [{name: wipe, arguments: {text: left}}]
  - when: {node: right, call: 1}
    tool_calls: [{name: wipe, arguments: {text: right}}]
  - when: {node: summary, prompt: 'left: (?P<left>.*); right: (?P<right>.*)'}
    text: '${left}, ${right}.'
  - when: {tool_result: '(?P<name>left|right)'}
    text: 'wiped ${name}'
"""

CRASHING = """
name: crashing
llm:
  model: script:replies.yaml
mcp_servers:
  - name: brittle
    command: {python}
    args: ["-S", "{server}"]
    env: {{LEDGER: "${{data_dir}}/ledger.jsonl"}}
"""

CRASHING_REPLIES = """
replies:
  - when: {call: 1, user: crash}
    tool_calls: [{name: crash}]
  - when: {call: 1, user: echo}
    tool_calls: [{name: echo, arguments: {text: still here}}]
  - when: {tool_result: '(?s)(?P<result>.*)'}
    text: 'the tool said: ${result}'
"""

STUBBORN = """
name: stubborn
llm:
  model: script:replies.yaml
mcp_servers:
  - name: first
    expose: server
    command: {python}
    args: ["-S", "{server}"]
    env: {{UNRULY: "family,stubborn", FAMILY: "${{data_dir}}/first.pids"}}
  - name: second
    command: {python}
    args: ["-S", "{server}"]
    env: {{UNRULY: "family,stubborn", FAMILY: "${{data_dir}}/second.pids"}}
"""

SERVERS = Path(__file__).parents[2] / "testdata" / "servers"
ECHO_SERVER = SERVERS / "echo_server.py"


def written(folder: Path, agent: str, replies: str) -> Path:
    """An agent file and the script of its model."""
    (folder / "replies.yaml").write_text(replies, encoding="utf-8")
    (folder / "agent.yaml").write_text(agent, encoding="utf-8")
    return folder / "agent.yaml"


@pytest.fixture
def two_branches(tmp_path: Path) -> Path:
    text = TWO_BRANCHES.format(python=sys.executable, server=ECHO_SERVER)
    return written(tmp_path, text, TWO_REPLIES)


def pending(server: Server) -> dict[str, str]:
    """UUIDs of the pending approvals by the node that asks."""
    return {each["node"]: each["uuid"] for each in server.get("/approvals")["approvals"]}


def test_two_approvals_survive_two_crashes_and_each_happens_once(
    serve: Serve, two_branches: Path, tmp_path: Path
) -> None:
    ledger = tmp_path / "data" / "ledger.jsonl"
    server = serve(tmp_path / "data", config=two_branches)
    turn = server.post("/conversations", {"message": "both"}, status=201)
    id = turn["conversation"]["id"]
    assert len(turn["result"]["approvals"]) == 2
    asked = pending(server)
    assert asked.keys() == {"left", "right"}
    server.run.kill()
    assert done(ledger) == []

    server = serve(tmp_path / "data", config=two_branches)
    assert pending(server) == asked
    half = server.post(f"/approvals/{asked['right']}", {"approved": True})
    assert (half["result"]["state"], half["conversation"]["status"]) == ("waiting", "waiting_approval")
    server.run.kill()
    assert done(ledger) == ["wipe right"]

    server = serve(tmp_path / "data", config=two_branches)
    assert pending(server) == {"left": asked["left"]}
    # The first decision is on record, too: saying it again changes nothing.
    assert server.post(f"/approvals/{asked['right']}", {"approved": True}, status=409)["code"] == (
        "already_decided"
    )
    turn = server.post(f"/approvals/{asked['left']}", {"approved": True})

    assert turn["result"]["response"] == "wiped left, wiped right."
    assert server.conversation(id)["status"] == "active"
    assert done(ledger) == ["wipe right", "wipe left"]


def test_crash_of_a_tool_server_is_reported_in_the_conversation(serve: Serve, tmp_path: Path) -> None:
    """NFR-011: an answer, no hang, and the next call finds the server repaired."""
    text = CRASHING.format(python=sys.executable, server=ECHO_SERVER)
    server = serve(tmp_path / "data", config=written(tmp_path, text, CRASHING_REPLIES))
    id = server.new()

    crashed = server.say(id, "crash")
    assert crashed["result"]["state"] == "finished"
    call = crashed["conversation"]["messages"][2]["tool_call"]
    assert (call["name"], call["state"]) == ("crash", "unknown")
    said = 'the tool said: The outcome is unknown: MCP server "brittle" connection lost: exited with code 7'
    assert crashed["result"]["response"].startswith(said)

    assert server.say(id, "echo")["result"]["response"] == "the tool said: still here"
    assert server.get("/health/ready")["mcp_servers"] == [{"name": "brittle", "state": "connected"}]


def threads_of_trio(pid: int) -> list[Path]:
    return [each for each in Path(f"/proc/{pid}/task").iterdir() if "Trio" in (each / "comm").read_text()]


@pytest.mark.parametrize("idle", [False, pytest.param(True, marks=pytest.mark.crash)])
def test_no_tool_server_survives_the_agent(serve: Serve, tmp_path: Path, idle: bool) -> None:
    """Not even one that ignores the end of its input and SIGTERM, nor what it has started. Idle: trio's
    threads that started it have ended."""
    data = tmp_path / "data"
    text = STUBBORN.format(python=sys.executable, server=SERVERS / "unruly_server.py")
    server = serve(data, config=written(tmp_path, text, "replies: [{text: done}]"))
    if idle:
        until_true(lambda: not threads_of_trio(server.run.process.pid))
    assert server.run.process.poll() is None
    family = [psutil.Process(int(pid)) for file in data.glob("*.pids") for pid in file.read_text().split()]
    assert len(family) == 4
    assert all(process.is_running() for process in family)
    server.run.kill()
    wait_until_gone(family)
