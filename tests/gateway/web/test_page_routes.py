"""The routes of the page: its files and headers, Markdown, and its data."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx2
import pytest
import trio

from stopgo.actors.agent.open_agent import open_agent
from stopgo.config.sections.agent_config import AgentConfig
from stopgo.config.sections.nodes import LlmNode
from stopgo.gateway.contract import examples as ex
from stopgo.gateway.http.body import MAX_BODY
from stopgo.gateway.web import markdown_tokens
from stopgo.gateway.web.page_files import read_page
from stopgo.gateway.web.page_routes import MAX_CHARACTERS, MAX_TEXTS
from tests.waiting import until

FILES = read_page()
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'"
)
TYPES = {
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}
PATHS = ["/", "/favicon.ico", *(f"/page/{name}" for name in FILES.others)]


def test_document_preloads_modules_in_import_order() -> None:
    named = re.findall(r'<link rel="modulepreload" href="page/(.+?)">', FILES.first.body.decode())
    assert sorted(named) == sorted(name for name in FILES.others if name.endswith(".js"))
    assert named[0] == "main.js"
    assert named.index("shell/sidebar.js") < named.index("chat/chat.js") < named.index("core/markdown.js")


@pytest.mark.parametrize("path", PATHS)
async def test_a_file_comes_with_headers_that_let_it_do_little(client: httpx2.AsyncClient, path: str) -> None:
    answer = await client.get(path)
    assert answer.status_code == 200
    assert answer.headers["Content-Security-Policy"] == POLICY
    assert answer.headers["Referrer-Policy"] == "no-referrer"
    assert answer.headers["Cross-Origin-Opener-Policy"] == "same-origin"
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert answer.headers["Cache-Control"] == "no-cache"


async def test_each_page_file_has_its_content_type(client: httpx2.AsyncClient) -> None:
    files = read_page()
    for name, file in files.others.items():
        answer = await client.get(f"/page/{name}")
        assert answer.content == file.body
        assert answer.headers["Content-Type"] == TYPES[name.rpartition(".")[2]]
    first = await client.get("/")
    assert first.content == files.first.body
    assert first.headers["Content-Type"] == "text/html; charset=utf-8"
    assert (await client.get("/favicon.ico")).content == files.others["icon.svg"].body


@pytest.mark.parametrize("path", PATHS)
async def test_a_client_that_has_a_file_does_not_get_it_again(client: httpx2.AsyncClient, path: str) -> None:
    etag = (await client.get(path)).headers["ETag"]
    for known in (etag, f"W/{etag}", f'"other", {etag}', "*"):
        answer = await client.get(path, headers={"If-None-Match": known})
        assert (answer.status_code, answer.content) == (304, b"")
        assert answer.headers["ETag"] == etag
        assert answer.headers["Content-Security-Policy"] == POLICY
    for other in ('"other"', etag[:-1], ""):
        assert (await client.get(path, headers={"If-None-Match": other})).status_code == 200


def test_the_document_has_nothing_that_its_policy_forbids() -> None:
    html = FILES.first.body.decode()
    assert re.findall(r"<script(?![^>]*\ssrc=)|<style|\sstyle=|\son\w+=|<base|<form|<i?frame", html) == []
    linked = re.findall(r'(?:src|href)="([^"#]+)"', html)
    assert [each for each in linked if each.removeprefix("page/") not in FILES.others] == []


@pytest.mark.parametrize(
    "name",
    [
        "nope.js",
        "index.html",
        "",
        "main.js/",
        "markdown",
        "../docs.html",
        "%2e%2e/docs.html",
        "..%2fdocs.html",
    ],
)
async def test_there_is_no_other_file(client: httpx2.AsyncClient, name: str) -> None:
    answer = await client.get(httpx2.URL(str(client.base_url), raw_path=f"/page/{name}".encode()))
    assert answer.status_code == 404
    assert answer.json()["code"] == "not_found"


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/"),
        ("POST", "/page/main.js"),
        ("DELETE", "/page/agent"),
        ("POST", f"/page/approvals/{ex.APPROVAL_ID}"),
    ],
)
async def test_another_method_is_refused(client: httpx2.AsyncClient, method: str, path: str) -> None:
    answer = await client.request(method, path)
    assert answer.status_code == 405
    assert answer.json()["code"] == "method_not_allowed"


# ------------------------------------------------------------------------------ Markdown


async def parsed(client: httpx2.AsyncClient, *texts: str) -> Any:
    answer = await client.post("/page/markdown", json={"texts": texts})
    assert answer.status_code == 200, answer.text
    return answer.json()["documents"]


async def test_markdown_comes_as_tokens(client: httpx2.AsyncClient) -> None:
    em = {"tag": "em", "children": ["a"]}
    assert await parsed(client) == []
    assert await parsed(client, "*a*", "", "<b>") == [
        [{"tag": "p", "children": [em]}],
        [],
        [{"tag": "p", "children": ["<b>"]}],
    ]


async def test_a_long_text_is_not_parsed(client: httpx2.AsyncClient) -> None:
    text = "*a* " * 20_000
    assert await parsed(client, text) == [[{"tag": "pre", "children": [text]}]]


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        ({}, 400, "invalid_request"),
        ({"texts": None}, 400, "invalid_request"),
        ({"texts": "a"}, 400, "invalid_request"),
        ({"texts": {"a": "b"}}, 400, "invalid_request"),
        ({"texts": ["a", 1]}, 400, "invalid_request"),
        ({"texts": ["a"] * (MAX_TEXTS + 1)}, 400, "invalid_request"),
        ({"texts": ["a" * MAX_CHARACTERS, "a"]}, 413, "body_too_large"),
        ({"texts": ["a" * MAX_BODY]}, 413, "body_too_large"),
        ([], 400, "invalid_request_body"),
    ],
    ids=lambda value: repr(value)[:30],
)
async def test_other_bodies_are_refused(
    client: httpx2.AsyncClient, body: Any, status: int, code: str
) -> None:
    answer = await client.post("/page/markdown", json=body)
    assert (answer.status_code, answer.json()["code"]) == (status, code)


async def test_as_much_as_is_allowed_is_parsed(client: httpx2.AsyncClient) -> None:
    assert len(await parsed(client, *["a"] * MAX_TEXTS)) == MAX_TEXTS
    assert len(await parsed(client, *["a" * (MAX_CHARACTERS // 4)] * 4)) == 4


async def test_markdown_is_parsed_off_the_loop_one_text_at_a_time(
    client: httpx2.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    entered: list[str] = []
    go_on = trio.Event()

    def parse(text: str) -> list[Any]:
        entered.append(text)
        trio.from_thread.run(go_on.wait)
        return []

    monkeypatch.setattr(markdown_tokens, "document", parse)
    async with trio.open_nursery() as nursery:
        for text in ("a", "b"):
            nursery.start_soon(parsed, client, text)
        await until(lambda: bool(entered))
        for _ in range(10):
            assert (await client.get("/health")).is_success
        assert len(entered) == 1
        go_on.set()
    assert sorted(entered) == ["a", "b"]


# ------------------------------------------------------------------------- what it asks for


async def test_the_page_gets_its_views(tmp_path: Path, serve: Callable[[Any], Any]) -> None:
    config = AgentConfig(
        agent=LlmNode(name="agent", prompt="", model="offline:rules"), name="Desk", data_dir=tmp_path
    )
    async with open_agent(config) as agent, serve(agent) as (_, client):
        about = await client.get("/page/agent")
        unknown = await client.get(f"/page/approvals/{ex.APPROVAL_ID}")
    assert about.json()["name"] == "Desk"
    assert about.headers["Cache-Control"] == "no-store"
    assert (unknown.status_code, unknown.json()["code"]) == (404, "approval_not_found")
