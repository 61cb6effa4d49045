"""The emergency stop over HTTP: its routes, and what every other surface says of it."""

from __future__ import annotations

import json
import math
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from trio.testing import MockClock

from stopgo.actors.agent.agent import Agent
from tests.actors.world import DESTRUCTIVE, HARMLESS, World, call, say, use

REASON = {"reason": "wrong database"}
HALTED = {"halted": True, "in_flight": 0, **REASON}


@pytest.fixture
def world(tmp_path: Path) -> World:
    world = World(tmp_path)
    world.tool("wipe", DESTRUCTIVE)
    world.tool("act", HARMLESS)
    world.plan("agent", use(call("wipe"), call("act")), say("done"))
    return world


def without_time(body: dict[str, Any]) -> dict[str, Any]:
    assert body.pop("at").endswith("Z")
    return body


async def test_halt_and_unhalt(world: World, serve: Any, autojump_clock: MockClock) -> None:
    async with world.agent() as agent, serve(agent) as (_, client):
        assert (await client.get("/halt")).json() == {"halted": False, "in_flight": 0}
        assert "halt" not in (await client.get("/health/ready")).json()
        key = {"Idempotency-Key": "k"}
        for _ in range(2):
            answer = await client.post("/halt", json=REASON, headers=key)
            assert (answer.status_code, without_time(answer.json())) == (200, HALTED)
        other = await client.post("/halt", json={"reason": "another"}, headers=key)
        assert (other.status_code, other.json()["code"]) == (422, "idempotency_key_reused")
        assert without_time((await client.get("/halt")).json()) == HALTED
        ready = await client.get("/health/ready")
        assert (ready.status_code, without_time(ready.json()["halt"])) == (200, HALTED)
        for body in ({"reason": 1}, {"reason": "x" * 501}, {"why": "x"}):
            assert (await client.post("/halt", json=body)).status_code == 400
        assert (await client.post("/unhalt")).json() == {"halted": False, "in_flight": 0}


async def test_every_surface_refuses_an_approval(world: World, serve: Any, autojump_clock: MockClock) -> None:
    async with world.agent() as agent, serve(agent) as (_, client):
        await client.post("/halt", json=REASON)
        turn = (await client.post("/conversations", json={"message": "go"})).json()
        uuid, id = turn["result"]["approvals"][0]["uuid"], turn["conversation"]["id"]
        assert {each["rule"] for each in turn["conversation"]["approvals"]} == {
            "destructiveHint: true",
            "emergency stop",
        }
        refused = await client.post(f"/approvals/{uuid}", json={"approved": True})
        assert (refused.status_code, refused.json()["code"]) == (409, "halted")
        assert refused.json()["error"] == "the agent is halted: wrong database"

        interrupt = await client.post("/agui", json=_resume(id, uuid))
        assert '"code":"halted"' in interrupt.text
        by_a2a = await client.post("/a2a", json=_decision(id, uuid))
        assert "the agent is halted: wrong database" in by_a2a.json()["error"]["message"]
        autojump_clock.autojump_threshold = math.inf  # the page reads the agent file in a thread
        context = (await client.get(f"/page/approvals/{uuid}")).json()
        assert context["suggestion"] is not None
        held = turn["result"]["approvals"][1]["uuid"]
        assert (await client.get(f"/page/approvals/{held}")).json()["suggestion"] is None
    assert not world.ledger


def _resume(thread: str, uuid: str) -> dict[str, Any]:
    entry = {"interruptId": uuid, "status": "resolved", "payload": {"approved": True}}
    return {"threadId": thread, "runId": "r", "messages": [], "resume": [entry]}


def _decision(task: str, uuid: str) -> dict[str, Any]:
    part = {"data": {"approval": {"id": uuid, "approved": True}}}
    message = {"messageId": "m", "role": "ROLE_USER", "taskId": task, "contextId": task, "parts": [part]}
    return {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"message": message}}


async def test_streams_of_all_conversations_tell_of_a_halt(
    world: World, serve: Any, autojump_clock: MockClock
) -> None:
    """Whatever they select."""
    async with world.agent() as agent, serve(agent) as (_, client):
        async with client.stream("GET", "/events", params={"type": "run.*"}) as stream:
            frames = _frames(stream, agent)
            await client.post("/halt", json=REASON)
            assert without_time(await anext(frames)) == {"type": "halt", **HALTED}
            await client.post("/unhalt")
            assert await anext(frames) == {"type": "halt", "halted": False, "in_flight": 0}


async def _frames(stream: httpx2.Response, agent: Agent) -> AsyncIterator[dict[str, Any]]:
    async for line in stream.aiter_lines():
        if line.startswith("data: "):
            yield json.loads(line.removeprefix("data: "))
