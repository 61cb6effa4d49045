"""`STOPGO_API_KEY`: the commands that talk to an agent send it, to the agent only."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from subprocess import CompletedProcess

import pytest

from stopgo.gateway.cli.client.agent_client import ServerError, open_client
from stopgo.gateway.cli.client.conversation_socket import ConversationSocket

KEY = "sg_1_" + "a" * 48
Run = Callable[..., CompletedProcess[str]]


class Agent(ThreadingHTTPServer):
    """Refuses or redirects every request."""

    def __init__(self, location: str | None = None) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.location = location
        self.keys: list[str | None] = []
        self.url = f"http://127.0.0.1:{self.server_port}"


class Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        assert isinstance(self.server, Agent)
        self.server.keys.append(self.headers["X-API-Key"])
        self.send_response(307 if self.server.location else 401)
        if self.server.location:
            self.send_header("Location", f"{self.server.location}{self.path}")
        body = (
            b'{"error":"the credential is not valid","code":"unauthenticated","hint":"It may have expired."}'
        )
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_POST = do_GET

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def agents() -> Iterator[tuple[Agent, Agent]]:
    """One that refuses, and one that redirects to it."""
    refusing = Agent()
    redirecting = Agent(refusing.url)
    for server in (refusing, redirecting):
        threading.Thread(target=server.serve_forever, args=(0.01,)).start()
    yield refusing, redirecting
    for server in (refusing, redirecting):
        server.shutdown()
        server.server_close()


COMMANDS = [
    ("approvals",),
    ("approvals", "approve", "0b6c1ff6-0a4e-4d0c-9c68-0f8c57a1d4d5"),
    ("halt",),
    ("unhalt",),
    ("tools", "list"),
    ("tools", "accept", "add", "h"),
]


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_commands_send_the_key_and_name_the_variable(
    in_process: Run, monkeypatch: pytest.MonkeyPatch, agents: tuple[Agent, Agent], command: tuple[str, ...]
) -> None:
    refusing, redirecting = agents
    for key in (None, KEY):
        if key is not None:
            monkeypatch.setenv("STOPGO_API_KEY", key)
        done = in_process(*command, "--url", refusing.url)
        assert done.returncode == 1
        assert "the credential is not valid" in done.stderr
        assert "STOPGO_API_KEY" in done.stderr
        assert KEY not in done.stdout + done.stderr
    assert list(dict.fromkeys(refusing.keys)) == [None, KEY]
    seen = len(refusing.keys)
    assert in_process(*command, "--url", redirecting.url).returncode == 1
    assert set(redirecting.keys) == {KEY}
    assert len(refusing.keys) == seen


@pytest.mark.parametrize("command", ["card", "send"])
def test_requests_to_other_agents_send_the_key(
    in_process: Run, monkeypatch: pytest.MonkeyPatch, agents: tuple[Agent, Agent], command: str
) -> None:
    refusing, redirecting = agents
    monkeypatch.setenv("STOPGO_API_KEY", KEY)
    words = () if command == "card" else ("hello",)
    done = in_process("a2a", command, redirecting.url, *words)
    assert done.returncode == 1
    assert set(redirecting.keys) == {KEY}
    assert refusing.keys == []
    done = in_process("a2a", command, refusing.url, *words, "--header", "x-api-key:other")
    assert done.returncode == 1
    assert set(refusing.keys) == {"other"}


def test_the_hint_of_a_card(in_process: Run, agents: tuple[Agent, Agent]) -> None:
    assert "or set STOPGO_API_KEY" in in_process("a2a", "card", agents[0].url).stderr


async def test_websockets_send_the_key(monkeypatch: pytest.MonkeyPatch, agents: tuple[Agent, Agent]) -> None:
    monkeypatch.setenv("STOPGO_API_KEY", KEY)

    async def ignore(state: object) -> None: ...

    for agent in agents:
        async with open_client(agent.url) as client:
            with pytest.raises(ServerError):
                await ConversationSocket(client, "c", ignore).follow(ignore)
    assert [agent.keys for agent in agents] == [[KEY], [KEY]]


@pytest.mark.parametrize("command", [*COMMANDS, ("a2a", "card"), ("a2a", "send")], ids=" ".join)
def test_a_malformed_key_is_not_sent(
    in_process: Run, monkeypatch: pytest.MonkeyPatch, agents: tuple[Agent, Agent], command: tuple[str, ...]
) -> None:
    monkeypatch.setenv("STOPGO_API_KEY", "two\nlines")
    where = (agents[0].url, *command[2:]) if command[0] == "a2a" else ("--url", agents[0].url)
    done = in_process(*command, *where, *(["hello"] if command[-1] == "send" else []))
    assert done.returncode in (1, 2)
    assert "the environment variable STOPGO_API_KEY does not contain a valid key" in done.stderr
    assert agents[0].keys == []
