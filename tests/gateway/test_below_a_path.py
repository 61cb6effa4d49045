"""An agent whose `public_url` has a path, with a proxy that strips the path and with one that keeps it."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Callable
from typing import Any

import attrs
import httpx2
import pytest

from stopgo.config.sections.agent_config import ServerConfig
from stopgo.gateway.contract import examples as ex
from stopgo.gateway.http.http_server import HttpServer
from tests.gateway.auth.web_sockets import socket
from tests.http_client import http_client

PATH = "/agents/one%C3%A9"
"""As browsers send it; the file may have it with or without its escapes."""


@pytest.fixture(params=["/agents/one%C3%A9", "/agents/oneé/"])
async def served(
    agent: Any, serve: Callable[..., Any], request: pytest.FixtureRequest
) -> AsyncIterator[tuple[HttpServer, httpx2.AsyncClient]]:
    public = ServerConfig(public_url=f"https://agents.example{request.param}")
    agent.config = attrs.evolve(agent.config, server=public)
    async with serve(agent) as (server, _), http_client(base_url=server.url) as client:
        yield server, client


@pytest.mark.parametrize("kept", [PATH, ""], ids=["kept", "stripped"])
async def test_everything_is_found_below_the_path(
    served: tuple[HttpServer, httpx2.AsyncClient], kept: str
) -> None:
    server, client = served
    page = await client.get(f"{kept}/")
    for name in re.findall(r'(?:src|href)="([^"#]+)"', page.text):
        assert not name.startswith("/")
        assert (await client.get(f"{kept}/{name}")).status_code == 200
    for path in ("/docs", "/health", f"/conversations/{ex.CONVERSATION_ID}", "/.well-known/agent-card.json"):
        assert (await client.get(kept + path)).status_code == 200
    async with socket(server, f"{kept}/events/ws") as connection:
        assert "seq" in await connection.get_message()
    # A browser that follows a link of another site may open the page, and nothing else.
    link = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}
    assert (await client.get(f"{kept}/", headers=link)).status_code == 200
    assert (await client.get(f"{kept}/docs", headers=link)).status_code == 403


async def test_addresses_in_answers_have_the_path(served: tuple[HttpServer, httpx2.AsyncClient]) -> None:
    _, client = served
    asynchronous = {"Prefer": "respond-async"}
    answer = await client.post("/conversations", json={"message": "hello"}, headers=asynchronous)
    assert answer.headers["Location"].startswith("/agents/one%C3%A9/conversations/")
    spec = json.loads((await client.get("/openapi.json")).content)
    assert spec["servers"] == [{"url": "/agents/one%C3%A9/"}]


async def test_the_path_without_its_slash_is_redirected(
    served: tuple[HttpServer, httpx2.AsyncClient],
) -> None:
    """The addresses in the page are relative."""
    _, client = served
    answer = await client.get(PATH, follow_redirects=False)
    assert (answer.status_code, answer.headers["Location"]) == (308, f"{PATH}/")


@pytest.mark.parametrize("path", ["/agents/one%C3%A9x/health", "/agents/health", "/agents/one%C3%A9//health"])
async def test_other_paths_are_not_found(served: tuple[HttpServer, httpx2.AsyncClient], path: str) -> None:
    _, client = served
    assert (await client.get(path)).status_code == 404
