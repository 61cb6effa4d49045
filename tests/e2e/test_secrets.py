"""NFR-005: bearer tokens and keys are used, and are nowhere to be found afterwards."""

from __future__ import annotations

import base64
import inspect
import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from stopgo.actors.mcp.transports.environment import find_command
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


def leaks(server: Server, answers: list[object], secrets: tuple[str, ...] = (TOKEN, KEY)) -> list[str]:
    """Where any of the secrets shows."""
    places = {"the log": server.log.encode(), "the answers": repr(answers).encode()}
    for file in server.data_dir.rglob("*"):
        if file.is_file():
            places[str(file)] = file.read_bytes()
    return [
        f"{secret} in {place}"
        for place, content in places.items()
        for secret in secrets
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


def test_key_in_an_error_of_a_provider_is_masked(serve: Serve, tmp_path: Path) -> None:
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


# ----------------------------------------------------------------- tool servers that quote what they got

PASSWORD, QUERY = "pw-canary-59ac", "query-canary-77c1"
BASIC = base64.b64encode(f"ada:{PASSWORD}".encode()).decode()
OWN_TOKEN = f"{KEY}-own"

TELLTALES = """
llm: {model: script:replies.yaml}
mcp_servers:
  - {name: local, command: PYTHON, args: [telltale.py], env: {TOKEN: "${OWN_TOKEN}"}}
  - {name: own, url: "http://ada:PASSWORD@ADDRESS/own?apikey=QUERY"}
  - {name: forwarded, url: "http://ADDRESS/forwarded"}
"""
TELLTALE_REPLIES = """
replies:
  - when: {call: 1}
    tool_calls: [{name: local_look}, {name: own_look}, {name: forwarded_look}]
  - when: {tool_result: '(?s)(?P<result>.*)'}
    text: 'told: ${result}'
"""
ON_STDIO = """
import json, os, sys, time
from protocol import answer
token = os.environ["TOKEN"]
os.write(2, f"begins with {token[:9]}".encode())
time.sleep(0.1)
os.write(2, f"{token[9:]}\\n".encode())
for line in sys.stdin:
    if reply := answer(json.loads(line), "local", f"{token} is of no use"):
        print(json.dumps(reply), flush=True)
"""


def answer(message: dict[str, Any], name: str, said: str) -> dict[str, Any] | None:
    """The reply of a server whose only tool fails with the message `said`."""
    reply: dict[str, Any] = {"jsonrpc": "2.0", "id": message.get("id")}
    if "id" not in message:
        return None
    if message["method"] == "tools/call":
        return {**reply, "error": {"code": -32000, "message": said}}
    if message["method"] == "tools/list":
        tool = {"name": f"{name}_look", "description": said, "inputSchema": {"type": "object"}}
        return {**reply, "result": {"tools": [tool]}}
    if message["method"] != "initialize":
        return {**reply, "error": {"code": -32601, "message": "Method not found"}}
    info = {"name": "telltale", "version": "1"}
    version = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": info}
    return {**reply, "result": version}


@pytest.fixture
def telltale() -> Iterator[str]:
    """The address of servers over HTTP that quote the path and `Authorization` of each request."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            message = json.loads(self.rfile.read(int(self.headers["content-length"])))
            said = f"{self.headers['authorization']} may not see {self.path}"
            reply = answer(message, self.path[1:].partition("?")[0], said)
            self.send_response(202 if reply is None else 200)
            self.send_header("content-type", "application/json")
            self.end_headers()
            self.wfile.write(b"" if reply is None else json.dumps(reply).encode())

        def do_GET(self) -> None:
            self.send_error(405)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        yield f"127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_secrets_in_texts_of_tool_servers_are_masked(serve: Serve, telltale: str, tmp_path: Path) -> None:
    values = {"PYTHON": sys.executable, "PASSWORD": PASSWORD, "ADDRESS": telltale, "QUERY": QUERY}
    text = TELLTALES
    for name, value in values.items():
        text = text.replace(name, value)
    config = tmp_path / "agent.yaml"
    config.write_text(text, encoding="utf-8")
    (tmp_path / "replies.yaml").write_text(TELLTALE_REPLIES, encoding="utf-8")
    data = tmp_path / "data"
    data.mkdir()
    (data / "telltale.py").write_text(ON_STDIO, encoding="utf-8")
    source = inspect.getsource(answer).replace("-> dict[str, Any] | None", "")
    (data / "protocol.py").write_text(f"from typing import Any\n{source}", encoding="utf-8")
    server = serve(data, config=config, env={"OWN_TOKEN": OWN_TOKEN})
    asked = server.post("/conversations", {"message": "look"}, status=201, token=TOKEN)
    answers: list[Any] = [asked, server.conversation(asked["conversation"]["id"]), server.get("/tools")]
    server.run.interrupt()
    assert leaks(server, answers, (TOKEN, KEY, PASSWORD, BASIC, QUERY)) == []
    assert "begins with ***\n" in server.log
    assert f"MCP Server [own]: http://***@{telltale}/own?apikey=***" in server.log
    assert asked["result"]["response"] == "told: *** is of no use"
    calls = [m["tool_call"]["result"] for m in answers[1]["messages"] if m.get("tool_call")]
    assert calls == [
        "*** is of no use",
        "Basic *** may not see /own?apikey=***",
        "Bearer *** may not see /forwarded",
    ]
