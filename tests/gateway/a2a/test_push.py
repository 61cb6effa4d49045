"""Push notifications, from a request to a receiver over real sockets."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import attrs
import httpx2
import pytest
import trio

from stopgo.actors.agent import Agent, open_agent
from stopgo.config.load import load_config
from stopgo.gateway.a2a.push import PushNotifier, open_push
from stopgo.gateway.app import make_app
from stopgo.gateway.http_server import bind, open_server
from tests.waiting import until

REPLIES = """
replies:
  - when: {user: 'add (?P<name>\\S+)', call: 1}
    text: let me see
    tool_calls: [{name: resources_add, arguments: {name: '${name}', value: 1}}]
  - when: {tool_result: '"name": "(?P<name>[^"]+)"'}
    text: added ${name}
  - when: {user: '(?P<what>.*)'}
    text: you said ${what}
"""
SERVER = (
    "mcp_servers: [{name: resources, command: stopgo, args: [mcp-resources, --db, '${data_dir}/r.db']}]\n"
)
OK = b"HTTP/1.1 204 No Content\r\n\r\n"
SECRET = "s3cr3t-credentials"


@attrs.frozen
class Got:
    head: str
    body: Any

    def header(self, name: str) -> str | None:
        for line in self.head.splitlines()[1:]:
            if line.lower().startswith(f"{name.lower()}:"):
                return line.partition(":")[2].strip()
        return None


@attrs.define(eq=False)
class Receiver:
    """An HTTP server that answers what it is told to, the last answer again and again."""

    port: int
    answers: list[bytes] = attrs.field(factory=lambda: [OK])
    got: list[Got] = attrs.field(factory=list)
    hold: trio.Event | None = None
    """What answers wait for."""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/hook?key=1"

    async def serve(self, stream: trio.SocketStream) -> None:
        async with stream:
            read = b""
            while b"\r\n\r\n" not in read:
                piece = await stream.receive_some()
                if not piece:
                    return
                read += piece
            head, _, body = read.partition(b"\r\n\r\n")
            found = Got(head.decode(), None)
            length = int(found.header("Content-Length") or 0)
            while len(body) < length:
                body += await stream.receive_some()
            self.got.append(attrs.evolve(found, body=json.loads(body)))
            if self.hold is not None:
                await self.hold.wait()
            try:
                await stream.send_all(self.answers[0] if len(self.answers) == 1 else self.answers.pop(0))
            except trio.BrokenResourceError:
                return

    @property
    def states(self) -> list[str]:
        """Those that were sent, in both versions."""
        statuses = [
            (got.body.get("statusUpdate") or got.body).get("status")
            for got in self.got
            if "artifactUpdate" not in got.body
        ]
        return [status["state"].removeprefix("TASK_STATE_").lower() for status in statuses]


@pytest.fixture
async def receiver(nursery: trio.Nursery) -> Receiver:
    listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
    found = Receiver(listeners[0].socket.getsockname()[1])
    nursery.start_soon(trio.serve_listeners, found.serve, listeners)
    return found


@attrs.frozen
class Client:
    http: httpx2.AsyncClient
    push: PushNotifier | None
    agent: Agent

    async def call(self, method: str, params: Mapping[str, Any]) -> Any:
        """The result; of an error, its code."""
        version = {} if "/" in method else {"A2A-Version": "1.0"}
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        answer = (await self.http.post("/a2a", json=body, headers=version)).json()
        return answer["result"] if "result" in answer else answer["error"]["code"]

    async def send(self, text: str, push: Mapping[str, Any] | None = None, **more: Any) -> Any:
        message = {"messageId": text, "role": "ROLE_USER", "parts": [{"text": text}], **more}
        params = {"message": message}
        if push is not None:
            params["configuration"] = {"taskPushNotificationConfig": push}
        result = await self.call("SendMessage", params)
        return result["task"] if isinstance(result, dict) else result

    async def set(self, task: str, url: str, **more: Any) -> Any:
        return await self.call("CreateTaskPushNotificationConfig", {"taskId": task, "url": url, **more})

    async def listed(self, task: str) -> Any:
        return (await self.call("ListTaskPushNotificationConfigs", {"taskId": task}))["configs"]


Open = Callable[..., Any]


@pytest.fixture
async def opened(tmp_path: Path) -> Open:
    """An agent in one data directory, with its notifier, served: ``async with opened() as client``."""
    (tmp_path / "replies.yaml").write_text(REPLIES)

    @asynccontextmanager
    async def open_it(
        *, private: bool = True, tools: bool = False, pushes: bool = True, journal: Any = None, **options: Any
    ) -> AsyncIterator[Client]:
        text = f"name: a\nllm: {{model: 'script:replies.yaml'}}\nserver: {{push_to_private: {private}}}\n"
        (tmp_path / "agent.yaml").write_text(text.replace("True", "true").replace("False", "false"))
        if tools:
            with (tmp_path / "agent.yaml").open("a") as file:
                file.write(SERVER)
        config = load_config(tmp_path / "agent.yaml", environ={}, data_dir=tmp_path / "data")
        async with AsyncExitStack() as stack:
            agent = await stack.enter_async_context(open_agent(config, journal=journal))
            push = await stack.enter_async_context(open_push(agent, **options)) if pushes else None
            server = await stack.enter_async_context(
                open_server(make_app(agent, push=push), bind("127.0.0.1", 0))
            )
            http = await stack.enter_async_context(
                httpx2.AsyncClient(base_url=server.url, timeout=None, trust_env=False)
            )
            yield Client(http, push, agent)

    return open_it


# -------------------------------------------------------------------- what is sent


async def test_each_update_of_a_new_task_is_sent_in_order(opened: Open, receiver: Receiver) -> None:
    config = {
        "id": "c1",
        "url": receiver.url,
        "token": "t0ken",
        "authentication": {"scheme": "Basic", "credentials": SECRET},
    }
    async with opened() as client:
        task = await client.send("hello", config)
        await until(lambda: receiver.states[-1:] == ["completed"])
        assert task["status"]["state"] == "TASK_STATE_COMPLETED"
    first = receiver.got[0]
    assert first.head.splitlines()[0] == "POST /hook?key=1 HTTP/1.1"
    assert first.header("Host") == f"127.0.0.1:{receiver.port}"
    assert first.header("Content-Type") == "application/a2a+json"
    assert first.header("Authorization") == f"Basic {SECRET}"
    assert first.header("X-A2A-Notification-Token") == "t0ken"
    assert [list(got.body) for got in receiver.got] == [
        ["statusUpdate"],
        ["artifactUpdate"],
        ["statusUpdate"],
    ]
    assert receiver.states == ["working", "completed"]
    assert {got.body[next(iter(got.body))]["taskId"] for got in receiver.got} == {task["id"]}
