"""Notifications over HTTP and on the command line: the list, a retry, a test; webhooks over real sockets."""

from __future__ import annotations

import json
import math
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import trio
from standardwebhooks.webhooks import Webhook
from trio.testing import MockClock

from stopgo.actors.common.bounded_post import NotDelivered
from stopgo.actors.notify import webhook
from stopgo.actors.notify.delivery import LONGEST_AGE
from stopgo.gateway.cli.commands.notify_command import list_lines
from stopgo.runtime.json_text import dump_wire
from tests.actors.notify.fake_channels import KEY, FakeChannels, channel
from tests.actors.world import DESTRUCTIVE, World, call, use
from tests.gateway.a2a.receiver import answer, open_receiver, resolving, until_blocked


def agent_world(folder: Path, **channels: Any) -> World:
    world = World(folder)
    world.settings["notify"] = {"channels": channels}
    world.tool("wipe", DESTRUCTIVE)
    world.plan("agent", use(call("wipe")))
    return world


async def test_the_card_of_an_approval_says_who_was_told(
    serve: Any, tmp_path: Path, autojump_clock: MockClock
) -> None:
    lead = channel(events=["approval.escalated"])
    ops = channel(remind_every=600, escalate_after=3_000, escalate_to=["lead"])
    world, channels = agent_world(tmp_path, ops=ops, lead=lead), FakeChannels()
    world.open_channel = channels.open
    async with world.agent() as agent, serve(agent) as (_, client):
        turn = await agent.start_conversation("go")
        await agent.start_conversation("go")  # of another approval
        await trio.sleep(700)
        [approval] = turn.result.approvals
        autojump_clock.autojump_threshold = math.inf  # the page reads the agent file in a thread
        told = (await client.get(f"/page/approvals/{approval.uuid}")).json()["told"]
    assert [(each["channel"], each["kind"], each["state"]) for each in told] == [
        ("ops", "approval.requested", "arrived"),
        ("ops", "approval.reminded", "arrived"),
        ("ops", "approval.reminded", "pending"),
        ("lead", "approval.escalated", "pending"),
    ]
    assert [each["at"] for each in told] == sorted(each["at"] for each in told)


async def test_the_list_a_retry_and_a_test(serve: Any, tmp_path: Path, autojump_clock: MockClock) -> None:
    world, channels = agent_world(tmp_path, ops=channel(events=["approval.requested"])), FakeChannels()
    world.open_channel = channels.open
    channels.fails = lambda name: NotDelivered("it answered 410", again=False, status=410)
    async with world.agent() as agent, serve(agent) as (_, client):
        assert list(list_lines((await client.get("/notifications")).json())) == [
            "There are no notifications."
        ]
        assert (await client.get("/health/ready")).json()["channels"] == [{"name": "ops", "state": "unknown"}]
        await agent.start_conversation("go")
        await trio.sleep(5)
        [found] = (await client.get("/notifications")).json()["notifications"]
        assert (found["state"], found["type"], found["attempts"]) == ("given_up", "approval.requested", 1)
        [line] = list_lines({"notifications": [found]})
        assert line.endswith("ops  approval.requested  given_up, 1 attempt: the channel answered 410")
        health = (await client.get("/health/ready")).json()
        assert health["status"] == "ready"
        assert health["channels"] == [{"name": "ops", "state": "unreachable", "error": "it answered 410"}]
        refused = await client.post("/notifications/test", json={"channel": "ops"})
        assert (refused.status_code, refused.json()["code"]) == (502, "not_delivered")
        channels.fails = lambda name: None
        again = (await client.post(f"/notifications/{found['id']}/retry")).json()["notification"]
        assert (again["id"], again["state"], again["attempts"]) == (found["id"], "pending", 0)
        for path, body, code in (
            ("/notifications/msg_x/retry", {}, "notification_not_found"),
            ("/notifications/test", {"channel": "opps"}, "channel_not_found"),
            ("/notifications/test", {}, "invalid_request"),
        ):
            assert (await client.post(path, json=body)).json()["code"] == code
        tested = (await client.post("/notifications/test", json={"channel": "ops"})).json()
        assert channels.told[-1].id == tested["id"]
    assert LONGEST_AGE > 5


async def test_a_webhook_is_signed_and_its_repeats_have_its_id(
    tmp_path: Path, autojump_clock: MockClock, nursery: trio.Nursery, monkeypatch: pytest.MonkeyPatch
) -> None:
    receiver = await open_receiver(nursery)
    receiver.answers = [answer(503), answer(302), answer(200)]
    raw: list[bytes] = []

    def noted(value: object) -> bytes:
        raw.append(dump_wire(value))
        return raw[-1]

    monkeypatch.setattr(webhook, "dump_wire", noted)
    world = agent_world(tmp_path, ops={"webhook": receiver.url, "secrets": [KEY], "to_private": True})
    world.settings["server"] = {"public_url": "https://agents.example"}
    async with world.agent() as agent:
        await agent.start_conversation("go")
        autojump_clock.autojump_threshold = 0.05  # virtual time passes only while no socket is busy
        with trio.move_on_after(60):
            await trio.sleep_forever()
        autojump_clock.autojump_threshold = 0
        await until_blocked(lambda: len(receiver.got) == 3)
        [approval] = (await agent.approvals()).approvals
    ids = {got.header("webhook-id") for got in receiver.got}
    times = [got.header("webhook-timestamp") for got in receiver.got]
    assert len(ids) == 1
    assert len(set(times)) > 1
    last, body = receiver.got[-1], raw[-1]
    assert json.loads(body) == last.body
    assert last.body["type"] == "approval.requested"
    assert last.body["data"]["url"] == f"https://agents.example/#/approvals/{approval.id}"
    signed_at = datetime.fromtimestamp(int(times[-1] or 0), UTC)
    expected = Webhook(KEY).sign(last.header("webhook-id") or "", signed_at, body.decode())
    assert last.header("webhook-signature") == expected


async def test_a_private_address_gets_nothing(
    tmp_path: Path, autojump_clock: MockClock, nursery: trio.Nursery
) -> None:
    receiver = await open_receiver(nursery)
    world = agent_world(tmp_path, ops=channel(webhook=f"https://hooks.example:{receiver.port}/in"))
    world.open_channel = lambda config: webhook.Webhook.of(config, resolving(["127.0.0.1"]))
    async with world.agent() as agent:
        await agent.start_conversation("go")
        await trio.sleep(60)
        found = await agent.notifications()
        assert {each.state for each in found} == {"pending"}
        assert all("private network" in each.why and "`to_private`" in each.why for each in found)
    assert receiver.got == []
