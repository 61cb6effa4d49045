"""The process of `stopgo web`: serves until a signal arrives."""

from __future__ import annotations

import logging
import signal
from collections.abc import AsyncIterator
from contextlib import ExitStack

import trio

from ...actors.common.errors import sentences
from ...actors.common.tls import TlsUnusable
from ...config.web_config import WebConfig
from ..http.http_server import BindError, bind, open_server
from ..log_lines import LogFormat, configure
from ..signals import distinct, receive_stops
from .agent_address import AgentAddress
from .proxy_app import make_proxy
from .upstream import open_upstream

log = logging.getLogger(__name__)

GRACE = 3.0
"""Seconds for open requests to finish after the first signal. Turns continue in the agent."""


def run_web(
    config: WebConfig, host: str, port: int, log_format: LogFormat = "text", log_level: str = "info"
) -> tuple[int, tuple[str, ...]]:
    """Serve until a signal arrives. Returns the exit code, and sentences that say why serving failed."""
    configure(log_format, log_level)
    failures: tuple[str, ...] = ()
    code = 1
    try:
        code = trio.run(_serve, config, host, port)
    except* (BindError, TlsUnusable, OSError) as group:
        failures = tuple(sentences(group))
    return code, failures


async def _serve(config: WebConfig, host: str, port: int) -> int:
    address = AgentAddress.of(config.agent_url)
    with ExitStack() as stack, receive_stops() as signals:
        sockets = bind(host, port, any_port="`stopgo web --port 0`")
        for sock in sockets:
            stack.enter_context(sock)
        stops = distinct(signals)
        second: list[int] = []
        async with (
            trio.open_nursery() as nursery,
            open_upstream(address) as upstream,
            open_server(make_proxy(config, upstream), sockets) as server,
        ):
            print(f"listening on {server.url}\nagent at {address.url}", flush=True)
            number = await anext(stops)
            log.info("%s: stopping within %gs, a second signal stops at once", _name(number), GRACE)
            nursery.start_soon(_cancel_at_second, stops, nursery.cancel_scope, second)
            upstream.event_streams.stop()
            with trio.move_on_after(GRACE):
                await server.drain()
            nursery.cancel_scope.cancel()
    return 128 + second[0] if second else 0


async def _cancel_at_second(stops: AsyncIterator[int], scope: trio.CancelScope, second: list[int]) -> None:
    second.append(await anext(stops))
    log.info("%s: stopping at once", _name(second[0]))
    scope.cancel()


def _name(number: int) -> str:
    return signal.Signals(number).name
