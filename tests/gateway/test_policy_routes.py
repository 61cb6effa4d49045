"""The policy of an agent and its revisions: `/policy`, `/health`, and `stopgo policy show` and `history`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import trio
from trio.testing import MockClock

from stopgo.gateway.cli.commands.policy_command import history_lines, policy_lines
from tests.actors.world import World


async def test_policy_and_its_history(serve: Any, tmp_path: Path, autojump_clock: MockClock) -> None:
    world = World(tmp_path)
    world.tool("wipe")
    async with world.agent() as agent:
        first = agent.policy_revision
    await trio.sleep(1)
    world.settings["approval"] = {"rules": [{"tool": "wipe", "then": "ask"}], "in_loop": "ask"}
    async with world.agent() as agent, serve(agent) as (_, client):
        now = (await client.get("/policy")).json()
        before = (await client.get("/policy", params={"revision": first})).json()
        history = (await client.get("/policy/history")).json()
        unknown = await client.get("/policy", params={"revision": "0f"})
        health = (await client.get("/health")).json()
    assert (unknown.status_code, unknown.json()["field"]) == (400, "revision")
    assert health == {"status": "ok", "policy": now["revision"]}
    assert (now["current"], before["current"], before["revision"]) == (True, False, first)
    assert [each["revision"] for each in history["revisions"]] == [first, now["revision"]]
    [rule] = now["policy"]["rules"]
    assert list(policy_lines(now)) == [
        f"revision {now['revision']}, used since {now['since']}",
        "contradictory hints: read_only",
        "node agent: unannotated: run",
        f"  {rule['id']}  approval.rules[0] (tool: wipe): ask",
    ]
    assert [line.split()[:2] for line in history_lines(history)][1:] == [
        [first, "0"],
        [now["revision"], "1"],
    ]
    assert list(history_lines(history))[-1].endswith("(now)")
