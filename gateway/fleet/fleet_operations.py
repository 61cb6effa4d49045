"""The operation about the processes of an agent. Pure."""

from __future__ import annotations

from .. import examples as ex
from ..operation import Answer, Operation
from ..wire import system_shapes as s

NODE = s.FleetNode(
    name="37eff7b4d867",
    is_this=True,
    host="agent-1",
    pid=7,
    version="0.1.0",
    started_at=ex.AT,
    lease_seconds=9.2,
    conversations=12,
    open=3,
)

FLEET = (
    Operation(
        "getFleet",
        "GET /fleet",
        "List the processes that share the journal",
        (
            Answer(
                200,
                "The journal and its processes",
                s.Fleet(
                    store="PostgreSQL 15.8",
                    round_trip_ms=0.8,
                    synchronous_standbys="ANY 1 (a, b)",
                    unowned=0,
                    need_newer=0,
                    nodes=[NODE],
                ),
            ),
        ),
        description="An agent with a data directory has one process.",
    ),
)
