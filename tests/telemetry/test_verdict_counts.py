"""The counters of verdicts: each call counts once, with its first verdict."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from trio.testing import MockClock

from stopgo.gateway.telemetry.metrics import Metrics
from tests.actors.calls.test_verdict_facts import policy_of
from tests.actors.several_members import YES
from tests.actors.world import DESTRUCTIVE, World, call, say, use

RULES = [
    {"tool": "wipe", "then": "run", "shadow": True},
    {"tool": "*", "then": "deny", "shadow": True},
    {"tool": "drop", "then": "deny"},
]


def counted(metrics: Metrics, name: str) -> Mapping[tuple[str, ...], float]:
    """By the values of the labels, in the order of their names."""
    return {
        tuple(value for _, value in sorted(sample.labels.items())): sample.value
        for family in metrics.registry.collect()
        for sample in family.samples
        if sample.name == name
    }


async def after(world: World, metrics: Metrics, *calls: Any) -> Mapping[str, str]:
    """Have the agent make these calls and approve all; return the ids of the rules by place."""
    world.observers = (metrics,)
    for name in ("drop", "send"):
        world.tool(name)
    world.tool("wipe", DESTRUCTIVE)
    world.settings["approval"] = {"rules": RULES}
    world.plan("agent", use(*calls), say("done"))
    async with world.agent() as agent:
        await agent.start_conversation("go")
        for approval in (await agent.approvals()).approvals:
            await agent.decide(approval, YES)
    return policy_of(world).ids


async def test_each_call_counts_once(tmp_path: Path, autojump_clock: MockClock) -> None:
    world = World(tmp_path)
    metrics = Metrics()
    ids = await after(world, metrics, call("drop"), call("send"), call("wipe"), call("wipe"), call("gone"))
    runs, all_, drop = (ids[f"approval.rules[{index}]"] for index in range(3))
    assert counted(metrics, "stopgo_verdicts_total") == {
        ("deny", drop, "drop"): 1,
        ("run", "destructiveHint: false", "send"): 1,
        ("ask", "destructiveHint: true", "wipe"): 2,
        ("none", "", ""): 1,
    }
    assert counted(metrics, "stopgo_shadow_verdicts_total") == {
        ("run", runs, "ask"): 2,
        ("deny", all_, "deny"): 1,
        ("deny", all_, "run"): 1,
        ("deny", all_, "ask"): 2,
    }
