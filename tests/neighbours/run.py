"""Use tool servers of other SDKs with a real agent, and print a table of what was done and seen.

    make neighbours                       all servers
    make neighbours ARGS='python mcp-go'  those whose names have one of the words

It installs the SDKs below `build/neighbours`, from PyPI, npm and the Go modules, with node and go. Each
server is used as a command and, if its SDK can, over HTTP. `testdata/neighbours` has the servers: each has
a tool that reads, one that removes and one that fails. Exit code 1 if something differs from what the
product promises.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import venv
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import attrs

from tests.http_client import get, post
from tests.waiting import until_true

ROOT = Path(__file__).parents[2]
SERVERS = ROOT / "testdata" / "neighbours"
BUILD = ROOT / "build" / "neighbours"
BIN = Path(sys.executable).parent
PYTHON = {"1.2.1": False, "1.4.1": False, "1.8.1": True}
"""Releases of the Python SDK, and whether they serve Streamable HTTP."""
PYDANTIC = "pydantic<2.11"
"""These releases import a private name of pydantic that 2.11 removed."""
TYPESCRIPT = "1.32.2"
GO = {
    "go_sdk": "github.com/modelcontextprotocol/go-sdk@v1.8.0",
    "mcp_go": "github.com/mark3labs/mcp-go@v1.2.1",
}
TOOLS = ["read_broken_note", "read_note", "remove_note"]
CALLS = [
    {"when": {"user": f"^{tool}$", "call": 1}, "tool_calls": [{"name": tool, "arguments": {"name": "first"}}]}
    for tool in TOOLS
]
REPLIES = {"replies": [*CALLS, {"when": {"tool_result": "(?s)(?P<result>.*)"}, "text": "${result}"}]}


@attrs.frozen
class Neighbour:
    name: str
    argv: tuple[str, ...]
    serves_http: bool = True


def install(words: Sequence[str]) -> Iterator[Neighbour]:
    """Install the chosen SDKs, unless they are there; yield their servers."""

    def wanted(name: str) -> bool:
        return not words or any(word.lower() in name.lower() for word in words)

    for version, serves_http in PYTHON.items():
        python = BUILD / f"python-{version}" / "bin" / "python"
        if wanted(name := f"Python SDK {version}"):
            if not python.exists():
                venv.create(python.parents[1], with_pip=True)
                run([str(python), "-m", "pip", "install", "-q", f"mcp=={version}", PYDANTIC], BUILD)
            yield Neighbour(name, (str(python), str(SERVERS / "python_server.py")), serves_http)
    if wanted(name := f"TypeScript SDK {TYPESCRIPT}"):
        script = BUILD / "typescript" / "typescript_server.mjs"
        script.parent.mkdir(exist_ok=True)
        shutil.copy(SERVERS / script.name, script)
        if not (script.parent / "node_modules").exists():
            package = f"@modelcontextprotocol/sdk@{TYPESCRIPT}"
            run(
                ["npm", "install", "--no-audit", "--no-fund", "--ignore-scripts", "--prefix", ".", package],
                script.parent,
            )
        yield Neighbour(name, ("node", str(script)))
    for folder, module in GO.items():
        if wanted(name := module.rpartition("/")[2].replace("@v", " ")):
            source = BUILD / folder
            if not (source / "server").exists():
                shutil.copytree(SERVERS / folder, source, dirs_exist_ok=True)
                for args in (
                    ["mod", "init", folder],
                    ["get", module],
                    ["mod", "tidy"],
                    ["build", "-o", "server", "."],
                ):
                    run(["go", *args], source)
            yield Neighbour(name, (str(source / "server"),))


def run(argv: Sequence[str], folder: Path) -> None:
    subprocess.run(argv, cwd=folder, check=True, stdout=subprocess.DEVNULL)


@contextmanager
def over_http(argv: Sequence[str], port: int) -> Iterator[None]:
    silent = subprocess.DEVNULL
    with subprocess.Popen([*argv, "http", str(port)], stdout=silent, stderr=silent) as process:
        try:
            yield
        finally:
            process.kill()


@attrs.define
class Agent:
    """A `stopgo serve`, and requests to it."""

    folder: Path
    process: subprocess.Popen[str] = attrs.field(init=False)
    lines: list[str] = attrs.field(factory=list)
    _url: str = ""

    def __enter__(self) -> Agent:
        argv = [str(BIN / "stopgo"), "serve", "--config", "agent.yaml", "--port", "0", "--data-dir", "data"]
        self.process = subprocess.Popen(
            argv, cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        threading.Thread(target=self._read, daemon=True).start()
        until_true(lambda: bool(self._url) or self.process.poll() is not None)
        until_true(lambda: self.server()["state"] != "connecting")
        return self

    def _read(self) -> None:
        for line in self.process.stdout or ():
            self.lines.append(line)
            if found := re.search(r'listening on (http://[^\s"]+)', line):
                self._url = found[1]

    def __exit__(self, *_: object) -> None:
        self.process.send_signal(signal.SIGTERM)
        self.process.wait()

    def get(self, path: str) -> Any:
        return get(self._url + path).json()

    def post(self, path: str, body: Mapping[str, Any]) -> Any:
        return post(self._url + path, json=body).json()

    def server(self) -> dict[str, Any]:
        found: dict[str, Any] = self.get("/health/ready")["mcp_servers"][0]
        return found


@attrs.define
class Row:
    name: str
    transport: str
    mode: str = ""
    tools: str = ""
    call: str = ""
    error: str = ""
    approval: str = ""
    oddities: list[str] = attrs.field(factory=list)
    failed: bool = False

    def shown(self) -> str:
        cells = (self.name, self.transport, self.mode, self.tools, self.call, self.error, self.approval)
        return f"| {' | '.join(cells)} | {'; '.join(self.oddities) or '-'} |"


HEAD = "| server | transport | mode found | tools | call | error | approval across a restart | oddities |"


def use(row: Row, entry: Mapping[str, Any], folder: Path, restart: Callable[[], None] | None = None) -> Row:
    """Read, fail, and remove with a restart of the agent (and of a server over HTTP) before the decision."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    (folder / "replies.yaml").write_text(json.dumps(REPLIES))
    servers = [{"name": "notes", "connect_timeout": 60, "mode": "auto", **entry}]
    asks = {"unannotated": "ask"}
    config = {"llm": {"model": "script:replies.yaml"}, "approval": asks, "mcp_servers": servers}
    (folder / "agent.yaml").write_text(json.dumps(config))
    row.mode = mode_of(folder)
    if restart is not None:
        row.oddities += ["the end of one session ends all"] * is_broken(entry["url"])
        restart()
    with Agent(folder) as agent:
        if agent.server()["state"] != "connected":
            row.oddities.append(json.dumps(agent.server()))
            row.failed = True
            return row
        names = sorted(tool["name"] for tool in agent.get("/tools")["tools"])
        row.tools = f"{len(names)}"
        row.failed |= names != TOOLS
        row.call, asked = said(agent, "read_note")
        row.oddities += ["no hints, so reading asks"] * asked
        row.error, _ = said(agent, "read_broken_note")
        turn = agent.post("/conversations", {"message": "remove_note"})
        uuid, id = turn["result"]["approval"]["uuid"], turn["conversation"]["id"]
    if restart is not None:
        restart()
    with Agent(folder) as agent:
        turn = agent.post(f"/approvals/{uuid}", {"approved": True})
        row.approval = turn["result"]["response"]
        row.failed |= agent.get(f"/conversations/{id}")["conversation"]["status"] != "active"
        row.failed |= "Traceback" in "".join(agent.lines)
    row.failed |= "the text of first" not in row.call or "first is broken" not in row.error
    row.failed |= "removed first" not in row.approval
    return row


def mode_of(folder: Path) -> str:
    """The protocol that `stopgo mcp test` names, with an empty data directory."""
    argv = [str(BIN / "stopgo"), "mcp", "test", "notes", "--config", "agent.yaml"]
    text = subprocess.run(argv, cwd=folder, capture_output=True, text=True, check=False).stdout
    found = re.search(r"protocol (\S+ \(\w+\))", text)
    return found[1] if found else text[:80]


def is_broken(url: str) -> bool:
    """Whether the server answers every new session with a failure."""
    hello = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {
            "protocolVersion": "2025-06-18",
            "capabilities": {},
            "clientInfo": {"name": "n", "version": "1"},
        },
    }
    accept = {"accept": "application/json, text/event-stream"}
    return post(url, json=hello, headers=accept, follow_redirects=True).status_code >= 500


def said(agent: Agent, tool: str) -> tuple[str, bool]:
    """The answer to a call, and whether a person was asked first."""
    turn = agent.post("/conversations", {"message": tool})
    if asked := bool(turn["result"].get("approval")):
        turn = agent.post(f"/approvals/{turn['result']['approval']['uuid']}", {"approved": True})
    return turn["result"]["response"].replace("\n", " ").replace("|", "\\|"), asked


def use_both(neighbour: Neighbour) -> Iterator[Row]:
    command, *args = neighbour.argv
    folder = BUILD / "data" / re.sub(r"\W+", "-", neighbour.name)
    yield use(Row(neighbour.name, "stdio"), {"command": command, "args": [*args, "stdio"]}, folder / "stdio")
    if not neighbour.serves_http:
        return
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with ExitStack() as running:

        def restart() -> None:
            running.close()
            running.enter_context(over_http(neighbour.argv, port))

        restart()
        entry = {"url": f"http://127.0.0.1:{port}/mcp"}
        yield use(Row(neighbour.name, "HTTP"), entry, folder / "http", restart)


def main(words: Sequence[str]) -> int:
    BUILD.mkdir(parents=True, exist_ok=True)
    print(HEAD + "\n" + re.sub(r"[^|]+", "---", HEAD))
    failed = False
    for neighbour in install(words):
        for row in use_both(neighbour):
            print(row.shown() + " **FAILED**" * row.failed, flush=True)
            failed |= row.failed
    return int(failed)


if __name__ == "__main__":
    os.environ.setdefault("GOFLAGS", "-p=1")
    sys.exit(main(sys.argv[1:]))
