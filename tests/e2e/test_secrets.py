"""NFR-005: bearer tokens and keys are used, and are nowhere to be found afterwards."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from stopgo.actors.mcp.environment import find_command
from tests.canary import KEY, TOKEN
from tests.providers.servers.model_server import Event, Fail, Raw
from tests.providers.servers.threaded import servers_in_a_thread

if TYPE_CHECKING:
    from tests.e2e.conftest import Serve, Server

LATER_TOKEN = f"{TOKEN}-later"

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
        for secret in (TOKEN, KEY)
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


MODELS = """
name: talker
llm: {model: first, fallbacks: [second]}
models:
  first: {provider: openai, model: FIRST, base_url: "${FIRST_URL}"}
  second: {provider: google, model: SECOND, base_url: "${SECOND_URL}"}
"""


def frames(server: Server, id: str) -> Iterator[str]:
    """Lines of the stream with all there is on it, up to the end of the run."""
    url = f"/conversations/{id}/events"
    with server.client.stream("GET", url, params={"deltas": "true"}) as response:
        for line in response.iter_lines():
            yield line
            if line in ("event: run.finished", "event: run.failed"):
                return


def test_a_provider_that_repeats_the_key_is_not_quoted(serve: Serve, tmp_path: Path) -> None:
    echo = f"the key {KEY} is not welcome, Authorization: Bearer {KEY}"
    with servers_in_a_thread("openai", "google") as servers:
        first, second = servers["openai"], servers["google"]
        config = tmp_path / "agent.yaml"
        text = MODELS.replace("FIRST,", f"{first.model},").replace("SECOND,", f"{second.model},")
        config.write_text(text, encoding="utf-8")
        env = {
            "FIRST_URL": first.base_url,
            "SECOND_URL": second.base_url,
            "OPENAI_API_KEY": KEY,
            "GEMINI_API_KEY": KEY,
        }
        server = serve(tmp_path / "data", config=config, env=env)
        answers: list[object] = []
        for fault in (
            Fail(401, why=echo),
            Fail(429, {"retry-after": "3600"}, why=echo),
            Fail(502, body=f"<html>{echo}</html>".encode()),
            Raw([f"data: {echo}\n\n".encode()], content_type="text/event-stream"),
            Raw([echo.encode()], status=400),
            Event("text", why=echo),
        ):
            first.always = second.always = fault
            said = server.post("/conversations", {"message": "hello"}, status=201)
            assert said["result"]["state"] == "failed"
            assert "none of the models answered" in said["result"]["response"]
            answers += [said, *frames(server, said["conversation"]["id"])]
        first.always, second.always = Fail(403, why=echo), None
        said = server.post("/conversations", {"message": "hello"}, status=201)
        assert said["result"]["state"] == "finished"
        answers += [said, *frames(server, said["conversation"]["id"]), server.get("/health/ready")]
    assert leaks(server, answers) == []
