"""The routes by which other nodes get the deltas of this one (`delta_frames.py`). They are for nodes only, so
the API does not describe them."""

from __future__ import annotations

import hmac
from collections.abc import AsyncGenerator
from typing import cast

import attrs

from ...actors.agent import Agent
from ...actors.conversation.delta_exchange import Wanted
from ...actors.log.deltas import AnyDelta
from ..http import sse
from ..http.errors import RequestError, unauthenticated
from ..http.event_stream import StreamBody, stream_reply
from ..http.quart_app import Application
from ..http.request import Request
from ..http.responses import Reply, nothing
from .delta_frames import PATH, encode, wanted_from


@attrs.define
class _Peer:
    """A node that reads the deltas of this one."""

    wanted: Wanted = attrs.field(factory=Wanted)


@attrs.define(eq=False)
class DeltaSource:
    _agent: Agent
    _key: str = attrs.field(repr=False)
    """The key of the fleet."""
    host: str | None
    """The host by which other nodes name this one."""
    _peers: dict[str, _Peer] = attrs.field(factory=dict)

    def add_to(self, app: Application) -> None:
        app.add(PATH, "stream of deltas", self.stream, ["GET"], public=True)
        app.add(PATH, "wanted deltas", self.want, ["PUT"], public=True)

    async def stream(self, request: Request) -> Reply:
        node = self._node_behind(request)
        return stream_reply(StreamBody(self._frames(node), self._agent.draining.wait, "-"))

    async def want(self, request: Request) -> Reply:
        peer = self._peers.get(self._node_behind(request))
        if peer is None:
            raise RequestError(404, "not_found", "there is no stream of this node")
        peer.wanted = wanted_from(await request.json())
        return nothing()

    def _node_behind(self, request: Request) -> str:
        given = request.headers.get("Authorization", "")
        if not hmac.compare_digest(given.encode(), f"Bearer {self._key}".encode()):
            raise unauthenticated()
        return request.args.get("node", "")

    async def _frames(self, node: str) -> AsyncGenerator[bytes, None]:
        peer = self._peers[node] = _Peer()
        try:
            with self._agent.delta_exchange.deltas(lambda id: peer.wanted.covers(id)) as deltas:
                yield sse.comment("deltas")  # sends the head of the reply at once
                async for delta in deltas:
                    yield encode(cast(AnyDelta, delta))
        finally:
            if self._peers.get(node) is peer:
                del self._peers[node]
