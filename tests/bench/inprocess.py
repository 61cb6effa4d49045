"""An agent of this process: a script for a model, and a tool that is a function."""

from __future__ import annotations

import gc
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, assert_never

import yaml

from stopgo.actors.agent.agent import Agent
from stopgo.actors.agent.open_agent import open_agent
from stopgo.actors.servers.server_status import ServerStatus
from stopgo.actors.tools.tool import Authenticate, CallTool, Hints, ListTools, ServerMessage, Tool, ToolResult
from stopgo.config.load import load_config
from stopgo.config.sections.agent_config import AgentConfig
from stopgo.config.sections.mcp import McpServerConfig
from stopgo.runtime.context import Behaviour, Context
from stopgo.runtime.journal.sqlite.sqlite_journal import SqliteJournal, open_sqlite

SCHEMA = {"type": "object", "properties": {"text": {"type": "string"}}}
ECHO = Tool("echo", "Give the text back", SCHEMA, "echo", hints=Hints(read_only=True))
"""Runs unasked, and may be sent again."""
ERASE = Tool("erase", "Erase what is named", SCHEMA, "echo", hints=Hints(destructive=True))
"""Asks first."""


def llm(name: str, **more: Any) -> dict[str, Any]:
    return {"type": "llm", "name": name, "prompt": f"You are {name}.", **more}


def group(kind: str, name: str, *agents: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    return {"type": kind, "name": name, "agents": list(agents), **more}


def agent_config(folder: Path, replies: list[dict[str, Any]], **settings: Any) -> AgentConfig:
    (folder / "script.yaml").write_text(yaml.safe_dump({"replies": replies}))
    file = {
        "llm": {"model": "script:script.yaml"},
        "mcp_servers": [{"name": "echo", "command": "none"}],
        **settings,
    }
    path = folder / "agent.yaml"
    path.write_text(yaml.safe_dump(file))
    return load_config(path)


def echo_server(config: McpServerConfig, *, report: Any) -> Behaviour[ServerMessage]:
    tools = (ECHO, ERASE)

    async def handle(message: ServerMessage) -> object:
        match message:
            case Authenticate():
                return None
            case ListTools():
                return tools
            case CallTool(arguments=arguments):
                return ToolResult(str(arguments.get("text", "")))
            case _:
                assert_never(message)

    async def behaviour(ctx: Context[ServerMessage]) -> None:
        report(ServerStatus(config.name, "connected", tools=tools))
        await ctx.serve(handle, concurrency=config.max_concurrency)

    return behaviour


@asynccontextmanager
async def life(config: AgentConfig, data: Path) -> AsyncIterator[tuple[Agent, SqliteJournal]]:
    """The agent from one start to one stop, over a journal on disk."""
    async with open_sqlite(data) as journal:
        async with open_agent(config, journal=journal, open_server=echo_server) as agent:
            yield agent, journal


@contextmanager
def no_collection() -> Iterator[None]:
    """Measure without the garbage that others have left."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
