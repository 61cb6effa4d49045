"""Opens an agent: its journal, its actors, and the runs that the last process left open."""

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
    """Run an agent for the length of the block; leaving it drains within `config.shutdown_grace` seconds.

    `servers` are MCP servers that the program brings, by the names they have in the agent: an
    `mcp.server.MCPServer` or `mcp.server.Server` each, which runs in this process. Their entries in the file,
    if they have any, say `brought_by: program`.
    `journal` is where conversations are kept; by default an SQLite database in `config.data_dir`.
    `open_server`, `open_remote_agent` and `open_model` let a program bring tools, agents and models of its
    own; a model that `open_model` refuses as `UnknownProvider` is had from the provider that the config
    names. `model_transport` carries the requests to providers in place of the network. Into the folder
    `record` goes, for each conversation, a `script:` file of what its models said: a model that says the same
    again.

    Raises:
        StartError: a model or a tool server cannot be had.
        ConfigError: a rule that asks or denies names a tool that no server has, or `servers` do not fit.
        JournalBusy, JournalTooNew: the data directory belongs to another process, or version.
        JournalBroken: while running; what is on disk is not known, and the process has to stop.
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
    """What opens the servers of the file and those that the program brings. Raises `ConfigError`."""
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
                agent.draining.set()  # what is in flight still ends, and nothing further begins
                raise
            end = trio.current_time() + config.shutdown_grace
            if not agent.draining.is_set():
                await agent.drain(config.shutdown_grace)
            if recorder is not None:
                await recorder.finish()
            shutdown.deadline = end  # the tear-down has what is left of the grace
            nursery.cancel_scope.cancel()
