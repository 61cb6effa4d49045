"""The policy of an agent and its revisions: `/policy`, `/health`, and `stopgo policy show` and `history`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from stopgo.actors.replay import call_page
from stopgo.actors.replay.judged_call import JudgedCall
from stopgo.actors.replay.replay_report import CallFilter, summary_json
from stopgo.gateway.cli.client.agent_client import AgentClient
from stopgo.gateway.cli.commands.policy_command import history_lines, policy_lines
from stopgo.gateway.cli.commands.policy_replay import replayed
from stopgo.gateway.cli.commands.remote_calls import read_remote_calls
from stopgo.gateway.rest import rules_replay
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


async def replayed_frames(client: Any, rules: str) -> list[Any]:
    answer = await client.post("/policy/replay", json={"rules": rules})
    assert answer.headers["content-type"] == "text/event-stream"
    return [json.loads(part.removeprefix("data: ")) for part in answer.text.split("\n\n") if part]


@pytest.mark.parametrize("is_file", [False, True])
async def test_pasted_rules_are_tried_as_those_of_a_file(
    serve: Any, tmp_path: Path, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch, is_file: bool
) -> None:
    world = World(tmp_path)
    wipes = [call("wipe", name=name) for name in ("a", "b")]
    await lived(world, call("send"), (wipes[0], call("gone")), wipes[1], decisions=[YES, NO])
    _, report = await replay_of(world, approval=RUN)
    monkeypatch.setattr(call_page, "MOST_BYTES", 1200)
    text = "rules: [{tool: wipe, then: run}]"
    async with world.agent() as agent, serve(agent) as (_, client):
        rules = f"llm: {{model: '${{NO_SUCH}}'}}\napproval: {{{text}}}" if is_file else text
        before = (await client.get("/policy/history")).json()
        *progress, last = await replayed_frames(client, rules)
        assert (await client.get("/policy/history")).json() == before
    assert [each["calls"] for each in progress] == sorted(each["calls"] for each in progress) != []
    assert all(each.keys() == {"calls"} for each in progress)
    assert last["summary"] == json.loads(json.dumps(summary_json(report)))
    assert (last["calls"], last["cut"], last["ignored"]) == (4, False, ["llm"] if is_file else [])
    [refused] = last["listed"]["refused"]
    assert (refused["arguments"], refused["answer"], refused["now"]["verdict"]) == (
        {"name": "b"},
        "rejected",
        "run",
    )


@pytest.mark.parametrize(
    ("rules", "error"),
    [
        ("", "rules: the file is empty; expected a mapping"),
        ("[]", "rules:1:1: expected keys, such as `rules`, or an agent file"),
        ("rules: [{tool: wipe", "rules:1:20: "),
        ("\nrules: [{tol: wipe, then: run}]", "rules:2:10: approval.rules[0].tol: unknown key"),
        ("rules: [{tool: '${HOME}', then: ask}]", "variables and files are not read"),
        ("rules: [{tool: '${env:HOME}', then: ask}]", "variables and files are not read"),
        ("approval: {rules: [{tool: '${file:/etc/hostname}', then: ask}]}", "variables and files"),
        ("rules: [{tool: x, then: ask, arguments: {a: {matches: '${X:-y}'}}}]", "variables and files"),
        ("rules: [{server: dsk, then: ask}]", "no server here is called"),
        ("rules: [{node: nobody, then: deny}]", "no node here is called"),
        (
            "rules: [{then: run, only_these_arguments: true, arguments: {a: {above: 1}}}]",
            "a range has both ends",
        ),
        ("rules: [{tool: wipe, then: ask, quorum: 2}]", "quorum needs to know who approves"),
        ("# " + "x" * 65_536, "larger than 64 KiB"),
    ],
)
async def test_mistakes_in_pasted_rules(
    serve: Any, tmp_path: Path, autojump_clock: MockClock, rules: str, error: str
) -> None:
    world = World(tmp_path)
    world.tool("wipe")
    async with world.agent() as agent, serve(agent) as (_, client):
        answer = await client.post("/policy/replay", json={"rules": rules})
    assert (answer.status_code, answer.json()["code"]) == (422, "invalid_rules")
    assert error in "\n".join(answer.json()["errors"])


async def test_replay_by_http_is_bounded_and_runs_once_at_a_time(
    serve: Any, tmp_path: Path, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(tmp_path)
    await lived(world, call("send"), call("send"), call("send"))
    monkeypatch.setattr(rules_replay, "MOST_CALLS", 2)
    body = {"rules": "unannotated: ask"}
    async with world.agent() as agent, serve(agent) as (_, client):
        [last] = await replayed_frames(client, body["rules"])
        monkeypatch.setattr(rules_replay, "MOST_SECONDS", -1.0)
        [late] = await replayed_frames(client, body["rules"])
        waits = trio.Event()

        async def policies(_: Any) -> list[Any]:
            await waits.wait()
            return []

        monkeypatch.setattr(type(agent), "policies", policies)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(replayed_frames, client, body["rules"])
            await wait_all_tasks_blocked()
            second = await client.post("/policy/replay", json=body)
            waits.set()
        third = await client.post("/policy/replay", json=body)
        wrong = await client.post("/policy/replay", json={"rules": 1})
    assert (last["calls"], last["cut"], late["calls"], late["cut"]) == (2, True, 0, True)
    assert (second.status_code, second.json()["code"]) == (409, "replay_in_progress")
    assert third.status_code == 200
    assert (wrong.status_code, wrong.json()["field"]) == (400, "rules")
