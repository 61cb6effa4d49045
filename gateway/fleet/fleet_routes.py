"""The route about the processes of an agent."""

from __future__ import annotations

import math
from collections.abc import Mapping

import attrs

from ...actors.agent.agent import Agent
from ...actors.common.fleet import FleetMember
from ..contract import system_shapes as s
from ..http.request import HttpRequest
from ..http.responses import Reply, View, reply
from ..rest.views import timestamp


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
                nodes=[_member(each) for each in fleet.members],
            )
        )


def _member(member: FleetMember) -> s.FleetNode:
    process = member.process
    return s.FleetNode(
        name=member.name,
        is_this=member.is_this,
        host=None if process is None else process.host,
        pid=None if process is None else process.pid,
        version=None if process is None else process.version,
        started_at=None if process is None else timestamp(process.started),
        url=None if process is None else process.url,
        lease_seconds=round(member.seconds, 1) if math.isfinite(member.seconds) else None,
        conversations=member.conversations,
        open=member.open,
    )
