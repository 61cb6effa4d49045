"""Ten thousand runs that wait for people, each in two branches at once: all of them come to their end.

Real time and a real disk. The test prints the costs of a run.
"""

from __future__ import annotations

import faulthandler
import json
import random
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import assert_never

import pytest
import trio

from stopgo.actors.agent.agent import Agent
from stopgo.actors.agent.open_agent import open_agent
from stopgo.actors.models.messages.messages import Emit, ModelReply, ModelRequest, ToolCall
from stopgo.actors.servers.server_status import ServerStatus
from stopgo.actors.tools.tool import Authenticate, CallTool, Hints, ListTools, ServerMessage, Tool, ToolResult
from stopgo.config.checks.tree import tree_from_stored
from stopgo.config.sections.agent_config import AgentConfig
from stopgo.config.sections.approval import ApprovalConfig
from stopgo.config.sections.mcp import McpServerConfig
from stopgo.runtime.context import Behaviour, Context
from stopgo.runtime.journal.sqlite.sqlite_journal import open_sqlite

from .crowd import all_pending, resident

RUNS = 10_000
AT_ONCE = 100
BRANCHES = ("left", "right")
SEED = 20261121

WIPE = Tool("wipe", "Wipe what is named", {"type": "object"}, "tools", hints=Hints(destructive=True))


def config() -> AgentConfig:
    leaves = [
        {"type": "llm", "name": name, "prompt": f"You are {name}.", "model": "test:model"}
        for name in BRANCHES
    ]
    tree = {"type": "parallel", "name": "both", "agents": leaves}
    return AgentConfig(
        agent=tree_from_stored(tree),
        has_tree=True,
        prompt="Be careful.",
        mcp_servers=(McpServerConfig(name="tools", command="in-process"),),
        approval=ApprovalConfig(in_parallel="ask"),
        stored_tree=tree,
    )


class Obedient:
    """A model that wipes what it is told to, once for each branch."""

    async def complete(self, request: ModelRequest, emit: Emit) -> ModelReply:
        await trio.lowlevel.checkpoint()
        if request.results:
            return ModelReply(f"{request.node} is done")
        return ModelReply(tool_calls=(ToolCall("1", "wipe", {"name": f"{request.user} {request.node}"}),))


class Tools:
    """Remembers what it has wiped, whoever serves it."""

    def __init__(self) -> None:
        self.wiped: Counter[str] = Counter()

    def open(
        self, config: McpServerConfig, *, report: Callable[[ServerStatus], None]
    ) -> Behaviour[ServerMessage]:
        async def handle(message: ServerMessage) -> object:
            match message:
                case Authenticate():
                    return None
                case ListTools():
                    return (WIPE,)
                case CallTool(arguments=arguments):
                    self.wiped[arguments["name"]] += 1
                    return ToolResult("wiped")
                case _:
                    assert_never(message)

        async def behaviour(ctx: Context[ServerMessage]) -> None:
            report(ServerStatus(config.name, "connected", tools=(WIPE,)))
            await ctx.serve(handle, concurrency=config.max_concurrency)

        return behaviour


@asynccontextmanager
async def life(tools: Tools, folder: Path) -> AsyncIterator[Agent]:
    async with open_sqlite(folder) as journal:
        async with open_agent(
            config(),
            journal=journal,
            open_server=tools.open,
            open_model=lambda name, *, folder: Obedient(),
        ) as agent:
            yield agent


class Phase:
    """The cost of one part of the story."""

    def __init__(self, name: str, folder: Path) -> None:
        self.name = name
        self._folder = folder
        self._began = time.perf_counter()
        self._cpu = time.process_time()
        self._memory = resident()

    def line(self) -> str:
        """For each run."""
        took, cpu = time.perf_counter() - self._began, time.process_time() - self._cpu
        disk = sum(file.stat().st_size for file in self._folder.iterdir())
        figures = {
            "phase": self.name,
            "runs": RUNS,
            "ms": round(took / RUNS * 1000, 2),
            "cpu_ms": round(cpu / RUNS * 1000, 2),
            "memory_bytes": round((resident() - self._memory) / RUNS),
            "disk_bytes": round(disk / RUNS),
        }
        return json.dumps(figures)


async def side_by_side(work: Sequence[str], do: Callable[[str], Awaitable[None]]) -> None:
    """Do all of it, so many at a time."""
    left = list(work)

    async def worker() -> None:
        while left:
            await do(left.pop())

    async with trio.open_nursery() as nursery:
        for _ in range(AT_ONCE):
            nursery.start_soon(worker)


async def nobody_is_awake(agent: Agent) -> None:
    while agent._cast.conversations.active:  # noqa: ASYNC110 - nothing tells, and it takes a second or two
        await trio.sleep(0.1)


@pytest.mark.soak
async def test_ten_thousand_runs_wait_in_two_branches_and_all_finish(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    faulthandler.cancel_dump_traceback_later()  # it takes minutes, and that is no sign of a hang
    tools, folder = Tools(), tmp_path / "data"
    folder.mkdir()
    names = [f"run-{number}" for number in range(RUNS)]
    lines: list[str] = []

    async with life(tools, folder) as agent:
        phase = Phase("start and park", folder)

        async def start(name: str) -> None:
            turn = await agent.start_conversation(name)
            assert turn.result is not None
            assert turn.result.state == "waiting"

        await side_by_side(names, start)
        await nobody_is_awake(agent)
        lines.append(phase.line())
    assert not tools.wiped

    ends: Counter[str] = Counter()
    async with life(tools, folder) as agent:
        phase = Phase("decide and finish", folder)
        pending = await all_pending(agent)
        assert len(pending) == len(BRANCHES) * RUNS
        random.Random(SEED).shuffle(pending)

        async def approve(approval: str) -> None:
            turn = await agent.decide(approval, {"approved": True})
            assert turn.result is not None
            ends[turn.result.state] += 1

        await side_by_side(pending, approve)
        await nobody_is_awake(agent)
        lines.append(phase.line())
        tally = (await agent.conversations(limit=1)).summary
        assert await all_pending(agent) == []
    with capsys.disabled():
        print("", *lines, sep="\n")
    assert tally == {"active": RUNS}
    assert tools.wiped == Counter(f"{name} {branch}" for name in names for branch in BRANCHES)
    assert ends["finished"] >= RUNS
