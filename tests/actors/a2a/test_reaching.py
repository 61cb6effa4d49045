"""Faults of the environment on the way to another agent are named as such."""

from __future__ import annotations

import logging

import pytest
import trio

from stopgo.actors.a2a.agent_link import AgentLink, RequestNotSent
from stopgo.config.sections.a2a import RemoteAgentConfig


async def refusing(stream: trio.SocketStream) -> None:
    async with stream:
        await stream.receive_some()
        await stream.send_all(b"HTTP/1.1 407 Proxy Authentication Required\r\ncontent-length: 0\r\n\r\n")


@pytest.mark.parametrize(
    ("variable", "value", "why"),
    [
        ("http_proxy", "PROXY", "the proxy of the environment answers HTTP 407"),
        ("http_proxy", "carrier-pigeon://coop", "a proxy in the environment has no valid address"),
        ("SSL_CERT_FILE", "/nowhere/ca.pem", "SSL_CERT_FILE"),
    ],
)
async def test_fault_of_the_environment_is_named(
    nursery: trio.Nursery, monkeypatch: pytest.MonkeyPatch, variable: str, value: str, why: str
) -> None:
    (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    nursery.start_soon(trio.serve_listeners, refusing, [listener])
    proxy = f"http://127.0.0.1:{listener.socket.getsockname()[1]}"
    monkeypatch.setenv(variable, proxy if value == "PROXY" else value)
    link = AgentLink(
        RemoteAgentConfig(name="peer", url="http://peer.test"), lambda _: None, logging.getLogger("test")
    )
    with pytest.raises(RequestNotSent, match=why):
        await link.contact()
    await link.aclose()
