"""Three tool servers, each killed every few seconds for a minute, under a hundred conversations."""

from __future__ import annotations

import faulthandler
import json
import os
import random
import signal
import socket
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import attrs
import psutil
import pytest
import trio
import yaml

from stopgo.actors.agent.agent import Agent
from stopgo.actors.agent.open_agent import open_agent
from stopgo.actors.models.messages.messages import Emit, ModelReply, ModelRequest, ToolCall
from stopgo.config.load import load_config

SERVERS = Path(__file__).parents[2] / "testdata" / "servers"
KINDS = {"child": "plain", "http": "note", "sse": "note"}
"""The servers, and the tool of each that must not run twice: nothing says that it may."""

CONVERSATIONS = 100
DURATION = 60.0
BETWEEN_KILLS = (2.0, 5.0)
CALL = 0.3
"""Seconds a call takes after it has happened, and before it is answered."""
BETWEEN_TURNS = (4.0, 8.0)
"""Seconds somebody takes to say the next thing."""
LONGEST_TURN = 40.0
"""Seconds: three calls side by side, each of which may wait for its server and then for its answer."""
TEMPORARY = 20.0
"""Seconds from the last kill."""


class Eager:
    """A model that calls a tool of every server, and then tells what they said."""

    async def complete(self, request: ModelRequest, emit: Emit) -> ModelReply:
        await trio.lowlevel.checkpoint()
        if request.results:
            return ModelReply("\n".join(result.content for result in request.results))
        return ModelReply(
            tool_calls=tuple(
                ToolCall(kind, f"mcp__{kind}__{tool}", {"text": f"{request.user} {kind}"})
                for kind, tool in KINDS.items()
            )
        )


@attrs.define
class HttpServer:
    """A server that is started again whenever it is killed."""

    kind: str
    ledger: Path
    port: int
    process: subprocess.Popen[bytes] = attrs.field(init=False)

    def start(self) -> None:
        argv = [sys.executable, "-S", str(SERVERS / "http_server.py"), str(self.port)]
        self.process = subprocess.Popen([*argv, str(self.ledger), str(CALL)])

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/{'sse' if self.kind == 'sse' else 'mcp'}"


@pytest.fixture
def https(tmp_path: Path) -> Iterator[dict[str, HttpServer]]:
    servers: dict[str, HttpServer] = {}
    for kind in ("http", "sse"):
        with socket.create_server(("127.0.0.1", 0)) as listener:
            port = listener.getsockname()[1]
        servers[kind] = HttpServer(kind, tmp_path / f"{kind}.ledger", port)
        servers[kind].start()
    yield servers
    for server in servers.values():
        server.kill()


def agent_file(folder: Path, https: dict[str, HttpServer]) -> Path:
    bounds = {"timeout": 10, "connect_timeout": 15}
    child = {
        "command": sys.executable,
        "args": ["-S", str(SERVERS / "echo_server.py")],
        "env": {"LEDGER": str(folder / "child.ledger"), "DELAY": str(CALL)},
    }
    servers = {"child": child | bounds} | {
        kind: {"url": server.url, "mode": "auto"} | bounds for kind, server in https.items()
    }
    file = {
        "name": "chaos",
        "llm": {"model": "test:eager"},
        "data_dir": str(folder / "data"),
        "tool_names": "prefixed",
        "mcp_servers": servers,
    }
    (folder / "agent.yaml").write_text(yaml.safe_dump(file))
    return folder / "agent.yaml"


async def talk(agent: Agent, name: str, until: float, said: list[str], answers: Counter[str]) -> None:
    """One conversation: no turn of it may hang, and each says how every call ended."""
    conversation: str | None = None
    turn = 0
    while trio.current_time() < until:
        turn += 1
        text = f"{name}-{turn}"
        said.append(text)
        with trio.fail_after(LONGEST_TURN):
            if conversation is None:
                done = await agent.start_conversation(text)
                conversation = done.conversation.id
            else:
                done = await agent.send(conversation, text)
        assert done.result is not None
        assert done.result.state == "finished", done.result
        for kind, line in zip(KINDS, done.result.response.splitlines(), strict=False):
            answers[f"{kind}: {meaning(line, f'{text} {kind}')}"] += 1
        with trio.move_on_at(until):
            await trio.sleep(random.uniform(*BETWEEN_TURNS))


def meaning(line: str, text: str) -> str:
    if line == text:
        return "done"
    for words in ("connection lost", "not connected", "timed out"):
        if words in line:
            return words
    return line


async def kill_http(server: HttpServer, until: float) -> None:
    while trio.current_time() < until:
        await trio.sleep(random.uniform(*BETWEEN_KILLS))
        server.kill()
        server.start()


async def kill_child(until: float) -> None:
    while trio.current_time() < until:
        await trio.sleep(random.uniform(*BETWEEN_KILLS))
        for process in psutil.Process().children():
            if "echo_server.py" in " ".join(process.cmdline()):
                os.kill(process.pid, signal.SIGKILL)


async def all_connected(agent: Agent) -> None:
    while any(server.state != "connected" for server in agent.health().servers):  # noqa: ASYNC110
        await trio.sleep(0.1)


def executed(folder: Path) -> Counter[str]:
    """The effects on the servers: the text of every call, which is unique."""
    child = [
        json.loads(line)["arguments"]["text"] for line in (folder / "child.ledger").read_text().splitlines()
    ]
    others = [
        line for kind in ("http", "sse") for line in (folder / f"{kind}.ledger").read_text().splitlines()
    ]
    return Counter(child + others)


@pytest.mark.soak
async def test_servers_are_killed_for_a_minute_and_nothing_hangs_or_happens_twice(
    tmp_path: Path, https: dict[str, HttpServer], capsys: pytest.CaptureFixture[str]
) -> None:
    faulthandler.cancel_dump_traceback_later()  # a minute is what it takes
    config = load_config(agent_file(tmp_path, https), own_providers={"test"})
    said: list[str] = []
    answers: Counter[str] = Counter()
    async with open_agent(config, open_model=lambda name, *, folder: Eager()) as agent:
        until = trio.current_time() + DURATION
        async with trio.open_nursery() as nursery:
            nursery.start_soon(kill_child, until)
            for server in https.values():
                nursery.start_soon(kill_http, server, until)
            for number in range(CONVERSATIONS):
                nursery.start_soon(talk, agent, f"c{number}", until, said, answers)
        with trio.fail_after(TEMPORARY):
            await all_connected(agent)
        after: Counter[str] = Counter()
        await talk(agent, "after", trio.current_time() + 0.001, said, after)
        assert after == {f"{kind}: done": 1 for kind in KINDS}
    with capsys.disabled():
        print(f"\n{len(said)} turns; " + ", ".join(f"{answers[key]} {key}" for key in sorted(answers)))
    did = executed(tmp_path)
    assert set(did.values()) == {1}
    assert {text.rpartition(" ")[0] for text in did} <= set(said)
    for kind in KINDS:
        done = answers[f"{kind}: done"] + 1
        assert (
            done
            <= sum(text.endswith(f" {kind}") for text in did)
            <= done + answers[f"{kind}: connection lost"]
        )
        assert answers[f"{kind}: done"] > CONVERSATIONS
        assert answers[f"{kind}: connection lost"] > 0
    assert {process.pid for process in psutil.Process().children()} == {
        server.process.pid for server in https.values()
    }
