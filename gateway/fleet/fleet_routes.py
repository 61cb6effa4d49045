"""The route about the processes of an agent."""

from __future__ import annotations

import math
from collections.abc import Mapping

import attrs

from ...actors.agent import Agent
from ...actors.common.fleet import FleetNode
from ..http.request import HttpRequest
from ..http.responses import Reply, View, reply
from ..views import timestamp
from ..wire import system_shapes as s


@attrs.frozen
class FleetRoutes:
    agent: Agent

    def views(self) -> Mapping[str, View]:
        """By id of the operation."""
        return {"getFleet": self.read}

    async def read(self, request: HttpRequest) -> Reply:
        fleet = await self.agent.acting_as(request.principal).fleet()
        return reply(
            s.Fleet(
                store=fleet.store,
                round_trip_ms=round(fleet.round_trip * 1000, 1),
                synchronous_standbys=fleet.standbys or None,
                unowned=fleet.unowned,
                need_newer=fleet.need_newer,
                nodes=[_node(each) for each in fleet.nodes],
            )
        )


def _node(node: FleetNode) -> s.FleetNode:
    process = node.process
    return s.FleetNode(
        name=node.name,
        is_this=node.is_this,
        host=None if process is None else process.host,
        pid=None if process is None else process.pid,
        version=None if process is None else process.version,
        started_at=None if process is None else timestamp(process.started),
        url=None if process is None else process.url,
        lease_seconds=round(node.seconds, 1) if math.isfinite(node.seconds) else None,
        conversations=node.conversations,
        open=node.open,
    )
