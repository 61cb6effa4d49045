"""What the OpenAPI document says of A2A: every example is called."""

import json
from collections.abc import AsyncIterator
from typing import Any

import httpx2
import pytest
from trio.testing import MockClock

from stopgo.gateway.a2a.a2a_operations import TAGS
from stopgo.gateway.a2a.push import open_push
from stopgo.gateway.app import make_app
from stopgo.gateway.contract import examples as ex
from stopgo.gateway.contract.operation import VARIABLES, Operation
from stopgo.gateway.http.http_server import bind, open_server
from stopgo.runtime.json_text import dump_wire
from tests.http_client import http_client

from .receiver import resolving
from .talk import Talk

OPERATIONS = [operation for operations in TAGS.values() for operation in operations]
NEEDS_AUTH = {"a2aGetExtendedAgentCardV03"}


@pytest.fixture
async def client(talk: Talk) -> AsyncIterator[httpx2.AsyncClient]:
    """A client of the agent, which sends push notifications."""
    async with (
        open_push(talk.agent, resolve=resolving([])) as push,
        open_server(make_app(talk.agent, push=push), bind("127.0.0.1", 0)) as server,
        http_client(base_url=server.url) as client,
    ):
        yield client


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.id)
async def test_every_example_is_answered_as_described(
    client: httpx2.AsyncClient, autojump_clock: MockClock, operation: Operation
) -> None:
    push = VARIABLES["config"].example
    waiting = {
        "messageId": "m",
        "contextId": ex.CONVERSATION_ID,
        "role": "ROLE_USER",
        "parts": [{"text": "use wipe"}],
    }
    await client.post("/a2a/message:send", json={"message": waiting})
    configs = f"/a2a/tasks/{ex.CONVERSATION_ID}/pushNotificationConfigs"
    await client.post(configs, json={"id": push, "url": "https://client.example/push"})

    [answer] = [each for each in operation.own_responses if each.status == 200]
    request: dict[str, Any] = {
        "method": operation.method,
        "url": operation.path.format(task=ex.CONVERSATION_ID, config=push),
        "content": b"" if operation.body is None else dump_wire(operation.body),
        "headers": {"Content-Type": "application/json"},
    }
    async with client.stream(**request) as response:
        assert response.status_code == (400 if operation.id in NEEDS_AUTH else 200)
        if response.status_code == 400:
            return
        assert response.headers["Content-Type"] == answer.content_type
        if answer.content_type == "text/event-stream":
            told = await anext(line async for line in response.aiter_lines() if line.startswith("data: "))
            given, expected = json.loads(told[6:]), json.loads(answer.example.strip()[6:])
        else:
            given, expected = json.loads(await response.aread()), json.loads(dump_wire(answer.example))
    assert given.keys() >= expected.keys()
