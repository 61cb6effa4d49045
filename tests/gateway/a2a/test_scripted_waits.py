"""Tasks that wait for a message because a script dictates it. Unlike other waiting tasks, they have no
run."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
import trio

from stopgo.actors.agent.open_agent import open_agent
from stopgo.config.load import load_config
from stopgo.gateway.app import make_app
from stopgo.gateway.http.http_server import bind, open_server
from tests.http_client import http_client

REPLIES = """
replies:
  - when: {message_id: 'ask-*'}
    a2a: {state: input-required}
  - text: done
"""


@pytest.fixture
async def http(tmp_path: Path) -> AsyncIterator[httpx2.AsyncClient]:
    (tmp_path / "replies.yaml").write_text(REPLIES)
    (tmp_path / "agent.yaml").write_text("name: a\nllm: {model: 'script:replies.yaml'}\n")
    config = load_config(tmp_path / "agent.yaml", environ={}, data_dir=tmp_path / "data")
    async with (
        open_agent(config) as agent,
        open_server(make_app(agent), bind("127.0.0.1", 0)) as server,
        http_client(base_url=f"{server.url}/a2a", trust_env=False) as client,
    ):
        yield client


async def say(http: httpx2.AsyncClient, id: str, **more: str) -> Any:
    message = {"messageId": id, "role": "ROLE_USER", "parts": [{"text": "hi"}], **more}
    answer = (await http.post("/message:send", json={"message": message})).json()
    return answer["task"] if "task" in answer else answer["error"]["details"][0]["reason"]


async def state(http: httpx2.AsyncClient, id: str) -> str:
    return str((await http.get(f"/tasks/{id}")).json()["status"]["state"])


async def follow(
    http: httpx2.AsyncClient, id: str, states: list[str], task_status: trio.TaskStatus[None]
) -> None:
    async with http.stream("POST", f"/tasks/{id}:subscribe") as response:
        async for line in response.aiter_lines():
            if line.startswith("data: "):
                item = next(iter(json.loads(line[6:]).values()))
                states += [item["status"]["state"]] if "status" in item else []
                if len(states) == 1:
                    task_status.started()


async def test_next_message_continues_the_task(http: httpx2.AsyncClient) -> None:
    task = await say(http, "ask-1")
    assert task["status"]["state"] == "TASK_STATE_INPUT_REQUIRED"
    assert (await say(http, "ask-2", taskId=task["id"]))["status"] != task["status"]
    assert await state(http, task["id"]) == "TASK_STATE_INPUT_REQUIRED"
    assert (await say(http, "end", taskId=task["id"]))["status"]["state"] == "TASK_STATE_COMPLETED"


async def test_subscriber_gets_the_final_state(http: httpx2.AsyncClient) -> None:
    id = (await say(http, "ask-1"))["id"]
    states: list[str] = []
    async with trio.open_nursery() as nursery:
        await nursery.start(follow, http, id, states)
        await say(http, "end", taskId=id)
    assert states == ["TASK_STATE_INPUT_REQUIRED", "TASK_STATE_WORKING", "TASK_STATE_COMPLETED"]


async def test_cancel_without_a_body_is_final(http: httpx2.AsyncClient) -> None:
    id = (await say(http, "ask-1"))["id"]
    states: list[str] = []
    async with trio.open_nursery() as nursery:
        await nursery.start(follow, http, id, states)
        answer = await http.post(f"/tasks/{id}:cancel")
        assert answer.json()["status"]["state"] == "TASK_STATE_CANCELED"
    assert states == ["TASK_STATE_INPUT_REQUIRED", "TASK_STATE_CANCELED"]
    assert await state(http, id) == "TASK_STATE_CANCELED"
    again = (await http.post(f"/tasks/{id}:cancel")).json()
    assert again["error"]["details"][0]["reason"] == "TASK_NOT_CANCELABLE"
    assert await say(http, "end", taskId=id) == "UNSUPPORTED_OPERATION"


async def test_context_must_be_that_of_the_task(http: httpx2.AsyncClient) -> None:
    id = (await say(http, "ask-1"))["id"]
    assert await say(http, "ask-2", taskId=id, contextId="other") == "INVALID_PARAMS"
    message = {"messageId": "end", "role": "ROLE_USER", "content": [{"text": "hi"}], "taskId": id}
    answer = await http.post("/v1/message:send", json={"message": {**message, "contextId": "other"}})
    assert answer.json()["task"]["id"] == id  # version 0.3 does not ask for that
