"""The routes of approvals, sentence by sentence."""

from typing import Any

import attrs
import httpx2
import pytest

from stopgo.actors.approvals.yes_or_no import Rejected
from stopgo.actors.common.errors import AgentError
from stopgo.actors.conversation.result import Result
from stopgo.actors.log.words import events
from stopgo.gateway.contract import examples as ex

PATH = f"/approvals/{ex.APPROVAL_ID}"


async def test_the_inbox_lists_approvals(agent: Any, client: httpx2.AsyncClient) -> None:
    answer = await client.get("/approvals")
    assert answer.status_code == 200
    [approval] = answer.json()["approvals"]
    assert approval["uuid"] == ex.APPROVAL_ID
    assert "next_cursor" not in answer.json()
    assert agent.calls == [("approvals", (), {"state": "pending", "kind": None, "limit": 50, "cursor": None})]


async def test_approval_page_has_the_next_cursor(agent: Any, client: httpx2.AsyncClient) -> None:
    agent.more = "next"
    assert (await client.get("/approvals?limit=1")).json()["next_cursor"] == "next"


async def test_the_inbox_is_filtered(agent: Any, client: httpx2.AsyncClient) -> None:
    await client.get("/approvals?state=void&kind=outcome_unknown&limit=1&cursor=c")
    assert agent.calls[0][2] == {"state": "void", "kind": "outcome_unknown", "limit": 1, "cursor": "c"}


@pytest.mark.parametrize(
    ("query", "field"),
    [("state=open", "state"), ("kind=x", "kind"), ("limit=x", "limit"), ("kind=tool&kind=proxy", "kind")],
)
async def test_unknown_words_are_refused(client: httpx2.AsyncClient, query: str, field: str) -> None:
    answer = await client.get(f"/approvals?{query}")
    assert (answer.status_code, answer.json()["field"]) == (400, field)


async def test_one_approval(client: httpx2.AsyncClient) -> None:
    answer = await client.get(PATH)
    assert answer.status_code == 200
    approval = answer.json()["approval"]
    assert approval["state"] == "pending"
    assert approval["conversation_id"] == ex.CONVERSATION_ID
    assert approval["rule"] is None
    assert {"key", "question", "session_state", "path"}.isdisjoint(approval)


async def test_unknown_approvals_are_404(agent: Any, client: httpx2.AsyncClient) -> None:
    assert (await client.get("/approvals/nope")).json()["code"] == "approval_not_found"
    agent.raises["decide"] = AgentError("approval_not_found", "there is no approval nope")
    answer = await client.post("/approvals/nope", json={"approved": True})
    assert (answer.status_code, answer.json()["code"]) == (404, "approval_not_found")


async def test_a_decision_goes_to_the_agent_as_it_is(agent: Any, client: httpx2.AsyncClient) -> None:
    agent.result = Result("Added.", "finished", run_id="r")
    words = {"answer": "YES", "arguments": {"name": "x"}, "reason": "r", "decided_by": "me"}
    answer = await client.post(PATH, json=words, headers={"Authorization": "Bearer abc"})
    assert answer.status_code == 200
    assert answer.json()["result"]["response"] == "Added."
    options = {"key": None, "token": "abc", "traceparent": None}
    assert agent.calls == [("decide", (ex.APPROVAL_ID, words), options)]


async def test_a_decision_need_not_wait(agent: Any, client: httpx2.AsyncClient) -> None:
    answer = await client.post(PATH, json={"approved": True}, headers={"Prefer": "respond-async"})
    assert answer.status_code == 202
    assert answer.headers["Location"] == f"/conversations/{ex.CONVERSATION_ID}"
    assert agent.calls[0][0] == "post_decision"


@pytest.mark.parametrize(
    ("code", "status"),
    [("decision_required", 400), ("invalid_arguments", 422), ("denied_by_policy", 422)],
)
async def test_an_invalid_decision_is_refused(
    agent: Any, client: httpx2.AsyncClient, code: Any, status: int
) -> None:
    agent.raises["decide"] = AgentError(code, "no")
    answer = await client.post(PATH, json={})
    assert (answer.status_code, answer.json()["code"]) == (status, code)


async def test_late_decision_gets_the_decided_approval(agent: Any, client: httpx2.AsyncClient) -> None:
    decision = Rejected(decided_by="someone")
    agent.grow(events.ApprovalResolved(ex.APPROVAL_ID, decision, "c2", False))
    agent.raises["decide"] = AgentError("already_decided", "it is decided")
    answer = await client.post(PATH, json={"approved": True})
    assert answer.status_code == 409
    approval = answer.json()["approval"]
    assert approval["state"] == "decided"
    assert approval["decision"] == {
        "approved": False,
        "decided_by": "someone",
        "decided_at": "2026-11-21T10:00:00.000Z",
    }


@pytest.mark.parametrize("code", ["expired", "void"])
async def test_expired_or_void_approval_names_its_successor(
    agent: Any, client: httpx2.AsyncClient, code: Any
) -> None:
    requested = agent.log[4]
    agent.log[4] = attrs.evolve(requested, body={**requested.body, "superseded_by": "another"})
    agent.raises["decide"] = AgentError(code, "it is gone")
    answer = await client.post(PATH, json={"approved": True})
    assert answer.status_code == 410
    assert answer.json()["code"] == code
    assert answer.json()["superseded_by"] == "another"
    assert answer.json()["approval"]["uuid"] == ex.APPROVAL_ID
