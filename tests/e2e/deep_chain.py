"""Four agents in a row: `a` has `b` do everything, that has `c`, and that `d`, which has tools and asks.

A message says what is wanted of the last one:

    SERVER TOOL TEXT   one call: `quick wipe lamp`, `asker ask lamp`, `guarded look lamp`
    later wipe TEXT    one call of the first server, whose question expires when `expire` is called
    both LEFT RIGHT    two calls of it in parallel branches
    twice ...          the first agent delegates this in a loop, two times
    beside ...         the first agent delegates in two parallel branches

What `slow` does lasts until the server is killed.
"""

from __future__ import annotations

import sqlite3
import sys
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.e2e.chains import (
    SCRIPTED,
    SERVERS,
    TELL,
    Chain,
    Json,
    begin_and_leave,
    done,
    echo_server,
    passing_on,
    start_chain,
    task_of,
    written,
)
from tests.waiting import LIMIT

if TYPE_CHECKING:
    from tests.e2e.conftest import Serve, Server

NAMES = ("b", "c", "d")
"""Each agent's name for the next one."""
ASKER = [str(SERVERS / "asking_server.py")]
TOOLS = {
    "quick": ("wipe", "bump"),
    "slow": ("wipe",),
    "asker": ("ask", "resolve"),
    "guarded": ("look", "wipe"),
}


def _calling(server: str, tool: str, words: str, **when: Any) -> Json:
    call = {"name": f"mcp__{server}__{tool}", "arguments": {"text": "${text}"}}
    return {"when": {"call": 1, "user": words, **when}, "tool_calls": [call]}


REPLIES = [
    _calling("quick", "wipe", r"both (?P<text>\w+)", node="left"),
    _calling("quick", "wipe", r"both \w+ (?P<text>\w+)", node="right"),
    _calling("quick", "wipe", "(later|soon) wipe (?P<text>.*)"),
    *(
        _calling(server, tool, f"{server} {tool} (?P<text>.*)")
        for server, tools in TOOLS.items()
        for tool in tools
    ),
    TELL,
]


def first() -> Json:
    def onward(name: str, **prompt: str) -> Json:
        return {"type": "a2a", "name": name, "agent": "b", **prompt}

    def node(type: str, name: str, agents: list[Json], **settings: Any) -> Json:
        return {"type": type, "name": name, "agents": agents, **settings}

    routes = [
        {"when": {"user_message": {"matches": f"^{word} "}}, "agent": word} for word in ("twice", "beside")
    ]
    twice = node("loop", "twice", [onward("again")], max_iterations=2)
    branches = [onward(name, prompt=f"quick wipe {name}") for name in ("one", "other")]
    beside = node("parallel", "beside", branches)
    agents = [twice, beside, onward("onward")]
    return passing_on("b", agent=node("router", "root", agents, routes=routes, default="onward"))


def last(**settings: Any) -> Json:
    def llm(name: str, *servers: str, **settings: Any) -> Json:
        return {"type": "llm", "name": name, "mcp_servers": list(servers), **settings}

    both = {
        "type": "parallel",
        "name": "both",
        "agents": [llm("left", "quick"), llm("right", "quick")],
        "approval": {"in_parallel": "ask"},
    }
    # Apart from the others: a model that has its tools cannot be asked without a token.
    guarded = llm("guarded", "guarded")
    later = llm("later", "quick", approval={"expires_after": 3600})
    soon = llm("soon", "quick", approval={"expires_after": 0.1})
    agents = [both, guarded, later, soon, llm("alone", "quick", "slow", "asker")]
    routes = [
        {"when": {"user_message": {"matches": f"^{word} "}}, "agent": word}
        for word in ("both", "guarded", "later", "soon")
    ]
    root = {"type": "router", "name": "root", "agents": agents, "routes": routes}
    asker = {"name": "asker", "command": sys.executable, "args": ASKER, "mode": "legacy"}
    return {
        "name": "d",
        "llm": SCRIPTED,
        "tool_names": "prefixed",
        "mcp_servers": [
            echo_server("quick"),
            echo_server("slow", DELAY="600"),
            asker,
            {"name": "guarded", "url": "${GUARDED_URL}", "max_concurrency": 8},
        ],
        "agent": {**root, "default": "alone"},
        **settings,
    }


def start_four(serve: Serve, folder: Path, ledger: Path, guarded: str) -> Chain:
    """`guarded` is a tool server that wants tokens."""
    configs = [
        written(folder / "a", first()),
        written(folder / "b", passing_on("c")),
        written(folder / "c", passing_on("d")),
        written(folder / "d", last(), REPLIES),
    ]
    return start_chain(serve, folder, configs, {"LEDGER": str(ledger), "GUARDED_URL": guarded})


class Ledger:
    """The calls of the tools since the test began."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._before = len(done(path))

    @property
    def new(self) -> list[str]:
        return done(self.path)[self._before :]


def way_down(four: Chain, asked: Json, at: Server) -> list[tuple[Server, Json]]:
    """The conversations that the question came through, each with its agent, down to the last."""
    found: list[tuple[Server, Json]] = []
    for server in four.agents[four.agents.index(at) + 1 :]:
        conversation = task_of(server, asked)
        found.append((server, conversation))
        # Of those with several questions, the one about the same call.
        same = [each for each in conversation["approvals"] if each["tool_args"] == asked["tool_args"]]
        asked = same[-1]
    return found


def original(four: Chain, asked: Json, at: Server) -> Json:
    """The same question in the agent that asks."""
    _, conversation = way_down(four, asked, at)[-1]
    found: list[Json] = conversation["approvals"]
    return next(each for each in found if each["kind"] == "tool" and each["tool_name"] == asked["tool_name"])


def expire(server: Server, approval: Json) -> None:
    """Let the time of a pending approval of the last agent be over.

    The agent looks for what has expired when another question does, whose time was short.
    """
    with closing(sqlite3.connect(server.data_dir / "journal.db", timeout=LIMIT)) as db, db:
        db.execute("UPDATE question SET expires = 1 WHERE id = ?", [approval["uuid"]])
    begin_and_leave(server, "soon wipe nothing")
