"""A2A with `auth:`: the tasks, contexts and push notifications of others, relays, and cards."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, get_args

import attrs
import pytest
import trio
from trio.testing import MockClock

from stopgo.actors.access.principal import Principal, all_grants, granted
from stopgo.actors.common.errors import ErrorCode
from stopgo.gateway.a2a.as_a2a_error import _REASONS
from stopgo.runtime.clock import system_clock
from tests.actors.world import World
from tests.gateway.keyring import Keyring
from tests.waiting import until

from .receiver import open_receiver
from .talk import Talk, furnish, talking
from .tongues import HITL, IDEMPOTENCY, TONGUES, V03, V1, V1_HTTP, Ask, Told, Tongue

ROLES = {
    "ann": "operator",
    "bob": "operator",
    "boss": "approver",
    "desk": "relay",
    "desk2": "relay",
    "root": "admin",
    "vic": "viewer",
}
NOT_FOUND, DENIED = "TASK_NOT_FOUND", "PERMISSION_DENIED"


@attrs.frozen
class Site:
    talk: Talk
    keys: Keyring

    def by(self, name: str, **more: str) -> dict[str, str]:
        return {"X_API_Key": self.keys.texts[name], **more}

    async def waiting(self, name: str) -> Told:
        """A new task of a principal that waits for an approval."""
        return await self.talk.waiting("use wipe", V1, **self.by(name))

    async def outcome(self, name: str, wanted: Ask) -> str:
        """`ok`, or the reason of the error."""
        response = await self.talk.raw(wanted, **self.by(name))
        text = response.text.removeprefix("data: ")
        body = json.loads(text.partition("\n\n")[0] or "null")
        error = body.get("error") if isinstance(body, dict) else None
        if error is None:
            return "ok"
        codes = {-32001: NOT_FOUND, 404: NOT_FOUND, -32000: DENIED, 403: DENIED}
        assert error["code"] in codes, error
        details = error.get("data") or error.get("details") or [{"reason": codes[error["code"]]}]
        assert details[0]["reason"] == codes[error["code"]]
        assert wanted.url == "/a2a" or response.status_code == error["code"]
        return codes[error["code"]]


@pytest.fixture
async def site(tmp_path: Path, autojump_clock: MockClock) -> AsyncIterator[Site]:
    async with opened(tmp_path) as site:
        yield site


@asynccontextmanager
async def opened(folder: Path, **settings: Any) -> AsyncIterator[Site]:
    world = furnish(World(folder))
    world.settings |= {"auth": {"api_keys": True}, "server": {"push_to_private": True}, **settings}
    keyring = Keyring.of(folder, ROLES)
    async with talking(world, keyring=keyring) as talk:
        yield Site(talk, keyring)


def rpc(method: str, **params: Any) -> Ask:
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    return Ask("POST", "/a2a", body, {} if "/" in method else {"A2A-Version": "1.0"})


def words(tongue: Tongue, task: str, *, context: str | None = None) -> Ask:
    return tongue.send("yes", task=task, context=context)


def requests_about(task: str) -> dict[str, Ask]:
    """The methods about a task that waits. Each changes nothing if it is refused."""
    config = {"url": "http://127.0.0.1:1/hook", "id": "c"}
    methods = {
        "get a config": rpc("GetTaskPushNotificationConfig", taskId=task, id="c"),
        "list configs": rpc("ListTaskPushNotificationConfigs", taskId=task),
        "set a config": rpc("CreateTaskPushNotificationConfig", taskId=task, **config),
        "delete a config": rpc("DeleteTaskPushNotificationConfig", taskId=task, id="c"),
        "get a config, 0.3": rpc("tasks/pushNotificationConfig/get", id=task, pushNotificationConfigId="c"),
        "set a config, 0.3": rpc(
            "tasks/pushNotificationConfig/set", taskId=task, pushNotificationConfig=config
        ),
        "list configs, HTTP": Ask("GET", f"/a2a/tasks/{task}/pushNotificationConfigs"),
    }
    for tongue in TONGUES:
        methods |= {
            f"get, {tongue.name}": tongue.get(task),
            f"cancel, {tongue.name}": tongue.cancel(task),
            f"decide, {tongue.name}": words(tongue, task),
        }
        if not tongue.is_older:
            methods[f"subscribe, {tongue.name}"] = tongue.subscribe(task)
    return methods


REFUSALS = {"bob": (NOT_FOUND, NOT_FOUND), "desk": (NOT_FOUND, NOT_FOUND), "vic": ("ok", DENIED)}
"""Of reading, and of everything else."""


async def test_tasks_of_others_cannot_be_used(site: Site, autojump_clock: MockClock) -> None:
    task = (await site.waiting("ann")).id
    await site.outcome(
        "ann", rpc("CreateTaskPushNotificationConfig", taskId=task, url="http://127.0.0.1:1/", id="c")
    )
    for name, (reading, rest) in REFUSALS.items():
        for what, wanted in requests_about(task).items():
            reads = what.startswith(("get", "list", "subscribe"))
            if reads and reading == "ok" and what.startswith("subscribe"):
                continue  # it would follow the task
            assert await site.outcome(name, wanted) == (reading if reads else rest), (name, what)
    mine = await site.talk.get(task, V1, **site.by("ann"))
    assert mine.state == "input-required"
    listed = await site.talk.raw(rpc("ListTaskPushNotificationConfigs", taskId=task), **site.by("ann"))
    assert [each["id"] for each in listed.json()["result"]["configs"]] == ["c"]


async def test_lists_and_totals_have_the_own_tasks(site: Site, autojump_clock: MockClock) -> None:
    tasks = {name: (await site.waiting(name)).id for name in ("ann", "bob", "desk")}
    expected = {name: {id} for name, id in tasks.items()}
    expected |= {name: set(tasks.values()) for name in ("boss", "root", "vic")} | {"desk2": set()}
    for name, ids in expected.items():
        for wanted in (rpc("ListTasks"), Ask("GET", "/a2a/tasks", None, {"A2A-Version": "1.0"})):
            page = (await site.talk.raw(wanted, **site.by(name))).json()
            page = page.get("result", page)
            assert ({task["id"] for task in page["tasks"]}, page["totalSize"]) == (ids, len(ids)), name
    page = (await site.talk.raw(rpc("ListTasks", contextId=tasks["ann"]), **site.by("bob"))).json()["result"]
    assert (page["tasks"], page["totalSize"]) == ([], 0)


@pytest.mark.parametrize("tongue", [V1, V1_HTTP, V03], ids=lambda tongue: tongue.name)
async def test_context_of_another_principal_accepts_no_message(
    site: Site, autojump_clock: MockClock, tongue: Tongue
) -> None:
    """The answer is that to a context that nobody has: it begins the client's own (1.0, section 3.4.1)."""
    chosen = await site.talk.told(tongue.send("hi", context="project-1"), **site.by("ann"))
    made = await site.talk.told(tongue.send("hi"), **site.by("ann"))
    for context, id in (chosen.context, chosen.id), (made.context, made.id):
        assert context == ("project-1" if id == chosen.id else id)
        before = await site.talk.agent.get(id)
        for name in ("bob", "desk"):
            for _ in range(2):
                own = await site.talk.told(tongue.send("hi", context=context), **site.by(name))
                assert own.context == context
            listed = rpc("ListTasks", contextId=context)
            page = (await site.talk.raw(listed, **site.by(name))).json()["result"]
            ids = {task["id"] for task in page["tasks"]}
            assert (own.id in ids, id in ids, len(ids)) == (True, False, 2)
        assert await site.outcome("vic", tongue.send("hi", context=context)) == DENIED
        assert (await site.talk.agent.get(id)).last_seq == before.last_seq


async def test_context_of_a_client_keeps_the_id_that_it_chose(
    site: Site, autojump_clock: MockClock, nursery: trio.Nursery
) -> None:
    """In every answer, stream and notification, and in the answers to others."""
    receiver = await open_receiver(nursery)
    by = site.by("ann")
    task = await site.talk.told(V1.send("use wipe", context="project-1"), **by)
    url = {"taskId": task.id, "url": receiver.url, "id": "c"}
    assert await site.outcome("ann", rpc("CreateTaskPushNotificationConfig", **url)) == "ok"
    yes = V1.send("yes", task=task.id, context="project-1", stream=True)
    done = await site.talk.all_of(yes, **site.by("boss"))
    more = await site.talk.all_of(V1.send("hi", context="project-1", stream=True), **by)
    got = await site.talk.get(task.id, V1, **site.by("vic"))
    assert {each.context for each in (task, got, *done, *more)} == {"project-1"}
    await until(lambda: any("COMPLETED" in str(got.body) for got in receiver.got))
    assert all('"project-1"' in json.dumps(got.body) for got in receiver.got)
    assert task.id not in {"project-1", more[0].id}
    refused = await site.talk.refused(V1.send("hi", task=task.id, context="project-2"), **by)
    assert "is not the context of the task" in refused.message


async def test_context_that_an_earlier_version_has_created_goes_on(
    site: Site, autojump_clock: MockClock
) -> None:
    """Its conversation has the id that the client has chosen."""
    owner = Principal(id="key:ann", grants=granted(["operator"], all_grants({})))
    await site.talk.agent.acting_as(owner).start_conversation("before", id="project-1")
    for name, found in (("ann", True), ("bob", False)):
        told = await site.talk.told(V1.send("after", context="project-1"), **site.by(name))
        assert (told.context, told.id.startswith("project-1")) == ("project-1", found)


async def test_idempotency_keys_belong_to_their_principal(site: Site, autojump_clock: MockClock) -> None:
    """By its name, so they survive a new key."""
    for headers in ({"Idempotency_Key": "k"}, {"A2A_Extensions": IDEMPOTENCY}):
        ids = []
        for name in ("ann", "bob", "ann"):
            ids.append((await site.talk.told(V1.send("hi", id="m1"), **site.by(name), **headers)).id)
            if name == "bob":
                site.keys.revoke("ann")
                site.keys.add("ann", "operator")
        assert ids[0] == ids[2] != ids[1]


async def test_streams_end_with_their_credential(site: Site, autojump_clock: MockClock) -> None:
    task = await site.waiting("ann")
    async with site.talk.stream(V1.subscribe(task.id), **site.by("ann")) as items:
        assert (await anext(items)).id == task.id
        site.keys.revoke("ann")
        assert [item async for item in items] == []


# ------------------------------------------------------------------------------ relays


@pytest.mark.parametrize("tongue", TONGUES, ids=lambda tongue: tongue.name)
async def test_relay_passes_no_words(site: Site, autojump_clock: MockClock, tongue: Tongue) -> None:
    task = await site.waiting("desk")
    assert await site.outcome("desk", words(tongue, task.id)) == DENIED
    kept = await site.talk.told(tongue.send("what is it?", task=task.id), **site.by("desk"))
    assert kept.state == "input-required"
    assert site.talk.world.called("wipe") == 0


def data(id: str) -> dict[str, Any]:
    return {"data": {"id": id, "approved": True, "decided_by": "alice"}}


def hitl(id: str) -> dict[str, Any]:
    approvals = [{"id": id, "approved": True}]
    return {"data": {"type": "tool_approval_response", "approvals": approvals}}


@pytest.mark.parametrize(("structured", "claimed"), [(data, "alice"), (hitl, None)], ids=["data", "HITL"])
async def test_relay_passes_the_decision_of_a_person(
    site: Site, autojump_clock: MockClock, structured: Any, claimed: str | None
) -> None:
    task = await site.waiting("desk")
    [asked] = task.pending
    answer = V1.send(structured(asked["id"]), task=task.id)
    extension = {"A2A_Extensions": HITL} if claimed is None else {}
    assert await site.outcome("desk2", answer) == NOT_FOUND
    done = await site.talk.told(answer, **site.by("desk"), **extension)
    assert done.state == "completed"
    approval = await site.talk.agent.approval(asked["id"])
    assert approval.decision is not None
    assert (approval.decision["decided_by"], approval.decision.get("claimed_by")) == ("key:desk", claimed)


async def test_persons_that_a_relay_names_count_towards_no_quorum(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    """Whoever it names: here it invents them."""
    two = {"rules": [{"tool": "wipe", "then": "ask", "quorum": 2}]}
    async with opened(tmp_path, approval=two) as site:
        task = await site.waiting("desk")
        [asked] = task.pending
        hash = (await site.talk.agent.approval(asked["id"])).shown.hash
        for person in ("alice", "bob", "key:boss"):
            vote = {"data": {"id": asked["id"], "approved": True, "decided_by": person, "hash": hash}}
            assert await site.outcome("desk", V1.send(vote, task=task.id, id=person)) == DENIED
        approval = await site.talk.agent.approval(asked["id"])
        assert (approval.state, approval.votes) == ("pending", ())
        no = {"data": {"id": asked["id"], "approved": False, "decided_by": "alice"}}
        assert await site.outcome("desk", V1.send(no, task=task.id, id="no")) == "ok"
        assert site.talk.world.called("wipe") == 0


async def test_relay_that_is_an_approver_too_may_use_words(site: Site, autojump_clock: MockClock) -> None:
    site.keys.add("chief", "relay", "approver")
    task = await site.waiting("chief")
    done = await site.talk.told(words(V1, task.id), **site.by("chief"))
    assert done.state == "completed"


async def test_approver_decides_a_task_of_another(site: Site, autojump_clock: MockClock) -> None:
    task = await site.waiting("ann")
    done = await site.talk.told(words(V1, task.id), **site.by("boss"))
    assert done.state == "completed"
    assert await site.outcome("ann", words(V1, (await site.waiting("ann")).id)) == DENIED


async def test_id_of_an_approval_alone_is_no_way_into_the_task_of_another(
    site: Site, autojump_clock: MockClock
) -> None:
    task = await site.waiting("ann")
    [asked] = task.pending
    for said in f"yes {asked['id']}", {"data": {"id": asked["id"], "approved": True}}:
        assert (await site.talk.told(V1.send(said), **site.by("bob"))).context != task.context
        assert await site.outcome("desk", V1.send(said)) == "ok"  # its own new task
    assert site.talk.world.called("wipe") == 0
    done = await site.talk.told(V1.send(f"yes {asked['id']}"), **site.by("boss"))
    assert (done.id, done.state) == (task.id, "completed")


async def test_unknown_field_of_a_decision_is_named(site: Site, autojump_clock: MockClock) -> None:
    task = await site.waiting("desk")
    [asked] = task.pending
    answer = {"data": {"id": asked["id"], "approved": True, "by": "alice"}}
    refused = await site.talk.refused(V1.send(answer, task=task.id), **site.by("desk"))
    assert (refused.code, '"by"' in refused.message) == (-32602, True)


def test_each_refusal_has_its_error() -> None:
    internal = {"conversation_broken", "internal_error"}
    not_used = {"ambiguous_id", "invalid_cursor", "policy_not_found", "tool_changed", "tool_not_found"}
    not_used |= {"channel_not_found", "not_delivered", "notification_not_found"}
    assert set(get_args(ErrorCode)) - _REASONS.keys() == internal | not_used


# ------------------------------------------------------------------ push notifications


async def test_nothing_is_sent_after_the_key_of_a_config_is_revoked(
    site: Site, autojump_clock: MockClock, nursery: trio.Nursery
) -> None:
    receiver = await open_receiver(nursery)
    task = (await site.waiting("ann")).id
    site.keys.add("old", "admin")
    for name, id in (("ann", "kept"), ("old", "revoked")):
        url = f"{receiver.url}&id={id}"
        assert (
            await site.outcome(name, rpc("CreateTaskPushNotificationConfig", taskId=task, url=url, id=id))
            == "ok"
        )
    site.keys.revoke("old")
    await site.talk.told(words(V1, task), **site.by("boss"))
    await until(lambda: any("COMPLETED" in str(got.body) for got in receiver.got))
    assert {got.head.split()[1] for got in receiver.got} == {"/hook?key=1&id=kept"}
    # A client whose credential is valid sets it again.
    assert await site.outcome("ann", rpc("GetTaskPushNotificationConfig", taskId=task, id="revoked")) == "ok"


@pytest.mark.parametrize("ends", ["expiry", "set again"])
async def test_nothing_is_sent_after_the_credential_of_a_config_expires(
    site: Site, autojump_clock: MockClock, nursery: trio.Nursery, ends: str
) -> None:
    """Unless a client with a valid one sets the configuration again."""
    receiver = await open_receiver(nursery)
    task = (await site.waiting("ann")).id
    site.keys.add("ann", "operator", expires=system_clock() + 60)
    config = {"taskId": task, "url": receiver.url, "id": "c"}
    names = ["ann"] if ends == "expiry" else ["ann", "root"]
    for name in names:
        assert await site.outcome(name, rpc("CreateTaskPushNotificationConfig", **config)) == "ok"
    await trio.sleep(100)
    await site.talk.told(words(V1, task), **site.by("boss"))
    if ends == "expiry":
        assert await site.outcome("root", rpc("CreateTaskPushNotificationConfig", **config)) == "ok"
        assert receiver.got == []
    else:
        await until(lambda: any("COMPLETED" in str(got.body) for got in receiver.got))


# ------------------------------------------------------------------------------- cards


EXTENDED = {
    "1.0": rpc("GetExtendedAgentCard"),
    "1.0 HTTP": Ask("GET", "/a2a/extendedAgentCard", None, {"A2A-Version": "1.0"}),
    "0.3": rpc("agent/getAuthenticatedExtendedCard"),
    "0.3 HTTP": Ask("GET", "/a2a/v1/card"),
}


@pytest.mark.parametrize("name", EXTENDED)
async def test_extended_card_has_the_tools(site: Site, autojump_clock: MockClock, name: str) -> None:
    wanted = EXTENDED[name]
    assert (await site.talk.raw(wanted)).status_code == 401
    found = (await site.talk.raw(wanted, **site.by("vic"))).json()
    found = found.get("result", found)
    skills = {skill["id"]: skill["tags"] for skill in found["skills"]}
    assert skills.keys() == {"wipe", "slow", "files", "locked"}
    assert skills["wipe"] == ["tools", "needs approval"]
    site.keys.add("nobody", "unknown-role")
    assert await site.outcome("nobody", wanted) == DENIED
