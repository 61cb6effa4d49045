"""The gateway in front of a real agent."""

import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

import httpx2
import pytest
import trio

from stopgo.actors.agent.agent import Agent
from stopgo.actors.agent.open_agent import open_agent
from stopgo.config.load import load_config
from stopgo.config.sections.agent_config import AgentConfig
from stopgo.gateway.servers.resource_store import ResourceStore
from stopgo.gateway.servers.resources import resource_server

Asked = tuple[Agent, httpx2.AsyncClient]

REPLIES = """
replies:
  - when: {user: slow}
    text: at last
    delay: 30
  - when: {user: 'add (?P<name>\\S+)', call: 1}
    tool_calls: [{name: resources_add, arguments: {name: '${name}', value: 1}}]
  - when: {tool_result: '"name": "(?P<name>[^"]+)"'}
    text: added ${name}
  - when: {user: '(?P<what>.*)'}
    text: you said ${what}
"""
SERVER = "mcp_servers: [{name: resources, brought_by: program}]\n"


@pytest.fixture
async def run(tmp_path: Path, serve: Callable[[Any], Any]) -> Callable[..., Any]:
    (tmp_path / "replies.yaml").write_text(REPLIES)

    def configured(more: str = "") -> Any:
        (tmp_path / "agent.yaml").write_text(f"name: a\nllm: {{model: 'script:replies.yaml'}}\n{more}")
        return load_config(tmp_path / "agent.yaml", environ={}, data_dir=tmp_path / "data")

    return configured


@asynccontextmanager
async def open_with_resources(config: AgentConfig) -> AsyncIterator[Agent]:
    """Open an agent whose tool server runs in this process."""
    with closing(ResourceStore(config.data_dir / "r.db")) as store:
        async with open_agent(config, servers={"resources": resource_server(store)}) as agent:
            yield agent


async def test_a_client_that_goes_away_takes_nothing_with_it(
    run: Any, serve: Any, mock_clock: trio.testing.MockClock
) -> None:
    async with open_agent(run()) as agent, serve(agent) as (_, client):
        begun = (await client.post("/conversations")).json()["conversation"]["id"]
        with trio.CancelScope() as scope:
            async with trio.open_nursery() as nursery:

                @nursery.start_soon
                async def leave() -> None:
                    while (await agent.get(begun)).head.run is None:
                        await trio.testing.wait_all_tasks_blocked(0.001)
                        mock_clock.jump(0.01)
                    scope.cancel()

                await client.post(f"/conversations/{begun}/messages", json={"message": "slow"})
        assert scope.cancelled_caught
        async with client.stream("GET", f"/conversations/{begun}/events") as stream:
            mock_clock.autojump_threshold = 0.0  # the model has nothing else to wait for
            async for line in stream.aiter_lines():
                if line == "event: run.finished":
                    break
        messages = (await client.get(f"/conversations/{begun}")).json()["conversation"]["messages"]
        assert messages[-1]["content"] == "at last"


async def test_tools_are_listed_with_warnings(run: Any, serve: Any) -> None:
    rules = "approval: {rules: [{then: run, tool: resources_ad}]}\n"
    async with open_with_resources(run(SERVER + rules)) as agent, serve(agent) as (_, client):
        answer = (await client.get("/tools")).json()
    assert len(answer["tools"]) == 3
    assert answer["warnings"] == [
        'approval.rules[0].tool: no tool is called "resources_ad" (did you mean "resources_add"?)'
    ]


async def test_a_repeat_gets_the_first_answer(run: Any, serve: Any) -> None:
    async with open_agent(run()) as agent, serve(agent) as (_, client):
        key = {"Idempotency-Key": "k"}
        first = await client.post("/conversations", json={"message": "hi"}, headers=key)
        again = await client.post("/conversations", json={"message": "hi"}, headers=key)
        assert first.status_code == again.status_code == 201
        assert first.json() == again.json()
        other = await client.post("/conversations", json={"message": "ho"}, headers=key)
        assert (other.status_code, other.json()["code"]) == (422, "idempotency_key_reused")

        path = f"/conversations/{first.json()['conversation']['id']}/messages"
        first = await client.post(path, json={"message": "hi"}, headers=key)
        await client.post(path, json={"message": "ho"})
        again = await client.post(path, json={"message": "hi"}, headers=key)
        assert again.json()["result"] == first.json()["result"]
        assert len(again.json()["conversation"]["messages"]) == 7
    async with open_agent(run()) as agent, serve(agent) as (_, client):
        again = await client.post(path, json={"message": "hi"}, headers=key)
        assert again.json()["result"] == first.json()["result"]
        assert len((await client.get("/conversations")).json()["conversations"]) == 1


async def test_what_is_refused_uses_up_no_key(run: Any, serve: Any) -> None:
    async with open_agent(run()) as agent, serve(agent) as (_, client):
        begun = (await client.post("/conversations")).json()["conversation"]["id"]
        key = {"Idempotency-Key": "k"}
        path = f"/conversations/{begun}/messages"
        assert (await client.post(path, json={"message": ""}, headers=key)).status_code == 400
        assert (await client.post(path, content=b"{", headers=key)).status_code == 400
        answer = await client.post(path, json={"message": "hi"}, headers=key)
        assert answer.json()["result"]["response"] == "you said hi"


async def test_sessions_are_stored_when_a_conversation_is_created(run: Any, serve: Any) -> None:
    async with open_agent(run()) as agent, serve(agent) as (_, client):
        begun = await client.post("/conversations", headers={"X-Session-ID": "mine"})
        path = f"/conversations/{begun.json()['conversation']['id']}"
        assert begun.json()["conversation"]["session_id"] == begun.headers["X-Session-ID"] == "mine"
        later = await client.post(f"{path}/messages", json={"message": "x"}, headers={"X-Session-ID": "no"})
        assert later.headers["X-Session-ID"] == later.json()["conversation"]["session_id"] == "mine"


async def test_too_many_messages_at_once(run: Any, serve: Any) -> None:
    async with open_agent(run()) as agent, serve(agent) as (_, client):
        begun = (await client.post("/conversations")).json()["conversation"]["id"]
        statuses: list[int] = []

        async def send(number: int) -> None:
            answer = await client.post(
                f"/conversations/{begun}/messages",
                json={"message": f"slow {number}"},
                headers={"Prefer": "respond-async"},
            )
            statuses.append(answer.status_code)
            if answer.status_code == 429:
                assert answer.json()["code"] == "queue_full"
                assert answer.headers["Retry-After"]

        async with trio.open_nursery() as nursery:
            for number in range(50):
                nursery.start_soon(send, number)
        assert set(statuses) == {202, 429}
        assert 16 <= statuses.count(202) <= 18
        await agent.cancel(begun)
        assert (await client.delete(f"/conversations/{begun}")).status_code == 204
        assert (await client.get(f"/conversations/{begun}")).status_code == 404


async def test_paging_through_conversations(run: Any, serve: Any) -> None:
    async with open_agent(run()) as agent, serve(agent) as (_, client):
        made = []
        for number in range(5):
            answer = await client.post("/conversations", json={"message": f"number {number}"})
            made.append(answer.json()["conversation"]["id"])
        seen: list[str] = []
        query: dict[str, Any] = {"limit": 2}
        while True:
            page = (await client.get("/conversations", params=query)).json()
            assert page["summary"] == {"total": 5, "active": 5, "waiting_approval": 0, "completed": 0}
            seen += [item["id"] for item in page["conversations"]]
            if "next_cursor" not in page:
                break
            query["cursor"] = page["next_cursor"]
        assert seen == made[::-1]
        found = (await client.get("/conversations", params={"q": "NUMBER 3"})).json()["conversations"]
        assert [item["title"] for item in found] == ["number 3"]
        wrong = await client.get("/conversations?cursor=nonsense")
        assert (wrong.status_code, wrong.json()["code"]) == (400, "invalid_cursor")
        await client.post(f"/conversations/{made[0]}/complete")
        done = (await client.get("/conversations?status=completed")).json()
        assert [item["id"] for item in done["conversations"]] == [made[0]]
        refused = await client.post(f"/conversations/{made[0]}/messages", json={"message": "x"})
        assert (refused.status_code, refused.json()["code"]) == (409, "conversation_completed")


async def test_an_approval_from_question_to_result(run: Any, serve: Any) -> None:
    async with open_with_resources(run(SERVER)) as agent, serve(agent) as (_, client):
        asked = (await client.post("/conversations", json={"message": "add web-1"})).json()
        approval = asked["result"]["approval"]
        assert asked["result"]["waiting_approval"] is True
        assert asked["conversation"]["pending_approval"] == approval
        assert approval["tool_args"] == {"name": "web-1", "value": 1}
        path = f"/conversations/{asked['conversation']['id']}"

        waiting = await client.post(f"{path}/messages", json={"message": "more"})
        assert (waiting.status_code, waiting.json()["code"]) == (409, "waiting_approval")
        assert waiting.json()["approvals"] == [approval]
        assert waiting.json()["result"]["approval"] == approval
        inbox = (await client.get("/approvals")).json()["approvals"]
        assert (
            inbox == [approval] == [(await client.get(f"/approvals/{approval['uuid']}")).json()["approval"]]
        )
        listed = (await client.get("/conversations")).json()["conversations"][0]
        assert listed["pending_approval"] == approval

        decide = f"/approvals/{approval['uuid']}"
        for words in ({}, {"approved": "yes"}, {"action": "maybe"}, {"answer": "ok"}):
            refused = await client.post(decide, json=words)
            assert (refused.status_code, refused.json()["code"]) in (
                (400, "decision_required"),
                (400, "invalid_request"),
            )
        wrong = await client.post(decide, json={"approved": True, "arguments": {"name": 1}})
        assert (wrong.status_code, wrong.json()["code"]) == (422, "invalid_arguments")
        done = await client.post(decide, json={"answer": "YES", "decided_by": "me"})
        assert done.json()["result"]["response"] == "added web-1"
        late = await client.post(decide, json={"approved": False})
        assert (late.status_code, late.json()["code"]) == (409, "already_decided")
        assert late.json()["approval"]["decision"]["decided_by"] == "me"

        stored = json.dumps((await client.get(path)).json())
        assert "added web-1" in stored
