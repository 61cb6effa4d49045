"""The process that serves one agent: signals, shutdown under one deadline, exit code."""

from __future__ import annotations

import gc
import logging
import os
import signal
import sqlite3
import threading
import time
from collections.abc import AsyncIterator
from contextlib import ExitStack
from pathlib import Path

import attrs
import trio

from ..actors.agent import Agent
from ..actors.common.errors import Misconfigured, StartError, sentences
from ..actors.open_agent import open_agent
from ..config.agent_config import AgentConfig
from ..config.errors import ConfigError
from ..runtime.clock import ProcessClock
from ..runtime.errors import RestartLimitReached
from ..runtime.journal.errors import JournalError
from ..runtime.journal.files import announce
from .a2a.push import open_push
from .app import make_app
from .http.http_server import BindError, Server, bind, open_server
from .log_lines import configure
from .signals import until_the_end, wishes

log = logging.getLogger(__name__)

LAST_RESORT = 15.0
"""Seconds after which a process that should have ended is ended, whatever it hangs in."""
NAP = 1.0
"""How many of these seconds are slept at a time."""
ANSWERING = 0.1
"""Part of the grace that is kept for telling those who still wait that we stop."""
YOUNG_OBJECTS = 10_000
"""New objects before the garbage collector looks at them; a turn makes some hundred that all die with it."""


def run_process(
    config: AgentConfig, host: str, port: int, record: Path | None = None
) -> tuple[int, tuple[str, ...]]:
    """Serve until a signal comes; the exit code, and for people why the agent could not go on."""
    configure()
    failures: tuple[str, ...] = ()
    code = 1
    try:
        code = trio.run(_serve, config, host, port, record, clock=ProcessClock())
    except* (ConfigError, Misconfigured) as group:
        failures, code = tuple(sentences(group)), 2  # as for every other mistake in the file
    except* (StartError, BindError, RestartLimitReached, JournalError, OSError, sqlite3.Error) as group:
        failures = tuple(sentences(group))
    return code, failures


async def _serve(config: AgentConfig, host: str, port: int, record: Path | None) -> int:
    with ExitStack() as stack, until_the_end() as signals:
        sockets = bind(host, port)
        for sock in sockets:
            stack.enter_context(sock)
        async with trio.open_nursery() as nursery:
            shutdown = Shutdown(config.shutdown_grace, nursery.cancel_scope)
            nursery.start_soon(shutdown.listen, signals)
            async with (
                open_agent(config, record=record) as agent,
                open_push(agent) as push,
                open_server(make_app(agent, push=push), sockets, config.server.max_connections) as server,
            ):
                _settle_memory()
                announce(config.data_dir, f"listening on {server.url}")
                _announce(config, server)
                await shutdown.asked()
                await _drain(agent, server, config.shutdown_grace)
            nursery.cancel_scope.cancel()
    return shutdown.code


def _settle_memory() -> None:
    """Keep the garbage collector from what the start has loaded: hundreds of thousands of objects that live
    as long as the process, and that it would walk through again and again."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG_OBJECTS)


def _announce(config: AgentConfig, server: Server) -> None:
    servers = [f"MCP Server [{each.name}]: {each.as_written}" for each in config.enabled_servers]
    # In one piece: many a reader has what it wants with the first line, and leaves.
    lines = [f"listening on {server.url}", *(servers or ["No MCP servers configured"])]
    print("\n".join([*lines, ""]), end="")


async def _drain(agent: Agent, server: Server, grace: float) -> None:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(agent.drain, grace * (1 - ANSWERING))
        nursery.start_soon(server.drain)


@attrs.define(eq=False)
class Shutdown:
    """What signals mean: the first stops in an orderly way within the grace, the second at once.

    Until the agent serves there is nothing to finish, so then the first already stops at once. Stopping at
    once is cancellation: what has to be cleaned up, such as processes of tool servers, still is.
    """

    grace: float
    scope: trio.CancelScope
    """Of everything that serves."""
    code: int = 0
    """The exit code."""
    _serving: bool = False
    _asked: trio.Event = attrs.field(factory=trio.Event)

    async def asked(self) -> None:
        """Returns when an orderly shutdown has to begin; from then on all of it has `grace` seconds."""
        self._serving = True
        await self._asked.wait()

    async def listen(self, signals: AsyncIterator[int]) -> None:
        async for number in wishes(signals):
            name = signal.Signals(number).name
            if self._serving and not self._asked.is_set():
                log.info("%s: stopping within %gs, a second signal stops at once", name, self.grace)
                self._asked.set()
                self.scope.deadline = trio.current_time() + self.grace
                _exit_at_last(self.grace + LAST_RESORT, 1)
            else:
                log.info("%s: stopping at once", name)
                self.code = 128 + number
                self.scope.cancel()
                _exit_at_last(LAST_RESORT, self.code)


def _exit_at_last(seconds: float, code: int) -> None:
    # In a thread, for the loop may hang from here on. A daemon: it never keeps us alive.
    threading.Thread(target=_exit_after, args=(seconds, code), daemon=True).start()


def _exit_after(seconds: float, code: int) -> None:
    # Nap by nap: the time in which the process is stopped counts no more for this than for the loop.
    while seconds > 0:
        time.sleep(min(seconds, NAP))
        seconds -= NAP
    os._exit(code)
