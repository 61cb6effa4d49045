"""Opens an agent: its journal, its actors, and the runs that the last process left open."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

import trio

from ..config.agent_config import AgentConfig
from ..runtime.clock import WallClock, system_clock
from ..runtime.journal.protocol import Journal
from ..runtime.journal.sqlite import open_sqlite
from .agent import Agent
from .conversation import startup
from .conversation.recorder import Recorder
from .conversation.sender import Sender
from .models.model_actors import OpenModel
from .supervisor import Cast, OpenRemoteAgent, OpenServer, open_cast

if TYPE_CHECKING:
    import httpx2


@asynccontextmanager
@trio.lowlevel.enable_ki_protection
async def open_agent(
    config: AgentConfig,
    *,
    journal: Journal | None = None,
    wall: WallClock = system_clock,
    open_server: OpenServer | None = None,
    open_remote_agent: OpenRemoteAgent | None = None,
    open_model: OpenModel | None = None,
    model_transport: httpx2.AsyncBaseTransport | None = None,
    record: Path | None = None,
) -> AsyncIterator[Agent]:
    """Run an agent for the length of the block; leaving it drains within `config.shutdown_grace` seconds.

    `journal` is where conversations are kept; by default an SQLite database in `config.data_dir`.
    `open_server`, `open_remote_agent` and `open_model` let a program bring tools, agents and models of its
    own; a model that `open_model` refuses as `UnknownProvider` is had from the provider that the config
    names. `model_transport` carries the requests to providers in place of the network. Into the folder
    `record` goes, for each conversation, a `script:` file of what its models said: a model that says the same
    again.

    Raises:
        StartError: a model or a tool server cannot be had.
        ConfigError: a rule that asks or denies names a tool that no server has.
        JournalBusy, JournalTooNew: the data directory belongs to another process, or version.
        JournalBroken: while running; what is on disk is not known, and the process has to stop.
    """
    kept = open_sqlite(config.data_dir, wall=wall) if journal is None else nullcontext(journal)
    async with kept as store:
        opens = (open_server, open_remote_agent, open_model)
        cast = open_cast(config, store, wall, *opens, model_transport)
        async with _run(config, store, cast, record, wall()) as agent:
            yield agent


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
