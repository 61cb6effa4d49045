"""Observation of a served agent: metrics and traces, as the options of `stopgo serve` ask for them.

Their libraries belong to extras, so they are imported only here, when they are needed.
"""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING

import attrs

from ...actors.agent.agent import Agent
from ...actors.log.writer.observer import Observer
from ...config.sections.agent_config import AgentConfig
from ..http.http_server import HttpServer
from ..http.request_observer import RequestObserver

if TYPE_CHECKING:
    from .metrics import Metrics


@attrs.define
class Observation:
    runs: list[Observer] = attrs.field(factory=list)
    requests: list[RequestObserver] = attrs.field(factory=list)
    _metrics: Metrics | None = None

    @asynccontextmanager
    async def serve_metrics(
        self, agent: Agent, server: HttpServer, sockets: Sequence[socket.socket]
    ) -> AsyncIterator[HttpServer | None]:
        """Serve the metrics, if there are any. Raises `BindError`."""
        if self._metrics is None:
            yield None
            return
        from .scrape import serve_metrics

        async with serve_metrics(self._metrics, agent, server, sockets) as listener:
            yield listener

    def add_metrics(self) -> None:
        from .metrics import Metrics

        self._metrics = Metrics()
        self.runs.append(self._metrics)
        self.requests.append(self._metrics)


@asynccontextmanager
async def open_observation(
    config: AgentConfig, *, metrics: bool, traces: str | None
) -> AsyncIterator[Observation]:
    """Begin to observe an agent that is about to be opened.

    `traces` is the URL to export traces to; empty: that of the environment; None: no traces. Raises
    `StartError` if the traces cannot be exported.
    """
    observation = Observation()
    async with AsyncExitStack() as stack:
        if traces is not None:
            from .tracing import open_tracing

            of_runs, of_requests = await stack.enter_async_context(open_tracing(config, traces or None))
            observation.runs.append(of_runs)
            observation.requests.append(of_requests)
        if metrics:
            observation.add_metrics()
        yield observation
