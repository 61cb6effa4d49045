"""The routes by which other members get the deltas of this one (`delta_frames.py`). They are for members
only, so the API does not describe them."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import cast
from urllib.parse import urlsplit

import attrs

from ...actors.agent.agent import Agent
from ...actors.log.words.deltas import AnyDelta
from ...actors.workers.delta_exchange import WantedDeltas
from ..http import sse
from ..http.body import parse_object
from ..http.errors import RequestError, unauthenticated
from ..http.event_stream import StreamBody, stream_reply
from ..http.quart_app import Application
from ..http.request import HttpRequest
from ..http.responses import Reply, nothing
from .delta_frames import PATH, address_of, encode, wanted_from
from .fleet_key import PROOF, FleetKey


@attrs.define
class _Peer:
    """A member that reads the deltas of this one."""

    wanted: WantedDeltas = attrs.field(factory=WantedDeltas)


@attrs.define(eq=False)
class DeltaSource:
    _agent: Agent
    _key: FleetKey
    _advertised: str
    """The URL by which other members reach this one."""
    _peers: dict[str, _Peer] = attrs.field(factory=dict)

    @property
    def host(self) -> str | None:
        """The host by which other members name this one."""
        return urlsplit(self._advertised).hostname

    def add_to(self, app: Application) -> None:
        app.add(PATH, "stream of deltas", self.stream, ["GET"], public=True)
        app.add(PATH, "wanted deltas", self.want, ["PUT"], public=True)

    async def stream(self, request: HttpRequest) -> Reply:
        member, proof = self._member_behind(request)
        body = StreamBody(self._frames(member), self._agent.draining.wait, "-")
        body.end_with(self._key.changed.wait)
        reply = stream_reply(body)
        return attrs.evolve(reply, headers={**reply.headers, PROOF: proof})

    async def want(self, request: HttpRequest) -> Reply:
        body = await request.body()
        member, proof = self._member_behind(request, body)
        peer = self._peers.get(member)
        if peer is None:
            raise RequestError(404, "not_found", "there is no stream of this node")
        peer.wanted = wanted_from(parse_object(body))
        return nothing({PROOF: proof})

    def _member_behind(self, request: HttpRequest, body: bytes = b"") -> tuple[str, str]:
        """The name of the member that sends a request, and the proof for the answer."""
        member, given = request.args.get("node", ""), request.headers.get("Authorization", "")
        proof = self._key.proof_for(given, request.method, address_of(self._advertised, member), body)
        if proof is None:
            raise unauthenticated()
        return member, proof

    async def _frames(self, member: str) -> AsyncGenerator[bytes, None]:
        peer = self._peers[member] = _Peer()
        try:
            with self._agent.delta_exchange.deltas(lambda id: peer.wanted.covers(id)) as deltas:
                yield sse.comment("deltas")  # sends the head of the reply at once
                async for delta in deltas:
                    yield encode(cast(AnyDelta, delta))
        finally:
            if self._peers.get(member) is peer:
                del self._peers[member]
