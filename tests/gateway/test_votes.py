"""Votes of persons with API keys, over REST, A2A and AG-UI, over real sockets."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import attrs
import pytest
from trio.testing import MockClock

from tests.actors.world import World
from tests.gateway.a2a.talk import Talk, furnish, talking
from tests.gateway.a2a.tongues import V1
from tests.gateway.keyring import Keyring

PERSONS = {"ann": "approver", "bob": "approver", "cat": "approver", "olga": "operator"}


@attrs.frozen
class Site:
    talk: Talk
    keys: Keyring

    def by(self, key: str) -> dict[str, str]:
        return {"X-API-Key": self.keys.texts[key]}

    async def post(self, key: str, path: str, body: Any, status: int = 200) -> Any:
        response = await self.talk.rest.post(path, json=body, headers=self.by(key))
        assert response.status_code == status, response.text[:500]
        return response.json()

    async def approval(self, id: str) -> Any:
        response = await self.talk.rest.get(f"/approvals/{id}", headers=self.by("ann"))
        return response.json()["approval"]

    async def asked(self) -> Any:
        """A new approval that needs two persons."""
        turn = await self.post("olga", "/conversations", {"message": "use wipe:x"}, 201)
        return turn["result"]["approval"]

    async def vote(self, key: str, id: str, status: int = 200, **words: Any) -> Any:
        body = {"approved": True, "hash": (await self.approval(id))["hash"], **words}
        return await self.post(key, f"/approvals/{id}", body, status)

    @property
    def wiped(self) -> list[Any]:
        return [arguments for _, arguments in self.talk.world.ledger]


@pytest.fixture
async def site(tmp_path: Path, autojump_clock: MockClock) -> AsyncIterator[Site]:
    world = furnish(World(tmp_path))
    rules = [{"tool": "wipe", "then": "ask", "quorum": 2}]
    world.settings |= {"auth": {"api_keys": True}, "approval": {"rules": rules}}
    keyring = Keyring.of(tmp_path, {})
    for name, role in PERSONS.items():
        keyring.add(name, role, subject=f"{name}@example.org")
    keyring.add("ann-2", "approver", subject="ann@example.org")
    keyring.add("ci", "approver")
    async with talking(world, keyring=keyring) as talk:
        yield Site(talk, keyring)


async def test_two_persons_approve(site: Site, autojump_clock: MockClock) -> None:
    asked = await site.asked()
    assert asked["requires"] == {"approvers": [], "quorum": 2, "requester_may_approve": True}
    first = (await site.vote("ann", asked["uuid"], reason="checked"))["result"]
    assert (first["waiting_approval"], first["code"], first["state"]) == (True, "vote_recorded", "waiting")
    [vote] = first["approval"]["votes"]
    assert (vote["by"], vote["reason"]) == ("ann@example.org", "checked")
    await site.vote("ann-2", asked["uuid"])  # the same person
    assert (await site.vote("ci", asked["uuid"], 403))["code"] == "may_not_approve"
    assert site.wiped == []
    assert (await site.vote("bob", asked["uuid"]))["result"]["state"] == "finished"
    assert site.wiped == [{"name": "x"}]
    approval = await site.approval(asked["uuid"])
    assert [each["by"] for each in approval["votes"]] == ["ann@example.org", "bob@example.org"]
    assert approval["decision"]["decided_by"] == "bob@example.org"


async def test_vote_is_about_what_was_shown(site: Site, autojump_clock: MockClock) -> None:
    asked = await site.asked()
    await site.vote("ann", asked["uuid"], arguments={"name": "y"})
    for hash in (asked["hash"], None):
        refused = await site.vote("bob", asked["uuid"], 409, hash=hash)
        assert refused["code"] == "subject_changed"
        assert refused["approval"]["tool_args"] == {"name": "y"}
    assert (await site.vote("bob", asked["uuid"], hash=refused["approval"]["hash"]))["result"]["response"]
    assert site.wiped == [{"name": "y"}]


async def test_vote_lapses_with_its_key(site: Site, autojump_clock: MockClock) -> None:
    asked = await site.asked()
    await site.vote("cat", asked["uuid"])
    site.keys.revoke("cat")
    result = (await site.vote("bob", asked["uuid"]))["result"]
    assert (result["code"], [each["by"] for each in result["approval"]["votes"]]) == (
        "vote_recorded",
        ["bob@example.org"],
    )
    assert site.wiped == []
    await site.vote("ann", asked["uuid"])
    assert site.wiped == [{"name": "x"}]


async def test_votes_over_a2a(site: Site, autojump_clock: MockClock) -> None:
    task = await site.talk.waiting("use wipe:x", V1, X_API_Key=site.keys.texts["olga"])
    [asked] = task.pending
    assert asked["hash"] == (await site.approval(asked["id"]))["hash"]

    def vote(*, stream: bool = False, **words: Any) -> Any:
        data = {"id": asked["id"], "approved": True, **words}
        return V1.send({"data": data}, task=task.id, stream=stream)

    by_ann, by_bob = ({"X_API_Key": site.keys.texts[name]} for name in ("ann", "bob"))
    assert (await site.talk.refused(vote(), **by_ann)).code == -32602
    voted = await site.talk.all_of(vote(stream=True, hash=asked["hash"]), **by_ann)
    assert voted[-1].state == "input-required"
    assert site.wiped == []
    done = await site.talk.told(vote(hash=asked["hash"]), **by_bob)
    assert (done.state, site.wiped) == ("completed", [{"name": "x"}])


async def test_votes_over_ag_ui(site: Site, autojump_clock: MockClock) -> None:
    async def run(key: str, **more: Any) -> Any:
        body = {"threadId": thread, "runId": f"r-{key}", "messages": [], **more}
        response = await site.talk.client.post("/agui", json=body, headers=site.by(key))
        return json.loads(response.text.strip().rpartition("data: ")[2])

    asked = await site.asked()
    thread, id = asked["conversation_id"], asked["uuid"]

    def answer(**payload: Any) -> Any:
        return [{"interruptId": id, "status": "resolved", "payload": {"approved": True, **payload}}]

    refused = await run("ann", resume=answer())
    [interrupt] = refused["outcome"]["interrupts"]
    assert interrupt["metadata"]["error"]["code"] == "subject_changed"
    voted = await run("ann", resume=answer(hash=interrupt["metadata"]["approval"]["hash"]))
    assert [each["id"] for each in voted["outcome"]["interrupts"]] == [id]
    assert site.wiped == []
    done = await run("bob", resume=answer(hash=asked["hash"]))
    assert (done["type"], site.wiped) == ("RUN_FINISHED", [{"name": "x"}])
    assert done["outcome"]["type"] == "success"
