"""Open an agent: its journal, its actors, and the open runs of the last process."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import trio

from ...config.sections.agent_config import AgentConfig
from ...config.sections.mcp import McpServerConfig
from ...runtime.clock import WallClock, system_clock
from ...runtime.context import Behaviour
from ...runtime.journal.errors import JournalError
from ...runtime.journal.lease import Lease, boot_clock
from ...runtime.journal.probe import JournalProbe
from ...runtime.journal.protocol import Journal
from ...runtime.journal.store_address import LEASE
from ...runtime.stores.open_journal import open_journal
from ..common.fleet import this_process, written
from ..log.writer.observer import Observer, Observers
from ..mcp.server import mcp_server
from ..models.model_actors import OpenModel
from ..notify.notifier import OpenChannel
from ..notify.webhook import Webhook
from ..servers.server_status import ServerStatus
from ..tools.tool import ServerMessage
from ..workers import startup
from ..workers.recorder import Recorder
from .agent import Agent
from .sender import Sender
from .supervisor import OpenRemoteAgent, OpenServer, Setup, open_cast

if TYPE_CHECKING:
    import httpx2

    from ..mcp.wire.sdk import ServerObject

LOG_VERSION = 1
"""The version of the events and commands that this program writes. It is raised when an older program could
not continue a conversation with them; then older members leave such conversations to newer ones."""
TEARDOWN = 1.0
"""Seconds at the end of the grace period, at most a quarter of it, for what follows the cancellation of work
that has not finished: the processes of tool servers are stopped, and the journal is closed."""
LEAVE = 1.0
"""Seconds for telling the journal that this process has stopped."""


@asynccontextmanager
@trio.lowlevel.enable_ki_protection
async def open_agent(
    config: AgentConfig,
    *,
    journal: Journal | str | None = None,
    lease: float = LEASE,
    advertise_url: str | None = None,
    wall: WallClock = system_clock,
    servers: Mapping[str, ServerObject] | None = None,
    open_server: OpenServer | None = None,
    open_remote_agent: OpenRemoteAgent | None = None,
    open_model: OpenModel | None = None,
    open_channel: OpenChannel = Webhook.of,
    model_transport: httpx2.AsyncBaseTransport | None = None,
    record: str | os.PathLike[str] | None = None,
    observers: Sequence[Observer] = (),
    lease_clock: Callable[[], float] = boot_clock,
) -> AsyncIterator[Agent]:
    """Run an agent for the length of the block. At its end, it has `config.shutdown_grace` seconds to stop.

    * `journal` stores the conversations: a ``postgresql://`` URL, which other processes may use, too. The
      default is an SQLite database in `config.data_dir`.
    * `lease`: seconds after which other processes take over the conversations of this one, if it dies.
    * `advertise_url` is the URL at which the other processes on the journal reach the server of this one.
    * `servers` are MCP servers that run in this process, by their name in the agent: `mcp.server.MCPServer`
      or `mcp.server.Server` objects. An entry in the agent file is optional and has `brought_by: program`.
    * `open_server`, `open_remote_agent`, `open_model` and `open_channel` replace an implementation. If
      `open_model` raises `UnknownProvider`, the provider in the configuration is used.
    * `model_transport` replaces the network for requests to providers.
    * `record` is a folder. For each conversation, a `script:` file with the replies of its models is written
      there, to replay them later.
    * `observers` receive what the actors do, for metrics and traces.
    * `lease_clock` returns seconds, also of the time in which the machine is suspended. The agent judges its
      lease at a journal of several processes by it.

    Raises:
        StartError: a model or a tool server is unavailable.
        ConfigError: a rule with `ask` or `deny` names an unknown tool, or `servers` do not match the file.
        JournalBusy, JournalTooNew: the data directory is in use by another process, or of a newer version.
        JournalBroken: a commit failed while the agent was running, so the process must stop.
    """
    _check(config)
    config, open_server = _with_program_servers(config, servers or {}, open_server)
    observer = Observers(observers) if observers else Observer()
    about = written(this_process(wall(), advertise_url))
    address = config.data_dir if journal is None else journal
    async with _journal(address, lease, about, wall, observer, config.journal_cache_bytes) as store:
        setup = Setup(
            config=config,
            journal=store,
            lease=Lease(store, lease_clock),
            wall=wall,
            observer=observer,
            open_server=open_server,
            open_remote_agent=open_remote_agent,
            open_model=open_model,
            open_channel=open_channel,
            model_transport=model_transport,
        )
        async with _run(setup, None if record is None else Path(record)) as agent:
            yield agent


def _check(config: object) -> None:
    """Refuse frequent mistakes of programs with a sentence, before they become errors of other libraries."""
    if not isinstance(config, AgentConfig):
        found = type(config).__name__
        raise TypeError(
            f"open_agent() takes an AgentConfig, such as load_config(FILE), not a value of type {found}"
        )
    if not trio.lowlevel.in_trio_run():
        raise RuntimeError(
            "open_agent() needs the loop of trio: on asyncio write `async with for_asyncio(open_agent(...))`,"
            " in a program without a loop `with blocking(open_agent(...))`"
        )


def _with_program_servers(
    config: AgentConfig, servers: Mapping[str, ServerObject], open_server: OpenServer | None
) -> tuple[AgentConfig, OpenServer | None]:
    """Return the configuration with entries for the program's servers, and a function that opens any server.

    Raises:
        ConfigError: `servers` do not match the file.
    """
    must_be_given = open_server is None and any(each.is_brought for each in config.enabled_servers)
    if not servers and not must_be_given:
        return config, open_server
    from ..mcp.transports.in_process import with_servers

    max_stored_bytes = config.tools.max_stored_bytes

    def open_any(
        config: McpServerConfig, *, report: Callable[[ServerStatus], None]
    ) -> Behaviour[ServerMessage]:
        brought = servers.get(config.name)
        if brought is None and open_server is not None:
            return open_server(config, report=report)
        return mcp_server(config, report=report, max_stored_bytes=max_stored_bytes, brought=brought)

    return with_servers(config, servers, all_of_them=open_server is None), open_any


def working_grace(grace: float) -> float:
    """Return the seconds of a grace period in which work may finish."""
    return grace - min(TEARDOWN, grace / 4)


@asynccontextmanager
@trio.lowlevel.enable_ki_protection
async def _journal(
    address: Journal | str | Path,
    lease: float,
    about: str,
    wall: WallClock,
    observer: Observer,
    cache: int,
) -> AsyncIterator[Journal]:
    """The journal at an address, or the one that the program gives. At the end of the block, the process
    leaves it."""
    opened = (
        open_journal(
            address,
            lease=lease,
            version=LOG_VERSION,
            about=about,
            wall=wall,
            on_commit=observer.committed,
            cache=cache,
        )
        if isinstance(address, Path | str)
        else nullcontext(address)
    )
    async with opened as store:
        try:
            yield store
        finally:
            # Otherwise other members wait for the end of the lease.
            with trio.move_on_after(LEAVE, shield=True), suppress(JournalError):
                await store.leave()


@asynccontextmanager
@trio.lowlevel.enable_ki_protection
async def _run(setup: Setup, record: Path | None) -> AsyncIterator[Agent]:
    journal, started = setup.journal, setup.wall()
    with trio.CancelScope() as shutdown:
        async with open_cast(setup) as cast, trio.open_nursery() as nursery:
            recorder = Recorder(record, journal, cast.services.logs.bus) if record is not None else None
            if recorder is not None:
                await nursery.start(recorder.run)
            nursery.start_soon(startup.resume_all, cast.services)
            probe = JournalProbe(journal, nursery)
            nursery.start_soon(probe.error)  # for its log
            agent = Agent(setup.config, cast, journal, Sender(cast.services), journal, started, probe=probe)
            try:
                yield agent
            except BaseException:
                agent.draining.set()  # in-flight calls may still end, but no further step starts
                raise
            grace = working_grace(setup.config.shutdown_grace)
            end = trio.current_time() + grace
            if not agent.draining.is_set():
                await agent.drain(grace)
            if recorder is not None:
                await recorder.finish()
            shutdown.deadline = end  # the tear-down gets the rest of the grace period
            nursery.cancel_scope.cancel()
