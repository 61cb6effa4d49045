"""Opening an agent: its journal, its actors, and the open runs of the last process."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

import trio

from ..config.agent_config import AgentConfig
from ..config.mcp import McpServerConfig
from ..runtime.clock import WallClock, system_clock
from ..runtime.context import Behaviour
from ..runtime.journal.protocol import Journal
from ..runtime.journal.sqlite import open_sqlite
from .agent import Agent
from .conversation import startup
from .conversation.recorder import Recorder
from .conversation.sender import Sender
from .mcp.server import mcp_server
from .models.model_actors import OpenModel
from .supervisor import Cast, OpenRemoteAgent, OpenServer, open_cast
from .tools.server_status import ServerStatus
from .tools.tool import ServerMessage

if TYPE_CHECKING:
    import httpx2

    from .mcp.sdk import ServerObject


@asynccontextmanager
@trio.lowlevel.enable_ki_protection
async def open_agent(
    config: AgentConfig,
    *,
    journal: Journal | None = None,
    wall: WallClock = system_clock,
    servers: Mapping[str, ServerObject] | None = None,
    open_server: OpenServer | None = None,
    open_remote_agent: OpenRemoteAgent | None = None,
    open_model: OpenModel | None = None,
    model_transport: httpx2.AsyncBaseTransport | None = None,
    record: str | os.PathLike[str] | None = None,
) -> AsyncIterator[Agent]:
    """Run an agent for the length of the block. Leaving the block stops it within `config.shutdown_grace`
    seconds.

    `servers` are MCP servers that run in this process, by their name in the agent: `mcp.server.MCPServer` or
    `mcp.server.Server` objects. An entry in the agent file is optional and has `brought_by: program`.
    `journal` stores the conversations; the default is an SQLite database in `config.data_dir`. `open_server`,
    `open_remote_agent` and `open_model` replace the implementation of tool servers, other agents and models.
    If `open_model` raises `UnknownProvider`, the provider in the configuration is used. `model_transport`
    replaces the network for requests to providers. `record` is a folder in which a `script:` file is written
    for each conversation, with the replies of its models, to replay them later.

    Raises:
        StartError: a model or a tool server is unavailable.
        ConfigError: a rule with `ask` or `deny` names an unknown tool, or `servers` do not match the file.
        JournalBusy, JournalTooNew: the data directory is in use by another process, or of a newer version.
        JournalBroken: while the agent runs: a commit failed, so the process must stop.
    """
    config, open_server = _bring(config, servers or {}, open_server)
    kept = open_sqlite(config.data_dir, wall=wall) if journal is None else nullcontext(journal)
    async with kept as store:
        opens = (open_server, open_remote_agent, open_model)
        cast = open_cast(config, store, wall, *opens, model_transport)
        folder = None if record is None else Path(record)
        async with _run(config, store, cast, folder, wall()) as agent:
            yield agent


def _bring(
    config: AgentConfig, servers: Mapping[str, ServerObject], open_server: OpenServer | None
) -> tuple[AgentConfig, OpenServer | None]:
    """Return the configuration with the servers of the program, and a function that opens all servers. Raises
    `ConfigError`."""
    left_to_us = open_server is None and any(each.is_brought for each in config.enabled_servers)
    if not servers and not left_to_us:
        return config, open_server
    from .mcp.in_process import with_servers

    most = config.tools.max_stored_bytes

    def opens(config: McpServerConfig, *, report: Callable[[ServerStatus], None]) -> Behaviour[ServerMessage]:
        brought = servers.get(config.name)
        if brought is None and open_server is not None:
            return open_server(config, report=report)
        return mcp_server(config, report=report, max_stored_bytes=most, brought=brought)

    return with_servers(config, servers, all_of_them=open_server is None), opens


@asynccontextmanager
@trio.lowlevel.enable_ki_protection
async def _run(
    config: AgentConfig,
    journal: Journal,
    opened: AbstractAsyncContextManager[Cast],
    record: Path | None,
    started: float,
) -> AsyncIterator[Agent]:
    with trio.CancelScope() as shutdown:
        async with opened as cast, trio.open_nursery() as nursery:
            recorder = Recorder(record, journal, cast.services.bus) if record is not None else None
            if recorder is not None:
                await nursery.start(recorder.run)
            nursery.start_soon(startup.resume_all, cast.services)
            agent = Agent(config, cast, journal, Sender(cast.services), journal, started)
            try:
                yield agent
            except BaseException:
                agent.draining.set()  # calls in flight still end, but no further step starts
                raise
            end = trio.current_time() + config.shutdown_grace
            if not agent.draining.is_set():
                await agent.drain(config.shutdown_grace)
            if recorder is not None:
                await recorder.finish()
            shutdown.deadline = end  # the tear-down gets the rest of the grace period
            nursery.cancel_scope.cancel()
