"""The listener for Prometheus: `GET /metrics`, and the timer that measures the event loop."""

from __future__ import annotations

import socket
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import attrs
import trio
from prometheus_client.exposition import choose_encoder

from ...actors.agent.agent import Agent
from ..http.host_and_origin import allowed_by
from ..http.http_server import HttpServer, open_server
from ..http.quart_app import Application
from ..http.request import HttpRequest
from ..http.responses import Reply
from .metrics import Metrics

MAX_SCRAPERS = 16
"""Maximum number of connections to this listener."""
LAG_INTERVAL = 0.5
"""Seconds between two measurements of the event loop."""


@asynccontextmanager
async def serve_metrics(
    metrics: Metrics, agent: Agent, server: HttpServer, sockets: Sequence[socket.socket]
) -> AsyncIterator[HttpServer]:
    """Serve the metrics of an agent for the length of the block. `server` is the one of the agent's routes.

    Names of hosts are allowed as for the agent (`server.allowed_hosts`). Raises `BindError`.
    """
    app = Application(__name__, allowed_by(agent.config.server))
    app.add("/metrics", "metrics", _Scrape(metrics, agent, server).serve, ["GET"])
    async with open_server(app, sockets, MAX_SCRAPERS) as listener, trio.open_nursery() as nursery:
        nursery.start_soon(_watch_loop, metrics)
        yield listener
        nursery.cancel_scope.cancel()


@attrs.frozen
class _Scrape:
    metrics: Metrics
    agent: Agent
    server: HttpServer

    async def serve(self, request: HttpRequest) -> Reply:
        load = await self.agent.load()
        health, halt = await self.agent.readiness(), self.agent.halt_state()
        self.metrics.set(load, health, halt, self.server.connections, time.time())
        encode, content_type = choose_encoder(request.headers.get("Accept", ""))
        return Reply(encode(self.metrics.registry), content_type=content_type)


async def _watch_loop(metrics: Metrics) -> None:
    while True:
        due = trio.current_time() + LAG_INTERVAL
        await trio.sleep_until(due)
        metrics.lagged(max(0.0, trio.current_time() - due))
