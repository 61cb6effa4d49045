"""The policy of an agent and its revisions: `/policy`, `/health`, and `stopgo policy show` and `history`."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from stopgo.actors.replay import call_page
from stopgo.actors.replay.judged_call import JudgedCall
from stopgo.actors.replay.replay_report import CallFilter, summary_json
from stopgo.gateway.cli.client.agent_client import AgentClient
from stopgo.gateway.cli.commands.policy_command import history_lines, policy_lines
from stopgo.gateway.cli.commands.policy_replay import replayed
from stopgo.gateway.cli.commands.remote_calls import read_remote_calls
from tests.actors.calls.test_verdict_facts import facts
from tests.actors.gate.test_halt import only
from tests.actors.replay.judging import replay_of
from tests.actors.replay.test_judged_calls import NO, RUN, lived
from tests.actors.several_members import YES
from tests.actors.world import DESTRUCTIVE, World, call, say, use


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
    assert (unknown.status_code, unknown.json()["code"]) == (404, "policy_not_found")
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


async def test_history_has_the_calls_that_each_policy_has_judged(
    serve: Any, tmp_path: Path, autojump_clock: MockClock
) -> None:
    world = World(tmp_path)
    world.tool("wipe", DESTRUCTIVE)
    world.plan("agent", use(call("wipe"), call("gone")), say("done"))
    async with world.agent() as agent:
        first = (await agent.start_conversation("go")).conversation.id
        await agent.decide(await only(agent), YES)
    await trio.sleep(1)
    world.settings["approval"] = {"rules": [{"tool": "wipe", "then": "run"}]}
    world.plan("agent", use(call("wipe")), say("done"))
    async with world.agent() as agent, serve(agent) as (_, client):
        before = await facts(world, first)
        await agent.start_conversation("again")
        found = (await client.get("/policy/history")).json()["revisions"]
        card = (await client.get("/approvals", params={"state": "decided"})).json()["approvals"][0]
        lines = list(history_lines({"revisions": found}))
    assert [each["verdicts"] for each in found] == [2, 1]  # a call that was approved counts once
    assert len(before) == 3
    assert card["policy"] == found[0]["revision"]
    assert found[0]["first_used"] <= found[0]["last_used"] < found[1]["first_used"]
    assert lines[1].split() == [found[0][key] if key != "rules" else "0" for key in ("revision", "rules")] + [
        "2",
        found[0]["first_used"],
        found[0]["last_used"],
    ]


async def test_calls_of_a_running_agent_are_judged_as_those_of_its_journal(
    serve: Any, tmp_path: Path, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(tmp_path)
    wipes = [call("wipe", name=name) for name in ("a", "b")]
    calls = call("send"), (wipes[0], call("gone")), wipes[1], call("send", name=[1])
    await lived(world, *calls, decisions=[YES, NO])
    expected, report = await replay_of(world, approval=RUN)
    world.settings["approval"] = RUN
    monkeypatch.setattr(call_page, "MOST_BYTES", 1200)
    found: list[Any] = []
    async with world.agent() as agent, serve(agent) as (server, http):
        client = AgentClient(server.url, {}, http)
        read = partial(read_remote_calls, client, since=0.0)
        again = await replayed(world.config(), CallFilter(), read, found.append)
    assert [(each["tool"], each["now"]["verdict"], each["sure"]) for each in found] == seen_now(expected)
    assert summary_json(again) == summary_json(report)
    assert again.groups["refused"] == 1


def seen_now(found: Sequence[JudgedCall]) -> list[tuple[Any, ...]]:
    return [(each.call.tool, each.now, each.sure) for each in found]


async def test_calls_by_http(serve: Any, tmp_path: Path, autojump_clock: MockClock) -> None:
    world = World(tmp_path)
    await lived(world, call("wipe", name="a"), decisions=[{"approved": True, "arguments": {"name": "b"}}])
    async with world.agent() as agent, serve(agent) as (_, client):
        page = (await client.get("/policy/calls", params={"since": "1", "limit": "1"})).json()
        later = (await client.get("/policy/calls", params={"since": "99999999999"})).json()
        wrong = [
            (await client.get("/policy/calls", params=params)).json()["code"]
            for params in ({"since": "x"}, {"limit": "1001"}, {"cursor": "x"}, {"cursr": "x"})
        ]
    [found] = page["calls"]
    assert (found["answer"], found["arguments"], found["edited"]) == ("edited", {"name": "a"}, {"name": "b"})
    assert found["verdict"]["action"] == "ask"
    assert (later["calls"], later["damaged"], later["broken"]) == ([], 0, {})
    assert wrong == ["invalid_request", "invalid_request", "invalid_cursor", "invalid_request"]
