"""Tool servers of other SDKs, used by a real agent as a command and, if the SDK can, over HTTP.

`testdata/neighbours` has the servers: each has a tool that reads, one that removes and one that fails.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import attrs

from tests.http_client import post
from tests.neighbours.processes import (
    BIN,
    BUILD,
    PROGRAMS,
    USING,
    Agent,
    free_port,
    fresh,
    limited,
    listens,
    python_with,
    run,
    running,
    script_with,
    serving,
)
from tests.waiting import until_true

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
    install: Callable[[], Sequence[str]]
    """Installs it, unless it is there. Returns its command."""
    serves_http: bool = True


def python(version: str) -> Sequence[str]:
    installed = python_with(f"python-{version}", f"mcp=={version}", PYDANTIC)
    return (installed, str(PROGRAMS / "python_server.py"))


def typescript() -> Sequence[str]:
    package = f"@modelcontextprotocol/sdk@{TYPESCRIPT}"
    return ("node", script_with(PROGRAMS / "typescript_server.mjs", package))


def go(folder: str, module: str) -> Sequence[str]:
    source = BUILD / folder
    with fresh(source) as needed:
        if needed:
            shutil.copytree(PROGRAMS / folder, source, dirs_exist_ok=True)
            for args in (
                ["mod", "init", folder],
                ["get", module],
                ["mod", "tidy"],
                ["build", "-p=1", "-o", "server", "."],
            ):
                run(["go", *args], source)
    return (str(source / "server"),)


NEIGHBOURS = (
    *(Neighbour(f"Python SDK {each}", partial(python, each), serves) for each, serves in PYTHON.items()),
    Neighbour(f"TypeScript SDK {TYPESCRIPT}", typescript),
    *(
        Neighbour(each.rpartition("/")[2].replace("@v", " "), partial(go, folder, each))
        for folder, each in GO.items()
    ),
)


def server_of(agent: Agent) -> dict[str, Any]:
    found: dict[str, Any] = agent.get("/health/ready")["mcp_servers"][0]
    return found


@contextmanager
def connected(folder: Path) -> Iterator[Agent]:
    """An agent that has tried to connect."""
    with serving(folder) as agent:
        until_true(lambda: server_of(agent)["state"] != "connecting")
        yield agent


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


COLUMNS = (
    "server",
    "transport",
    "mode found",
    "tools",
    "call",
    "error",
    "approval across a restart",
    "oddities",
)
HEAD = f"| {' | '.join(COLUMNS)} |\n{'|---' * len(COLUMNS)}|"


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
    with connected(folder) as agent:
        if server_of(agent)["state"] != "connected":
            row.oddities.append(json.dumps(server_of(agent)))
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
    with connected(folder) as agent:
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


def rows_of(neighbour: Neighbour) -> Iterator[Row]:
    command, *args = neighbour.install()
    folder = BUILD / "data" / re.sub(r"\W+", "-", neighbour.name)
    entry = {"command": command, "args": [*args, "stdio"]}
    with limited(USING):
        row = use(Row(neighbour.name, "stdio"), entry, folder / "stdio")
    yield row
    if not neighbour.serves_http:
        return
    port = free_port()
    silent = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    with limited(USING), ExitStack() as alive:

        def restart() -> None:
            alive.close()
            process = alive.enter_context(running([command, *args, "http", str(port)], **silent))
            until_true(lambda: listens(port) or process.poll() is not None)

        restart()
        entry = {"url": f"http://127.0.0.1:{port}/mcp"}
        row = use(Row(neighbour.name, "HTTP"), entry, folder / "http", restart)
    yield row
