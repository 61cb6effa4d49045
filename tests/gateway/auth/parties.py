"""A served agent with `auth:`, an API key for each party, and a conversation that waits for an approval."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import attrs
import httpx2

from stopgo.actors.agent.agent import Agent
from stopgo.actors.agent.open_agent import open_agent
from stopgo.config.load import load_config
from stopgo.gateway.a2a.push import open_push
from stopgo.gateway.app import make_app
from stopgo.gateway.auth.key_changes import new_key, revoked
from stopgo.gateway.auth.key_file import KeyFile
from stopgo.gateway.auth.open_authenticator import open_authenticator
from stopgo.gateway.http.http_server import HttpServer, bind, open_server
from stopgo.gateway.http.quart_app import Application
from tests.gateway.wiping import wiping_server
from tests.http_client import http_client

PARTIES: Mapping[str, tuple[str, ...]] = {
    "owner": ("operator",),
    "stranger": ("operator",),
    "viewer": ("viewer",),
    "approver": ("wiper",),
    "outsider": ("billing",),
    "relay": ("relay",),
    "admin": ("admin",),
    "nobody": ("no-such-role",),
}
"""The roles of each party. Their subjects are their names."""

_PAST, _FUTURE = 1.0, 9e9
AGENT = """
name: cleaner
description: Cleans up.
llm: {{model: 'script:replies.yaml'}}
mcp_servers: [{{name: disks, brought_by: program}}]
auth:
  api_keys: true
  roles:
    wiper: {{tools: ['wipe*']}}
    billing: {{servers: [billing]}}
{more}
"""
REPLIES = """
replies:
  - when: {user: 'wipe', call: 1}
    tool_calls: [{name: wipe, arguments: {name: a}}]
  - text: done
"""


@attrs.frozen(eq=False)
class Served:
    agent: Agent
    app: Application
    server: HttpServer
    client: httpx2.AsyncClient
    keys: Mapping[str, str]
    """By party; also `expired`, `revoked` and `forged` ones, of an admin."""

    def headers(self, party: str | None) -> dict[str, str]:
        return {} if party is None else {"X-API-Key": self.keys[party]}

    async def call(self, party: str | None, method: str, path: str, **more: Any) -> httpx2.Response:
        headers = {**self.headers(party), **more.pop("headers", {})}
        return await self.client.request(method, path, headers=headers, **more)

    async def wiping(self, party: str = "owner") -> tuple[str, str]:
        """A new conversation of the party that waits for an approval: the ids of both."""
        answer = await self.call(party, "POST", "/conversations", json={"message": "wipe"})
        assert answer.status_code == 201, answer.text
        result = answer.json()["result"]
        return answer.json()["conversation"]["id"], result["approval"]["uuid"]


def make_keys(folder: Path, parties: Mapping[str, tuple[str, ...]] = PARTIES) -> Mapping[str, str]:
    texts: dict[str, str] = {}
    with KeyFile.in_directory(folder).changing() as stored:
        for name, roles in parties.items():
            key, texts[name] = new_key(stored, name, roles, name, now=_PAST, expires=_FUTURE)
            stored.append(key)
        key, texts["expired"] = new_key(stored, "late", ("admin",), "late", now=_PAST, expires=_PAST + 1)
        stored.append(key)
        key, texts["revoked"] = new_key(stored, "gone", ("admin",), "gone", now=_PAST, expires=None)
        stored.append(key)
        stored[:] = revoked(stored, "gone", now=_PAST)
    texts["forged"] = texts["admin"][:-4] + "AAAA"
    return texts


@asynccontextmanager
async def serving(tmp_path: Path, more: str = "", **kept: Any) -> AsyncIterator[Served]:
    """Serve the agent. `more` is added to its file."""
    (tmp_path / "replies.yaml").write_text(REPLIES)
    (tmp_path / "agent.yaml").write_text(AGENT.format(more=more))
    data = tmp_path / "data"
    config = load_config(tmp_path / "agent.yaml", environ=kept.pop("environ", {}), data_dir=data)
    keys = make_keys(data, {**PARTIES, **kept.pop("parties", {})})
    async with (
        open_agent(config, servers={"disks": wiping_server()}) as agent,
        open_push(agent) as push,
        open_authenticator(agent) as authenticator,
    ):
        app = make_app(agent, push=push, authenticator=authenticator)
        async with (
            open_server(app, bind("127.0.0.1", 0)) as server,
            http_client(base_url=server.url, verify=False) as client,
        ):
            yield Served(agent, app, server, client, keys)
