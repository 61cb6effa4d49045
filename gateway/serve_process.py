"""The process of `stopgo serve`: signals, shutdown under one deadline, exit code.

The first signal drains: running turns and open requests have `shutdown_grace` seconds, except for the last
second, in which the rest is cancelled. The second signal, or any signal during startup, cancels everything.
After a cancellation, cleanup still runs, such as stopping the processes of tool servers. If the process still
runs `LAST_RESORT` seconds after the grace, a thread ends it: what was acknowledged is in the journal.

The addresses are bound after the agent has opened, so that the mistakes in its file are reported even if
another process has the port.
"""

from __future__ import annotations

import gc
import logging
import os
import signal
import socket
import sqlite3
import threading
import time
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path

import attrs
import trio

from ..actors.agent.agent import Agent
from ..actors.agent.open_agent import open_agent, working_grace
from ..actors.common.errors import Misconfigured, StartError, sentences
from ..actors.gate.unapproved import summary
from ..config.sections.agent_config import AgentConfig
from ..config.text.errors import ConfigError
from ..runtime.clock import ProcessClock
from ..runtime.errors import RestartLimitReached
from ..runtime.journal.errors import JournalError
from ..runtime.journal.sqlite.files import announce
from ..runtime.journal.store_address import LEASE
from .a2a.push import open_push
from .app import make_app
from .auth.open_authenticator import open_authenticator
from .fleet.delta_peers import exchange_deltas
from .http.http_server import BindError, HttpServer, bind, open_server
from .http.unix_socket import unix_socket
from .log_lines import LogFormat, configure
from .signals import distinct, receive_stops
from .telemetry.observation import open_observation

log = logging.getLogger(__name__)

LAST_RESORT = 2.0
"""Seconds after the grace in which a process that hangs during shutdown is ended."""
NAP = 0.25
"""Seconds of each sleep while waiting for that."""
ANSWERING = 0.1
"""Fraction of the grace reserved for answering open requests with `shutting_down`."""
YOUNG_OBJECTS = 10_000
"""Allocations between two runs of the garbage collector; a turn allocates some hundred objects, all
short-lived."""


@attrs.frozen
class Serving:
    """The options of `stopgo serve`, besides the agent file."""

    host: str
    port: int
    metrics: tuple[str, int] | None = None
    """The host and port to serve metrics at; None: no metrics."""
    record: Path | None = None
    """The folder for records of the models' replies."""
    log_format: LogFormat = "text"
    log_level: str = "info"
    journal: str | None = None
    """The URL of the journal in PostgreSQL; None: the journal is in the data directory."""
    lease: float = LEASE
    advertise_url: str | None = None
    """The URL at which other processes on the journal reach this one; None: they get no deltas of it."""
    any_port: str = "`stopgo serve --port 0`"
    """What a person enters to serve at a free port."""
    strict: bool = False
    """Whether to refuse an agent whose harmful tools run without approval, unless a rule says so."""
    traces: str | None = None
    """The URL to export traces to; empty: that of the environment; None: no traces."""


def run_process(config: AgentConfig, serving: Serving) -> tuple[int, tuple[str, ...]]:
    """Serve until a signal arrives. Returns the exit code, and sentences that say why the agent failed."""
    configure(serving.log_format, serving.log_level)
    failures: tuple[str, ...] = ()
    code = 1
    try:
        code = trio.run(_serve, config, serving, clock=ProcessClock())
    except* (ConfigError, Misconfigured) as group:
        failures, code = tuple(sentences(group)), 2  # as for every other mistake in the file
    except* (StartError, BindError, RestartLimitReached, JournalError, OSError, sqlite3.Error) as group:
        failures = tuple(sentences(group))
    return code, failures


async def _serve(config: AgentConfig, serving: Serving) -> int:
    with receive_stops() as signals:
        async with trio.open_nursery() as nursery:
            shutdown = Shutdown(config.shutdown_grace, nursery.cancel_scope)
            nursery.start_soon(shutdown.listen, signals)
            async with (
                open_observation(
                    config, metrics=serving.metrics is not None, traces=serving.traces
                ) as observation,
                open_agent(
                    config,
                    journal=serving.journal,
                    lease=serving.lease,
                    advertise_url=serving.advertise_url,
                    record=serving.record,
                    observers=observation.runs,
                ) as agent,
                # Next after the agent, before a run is resumed: with a taken port, nothing happens.
                _bound(agent, serving) as (sockets, scraped),
                open_push(agent) as push,
                open_authenticator(agent) as authenticator,
                exchange_deltas(agent, serving.advertise_url) as deltas,
                open_server(
                    make_app(
                        agent,
                        push=push,
                        authenticator=authenticator,
                        observers=observation.requests,
                        deltas=deltas,
                    ),
                    sockets,
                    config.server.max_connections,
                    config.server.keep_alive,
                ) as server,
                observation.serve_metrics(agent, server, scraped) as metrics,
            ):
                _freeze_memory()
                if serving.journal is None:
                    announce(config.data_dir, f"listening on {server.url}")
                if metrics is not None:
                    log.info("metrics at %s/metrics", metrics.url)
                _announce(config, server, serving.log_format)
                await shutdown.asked()
                await _drain(agent, server, working_grace(config.shutdown_grace))
            nursery.cancel_scope.cancel()
    return shutdown.code


@asynccontextmanager
async def _bound(
    agent: Agent, serving: Serving
) -> AsyncIterator[tuple[tuple[socket.socket, ...], tuple[socket.socket, ...]]]:
    """Bind the addresses of the agent and of the metrics, without a checkpoint.

    Raises:
        BindError
        Misconfigured: with `strict`, if a tool that may do harm runs without approval, and no rule says so.
    """
    config = agent.config
    surprising = [each for each in agent.unapproved if not each.by_rule] if serving.strict else []
    if (found := summary(config, surprising)) is not None:
        raise Misconfigured(f"--strict: {found}")
    with ExitStack() as stack:
        sockets = bind(serving.host, serving.port, any_port=serving.any_port)
        for sock in sockets:
            stack.enter_context(sock)
        scraped = () if serving.metrics is None else bind(*serving.metrics, any_port="`--metrics 0`")
        for sock in scraped:
            stack.enter_context(sock)
        if config.auth and config.auth.proxy and config.auth.proxy.socket:
            sockets = (*sockets, stack.enter_context(unix_socket(config.auth.proxy.socket)))
        yield sockets, scraped


def _freeze_memory() -> None:
    """Exempt the objects that startup has loaded from garbage collection. They are hundreds of thousands,
    live as long as the process, and would be traversed again and again."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG_OBJECTS)


def _announce(config: AgentConfig, server: HttpServer, log_format: LogFormat) -> None:
    servers = [f"MCP Server [{each.name}]: {each.as_written}" for each in config.enabled_servers]
    lines = [f"listening on {server.url}", *(servers or ["No MCP servers configured"])]
    if log_format == "json":  # then every line of stdout is an object
        for line in lines:
            log.info("%s", line)
    else:
        # In one write, because many readers close the pipe after the first line.
        print("\n".join([*lines, ""]), end="")


async def _drain(agent: Agent, server: HttpServer, grace: float) -> None:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(agent.drain, grace * (1 - ANSWERING))
        nursery.start_soon(server.drain)


@attrs.define(eq=False)
class Shutdown:
    """The reaction to signals: the first starts the drain, the second cancels.

    Before the agent serves there is nothing to drain, so the first signal cancels.
    """

    grace: float
    scope: trio.CancelScope
    """Contains the agent and the server."""
    code: int = 0
    """The exit code."""
    _serving: bool = False
    _asked: trio.Event = attrs.field(factory=trio.Event)

    async def asked(self) -> None:
        """Wait for the first signal. From then on the whole shutdown has `grace` seconds."""
        self._serving = True
        await self._asked.wait()

    async def listen(self, signals: AsyncIterator[int]) -> None:
        async for number in distinct(signals):
            name = signal.Signals(number).name
            if self._serving and not self._asked.is_set():
                log.info("%s: stopping within %gs, a second signal stops at once", name, self.grace)
                self._asked.set()
                self.scope.deadline = trio.current_time() + working_grace(self.grace)
                _exit_at_last(self.grace + LAST_RESORT, 1)
            else:
                log.info("%s: stopping at once", name)
                self.code = 128 + number
                self.scope.cancel()
                _exit_at_last(self.grace + LAST_RESORT, self.code)


def _exit_at_last(seconds: float, code: int) -> None:
    # In a thread, because the event loop may hang; a daemon, so that it does not keep the process alive.
    threading.Thread(target=_exit_after, args=(seconds, code), daemon=True).start()


def _exit_after(seconds: float, code: int) -> None:
    # In short sleeps, so that time in which the process is suspended (SIGSTOP) does not count.
    while seconds > 0:
        time.sleep(min(seconds, NAP))
        seconds -= NAP
    os._exit(code)
