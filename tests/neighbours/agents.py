"""Agents of other makes: ours calls them, and they call ours.

`testdata/neighbours/agents` has a program for each make, with an agent and a client of A2A. Their agents have
a tool that needs an approval, if the make has approvals, and a model of `tests/providers`, whose replies are
`reply`. Ours adds a resource after an approval.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sqlite3
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import attrs

from tests.canary import KEY
from tests.neighbours.processes import (
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
from tests.providers.servers.talk import Heard, Said, SaidCall
from tests.providers.servers.threaded import servers_in_a_thread
from tests.waiting import until_true

RESOURCES = {
    "name": "resources",
    "command": "stopgo",
    "args": ["mcp-resources", "--db", "${data_dir}/resources.db"],
}
ADD = {"name": "resources_add", "arguments": {"name": "${name}", "value": 1}}
REPLIES = [
    {"when": {"user": r"^add (?P<name>\S+)$", "call": 1}, "tool_calls": [ADD]},
    {"when": {"tool_result": '"id"'}, "text": "Added."},
    {"when": {"last_tool": "resources_add"}, "text": "Then not."},
    {"when": {"user": "(?P<said>.*)"}, "text": "echo: ${said}"},
]
OURS = {"name": "keeper", "llm": {"model": "script:replies.yaml"}, "mcp_servers": [RESOURCES]}


@attrs.frozen
class Make:
    name: str
    program: str
    packages: tuple[str, ...]
    approves: bool = True
    """Whether its tools can wait for a person who answers over A2A."""
    path: str = ""
    """Of the agent, in its URL."""
    client_path: str = ""
    """What its client wants after the origin of our agent."""
    words: tuple[str, str] = ("yes", "no")
    """What a person says there; `ID` is the id that the question shows."""
    serves: bool = True
    asks: bool = True
    clone: str = ""
    """The repository of a make that no registry has."""
    npm: tuple[str, ...] = ()
    """Packages of npm, for a program for node."""


MAKES = (
    Make("google-adk 2.13.0", "adk", ("google-adk[a2a]==2.13.0", "uvicorn")),
    Make(
        "strands-agents 1.62.0",
        "strands_agents",
        ("strands-agents[a2a,openai]==1.62.0",),
        words=("yes ID", "no ID"),  # its client keeps neither the task nor the context
    ),
    Make(
        "agno 3.1.10",
        "agno_os",
        ("agno[a2a,openai]==3.1.10", "fastapi", "uvicorn", "sqlalchemy", "aiosqlite", "python-multipart"),
        approves=False,
        path="/a2a/agents/notes",
        client_path="/a2a",
    ),
    Make(
        "agent-framework 1.23.0",
        "microsoft",
        (
            "agent-framework-core==1.23.0",
            "agent-framework-a2a==1.0.0b261022",
            "agent-framework-openai",
            "a2a-sdk[http-server]",
            "uvicorn",
        ),
        approves=False,
    ),
    Make(
        "fasta2a 2.1.1 (pydantic-ai 2.68.0)",
        "fasta2a_agent",
        ("fasta2a[pydantic-ai]==2.1.1", "pydantic-ai-slim[openai]==2.68.0", "uvicorn", "httpx"),
        approves=False,
        asks=False,  # its client sends methods of 0.3, and reads answers of 1.0
    ),
    Make(
        "kagent-adk 0.10.4",
        "kagent_adk",
        # pip does not take these two by itself, because all their releases are betas.
        (
            "kagent-adk==0.10.4",
            "a2a-sdk[http-server]<1",
            "opentelemetry-instrumentation-fastapi==0.59b0",
            "opentelemetry-instrumentation-httpx==0.59b0",
        ),
    ),
    Make(
        "A2A inspector",
        "inspector",
        (
            "a2a-sdk[grpc,http-server]==0.3.26",
            "python-socketio",
            "aiohttp",
            "jinja2",
            "bleach",
            "fastapi",
            "uvicorn",
            "httpx",
        ),
        serves=False,
        clone="https://github.com/a2aproject/a2a-inspector",
    ),
    Make(
        "CopilotKit runtime 1.75.0 with @ag-ui/client 1.0.0 (AG-UI)",
        "copilotkit",
        (),
        serves=False,
        npm=("@copilotkit/runtime@1.75.0", "@copilotkit/core@1.75.0", "@ag-ui/client@1.0.0"),
    ),
    Make("crewai 1.15.30", "crew", ("crewai[a2a]==1.15.30", "uvicorn"), approves=False),
)


@attrs.define
class Row:
    make: str
    peer: dict[str, str] = attrs.field(factory=dict)
    client: dict[str, str] = attrs.field(factory=dict)
    failed: list[str] = attrs.field(factory=list)

    def expect(self, seen: dict[str, str], what: str, text: str, pattern: str) -> None:
        seen[what] = text
        if not re.search(pattern, text):
            self.failed.append(f"{what}: no {pattern!r}")

    def shown(self) -> str:
        cells = [self.make, told(self.peer), told(self.client), "; ".join(self.failed) or "-"]
        return f"| {' | '.join(' '.join(each.split()).replace('|', '/') for each in cells)} |"


def told(seen: Mapping[str, str]) -> str:
    return "; ".join(f"{name}: {text}" for name, text in seen.items()) or "-"


HEAD = "| make | we call it | it calls us | failed |\n|---|---|---|---|"


def reply(heard: Heard) -> Said:
    """The reply of the model of an agent of another make."""
    if heard.results:
        return Said(f"The tool says: {heard.results[-1].content}")
    if any(tool.name == "peer" for tool in heard.tools):
        return Said(calls=(SaidCall("peer", {"request": heard.user}),))
    found = re.search(r"^remove (\w+)", heard.user)
    if found and any(tool.name == "remove_note" for tool in heard.tools):
        return Said(calls=(SaidCall("remove_note", {"name": found[1]}),))
    return Said(f"echo: {heard.user}")


def write(folder: Path, config: Mapping[str, Any]) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    (folder / "replies.yaml").write_text(json.dumps({"replies": REPLIES}))
    (folder / "agent.yaml").write_text(json.dumps(config))


def rows_of(make: Make) -> Iterator[Row]:
    row = Row(make.name)
    program = str(PROGRAMS / "agents" / f"{make.program}.py")
    if make.npm:
        argv = ["node", script_with(PROGRAMS / "agents" / f"{make.program}.mjs", *make.npm)]
    else:
        argv = [python_with(f"agent-{make.program}", *make.packages), program]
    source = BUILD / f"source-{make.program}"
    if make.clone:
        with fresh(source) as needed:
            if needed:
                run(["git", "clone", "--quiet", "--depth", "1", make.clone, "clone"], source)
    folder = BUILD / "data" / make.program
    with limited(USING), servers_in_a_thread("openai_compatible") as servers:
        model = servers["openai_compatible"]
        model.answered = reply
        ledger = folder / "ledger"
        env = {
            **{name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")},
            "OPENAI_BASE_URL": model.base_url,
            "OPENAI_API_KEY": KEY,
            "LEDGER": str(ledger),
            "HOME": str(folder),
            "PORT": str(free_port()),
            "SOURCE": str(source / "clone"),
            "OTEL_SDK_DISABLED": "true",
            "CREWAI_DISABLE_TELEMETRY": "true",
            "COPILOTKIT_TELEMETRY_DISABLED": "true",
        }
        if make.serves:
            call_it(make, row, argv, env, folder)
        if make.asks:
            be_called(make, row, argv, env, folder)
        row.failed += [f"the model refused: {each}" for each in model.refusals]
    yield row


def call_it(make: Make, row: Row, argv: list[str], env: Mapping[str, str], folder: Path) -> None:
    port = free_port()
    url = f"http://127.0.0.1:{port}{make.path}"
    node = {"type": "a2a", "name": "onward", "agent": "peer"}
    llm = {"model": "offline:rules"}
    write(folder, {"name": "caller", "llm": llm, "agent": node, "a2a": [{"name": "peer", "url": url}]})
    with (folder / "peer.log").open("w") as log:
        out = {"stdout": log, "stderr": log}
        with running([*argv, "serve", str(port)], env=env, cwd=folder, **out) as process:
            until_true(lambda: listens(port) or process.poll() is not None)
            with serving(folder) as agent:
                row.expect(
                    row.peer,
                    "answer",
                    said(agent.post("/conversations", {"message": "hello"})),
                    "echo: hello",
                )
                if not make.approves:
                    text = said(agent.post("/conversations", {"message": "remove first"}))
                    row.expect(row.peer, "call", text, "removed first")
                if make.approves:
                    row.expect(row.peer, "approval", decided(agent, "remove first", True), "removed first")
                    row.expect(row.peer, "rejection", decided(agent, "remove second", False), "")
                if "Traceback" in "".join(agent.lines):
                    row.failed.append("a traceback")
    called = Path(env["LEDGER"]).read_text().split() if Path(env["LEDGER"]).exists() else []
    if called != ["first"]:
        row.failed.append(f"called with {called}")


def said(turn: Any) -> str:
    text: str = turn["result"]["response"]
    return text if turn["result"]["state"] == "finished" else f"{turn['result']['state']}: {text}"


def decided(agent: Agent, message: str, approved: bool) -> str:
    turn = agent.post("/conversations", {"message": message})
    approval = turn["result"].get("approval")
    if not approval:
        return f"not asked: {said(turn)}"
    return said(agent.post(f"/approvals/{approval['uuid']}", {"approved": approved}))


def be_called(make: Make, row: Row, argv: list[str], env: Mapping[str, str], folder: Path) -> None:
    folder = folder / "ours"
    write(folder, OURS)
    with serving(folder) as agent:
        for names, words in (
            ({"answer": 0, "approval": 2}, ["hello", "add lamp", make.words[0]]),
            (
                {"rejection": 1},
                ["add vase", make.words[1]],
            ),
        ):
            texts = ask([*argv, "ask", agent.url + make.client_path, *words], env, folder)
            for name, place in names.items():
                pattern = {"answer": "echo: hello", "approval": "Added", "rejection": "Then not"}[name]
                row.expect(row.client, name, texts[place] if len(texts) > place else f"{texts}", pattern)
        if "Traceback" in "".join(agent.lines):
            row.failed.append("a traceback")
    database = sqlite3.connect(folder / "data" / "resources.db")
    if (rows := database.execute("SELECT name FROM resources").fetchall()) != [("lamp",)]:
        row.failed.append(f"added {rows}")
    database.close()


def ask(argv: list[str], env: Mapping[str, str], folder: Path) -> list[str]:
    with (
        (folder / "client.log").open("a") as log,
        running(argv, env=env, cwd=folder, stdout=subprocess.PIPE, stderr=log) as process,
    ):
        assert process.stdout is not None
        return [json.loads(line)["text"] for line in process.stdout if line.startswith('{"text"')]
