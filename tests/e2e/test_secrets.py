"""NFR-005: a bearer token and a key of a tool server are used, and are nowhere to be found afterwards."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from stopgo.actors.mcp.command import find_command

if TYPE_CHECKING:
    from tests.e2e.conftest import Serve, Server

TOKEN = "tok-3f9c2d7b81"
LATER_TOKEN = "tok-aa51c7704e"
KEY = "key-7be2906d41"

AGENT = """
name: remote
llm:
  model: offline:rules
mcp_servers:
  - name: resources
    url: "${RESOURCES_URL}?key=${RESOURCES_KEY}"
"""


@pytest.fixture
def resources_url(tmp_path: Path) -> Iterator[str]:
    """A tool server over HTTP, to which bearer tokens are forwarded."""
    database = str(tmp_path / "resources.db")
    command = [find_command("stopgo"), "mcp-resources", "--db", database, "--http", "127.0.0.1:0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield process.stdout.readline().removeprefix("listening on ").strip() + "/mcp"
        finally:
            process.terminate()


def leaks(server: Server, answers: list[object]) -> list[str]:
    """Where any of the secrets shows."""
    places = {"the log": server.log.encode(), "the answers": repr(answers).encode()}
    for file in server.data_dir.rglob("*"):
        if file.is_file():
            places[str(file)] = file.read_bytes()
    return [
        f"{secret} in {place}"
        for place, content in places.items()
        for secret in (TOKEN, LATER_TOKEN, KEY)
        if secret.encode() in content
    ]


def test_secrets_are_used_and_not_kept(serve: Serve, resources_url: str, tmp_path: Path) -> None:
    config = tmp_path / "agent.yaml"
    config.write_text(AGENT, encoding="utf-8")
    env = {"RESOURCES_URL": resources_url, "RESOURCES_KEY": KEY}
    server = serve(tmp_path / "data", config=config, env=env)
    id = server.new()
    asked = server.say(id, "add kept-quiet with value 1", token=TOKEN)
    uuid = asked["result"]["approval"]["uuid"]
    answers: list[object] = [asked]
    server.run.kill()
    assert leaks(server, answers) == []

    server = serve(tmp_path / "data", config=config, env=env)
    # A run that came with a token never goes out without one.
    lost = server.post(f"/approvals/{uuid}", {"approved": True})
    assert (lost["result"]["auth_required"], lost["conversation"]["status"]) == (True, "active")
    done = server.post(f"/conversations/{id}/resume", token=LATER_TOKEN)
    assert "kept-quiet" in done["result"]["response"]
    answers += [lost, done, server.conversation(id), server.get("/health/ready"), server.get("/tools")]

    assert leaks(server, answers) == []
