"""Forwarding of requests and streams, and of broken connections on either side."""

import json
from pathlib import Path
from typing import Any

import httpx2
import pytest
import trio
from trio.testing import MockClock

from stopgo.gateway.contract import examples as ex
from stopgo.gateway.contract.operations import OPERATIONS
from stopgo.gateway.proxy import upstream
from stopgo.gateway.proxy.proxy_app import passed_routes
from tests.authority import Authority
from tests.contract import HANDSHAKE
from tests.gateway.proxy.conftest import Proxied, Told, proxy_to


async def test_a_conversation_with_an_approval_goes_through(with_tools: Proxied) -> None:
    begun = await with_tools.client.post("/conversations", json={"message": "add lamp"})
    assert begun.status_code == 201
    conversation = begun.json()["conversation"]
    assert begun.headers["Location"] == f"/conversations/{conversation['id']}"
    assert begun.headers["X-Session-ID"] == conversation["session_id"]
    [pending] = (await with_tools.client.get("/approvals")).json()["approvals"]
    decided = await with_tools.client.post(f"/approvals/{pending['uuid']}", json={"approved": True})
    assert decided.json()["result"]["response"] == "added lamp"
    again = await with_tools.client.post(f"/approvals/{pending['uuid']}", json={"approved": True})
    assert (again.status_code, again.json()["code"]) == (409, "already_decided")
    assert (await with_tools.client.delete(begun.headers["Location"])).status_code == 204


async def test_keys_and_preferences_arrive(real: Proxied) -> None:
    key = {"Idempotency-Key": "k"}
    first, again = [
        await real.client.post("/conversations", json={"message": "hi"}, headers=key) for _ in range(2)
    ]
    assert first.json() == again.json()
    soon = await say_slowly(real)
    assert (soon.status_code, soon.headers["Preference-Applied"]) == (202, "respond-async")


async def say_slowly(real: Proxied) -> httpx2.Response:
    begun = (await real.client.post("/conversations")).headers["Location"]
    return await real.client.post(
        f"{begun}/messages", json={"message": "slow"}, headers={"Prefer": "respond-async"}
    )


async def test_events_come_before_the_turn_ends(real: Proxied) -> None:
    soon = await say_slowly(real)
    path = f"{soon.headers['Location']}/events"
    async with real.client.stream("GET", path, headers={"Last-Event-ID": "1"}) as stream:
        assert stream.headers["Content-Type"] == "text/event-stream"
        assert stream.headers["X-Accel-Buffering"] == "no"
        ids = []
        async for line in stream.aiter_lines():
            if line.startswith("id: "):
                ids.append(line)
            if line == "event: run.started":
                break
    assert ids[0] == "id: 2"


async def test_the_page_is_served_and_its_requests_are_passed_on(real: Proxied) -> None:
    page = await real.client.get("/")
    assert page.headers["Content-Type"] == "text/html; charset=utf-8"
    assert "script-src 'self'" in page.headers["Content-Security-Policy"]
    script = await real.client.get("/page/main.js")
    assert script.headers["Content-Type"] == "text/javascript; charset=utf-8"
    etag = {"If-None-Match": script.headers["ETag"]}
    assert (await real.client.get("/page/main.js", headers=etag)).status_code == 304
    assert (await real.client.get("/page/agent")).json()["name"] == "a"
    marked = await real.client.post("/page/markdown", json={"texts": ["*hi*"]})
    assert marked.json()["documents"][0][0]["tag"] == "p"
    for path in ("/docs", "/openapi.json", "/health", "/health/ready", "/tools", "/favicon.ico"):
        assert (await real.client.get(path)).status_code == 200, path


@pytest.mark.parametrize(
    "path",
    [
        "/agui",
        "/a2a",
        "/.well-known/agent-card.json",
        "/page/none.js",
        "/page/..%2fdocs.html",
        "/conversations/%2e%2e",
        "/conversations/a%2fb",
        "/conversations/.",
        "/conversations/../tools",
        "/page/approvals/..",
        "/api",
        "//tools",
    ],
)
async def test_nothing_else_reaches_the_agent(told: Told, proxied: Proxied, path: str) -> None:
    # A client would tidy the path up.
    async with await trio.open_tcp_stream("127.0.0.1", proxied.server.port) as stream:
        await stream.send_all(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        assert (await stream.receive_some()).startswith(b"HTTP/1.1 404")
    assert told.asked == []


def test_all_routes_of_the_contract_but_one_are_passed_on() -> None:
    passed = {(route.method, route.path) for route in passed_routes()}
    contract = {(each.method, each.path) for each in OPERATIONS}
    assert contract - passed == {("POST", "/agui")}
    assert {path for _, path in passed - contract} == {
        "/login",
        "/login/callback",
        "/page/agent",
        "/page/sign-in",
        "/page/approvals/{uuid}",
        "/page/approvals/{uuid}/calls",
        "/page/markdown",
    }


async def test_a_path_and_a_query_arrive_as_they_are_meant(told: Told, proxied: Proxied) -> None:
    await proxied.client.get("/conversations/a%20b%3Fc?limit=2&x=%26&x=&y=%C3%A4+b")
    assert told.lines[0] == "GET /conversations/a%20b%3Fc?limit=2&x=%26&x=&y=%C3%A4+b HTTP/1.1"


@pytest.mark.parametrize("target", ["/conversations/{}", "/conversations?q={}"])
async def test_an_address_that_is_too_long_for_a_request(told: Told, proxied: Proxied, target: str) -> None:
    answer = await proxied.client.get(target.format("," * 60_000))
    assert (answer.status_code, answer.json()["code"]) == (414, "uri_too_long")
    assert told.asked == []


async def test_another_protocol_is_no_answer(told: Told, proxied: Proxied) -> None:
    told.answer = b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n"
    answer = await proxied.client.get("/tools")
    assert (answer.status_code, answer.json()["code"]) == (502, "agent_unreachable")


async def test_a_head_has_no_body(told: Told, proxied: Proxied) -> None:
    told.answer = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n"
    answer = await proxied.client.head("/tools")
    assert (answer.status_code, answer.headers["Content-Length"], answer.content) == (200, "2", b"")
    assert told.lines[0] == "HEAD /tools HTTP/1.1"


async def test_chunked_encoding_overrides_content_length(told: Told, proxied: Proxied) -> None:
    told.answer = JSON + b"Content-Length: 9\r\n" + CHUNKED.removeprefix(JSON) + b"2\r\n{}\r\n0\r\n\r\n"
    answer = await proxied.client.get("/tools")
    assert (answer.content, "Content-Length" in answer.headers) == (b"{}", False)


async def test_a_body_that_is_too_large_stays_here(told: Told, proxied: Proxied) -> None:
    answer = await proxied.client.post("/conversations", content=b" " * (2**20 + 1))
    assert (answer.status_code, answer.json()["code"]) == (413, "body_too_large")
    assert told.asked == []


@pytest.mark.parametrize(("name", "why"), [("localhost", None), ("other.example", "its certificate is not")])
async def test_an_agent_behind_tls(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, why: str | None
) -> None:
    authority = Authority(tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", str(authority.file))
    agent = Told()
    async with trio.open_nursery() as nursery:
        [plain] = await trio.open_tcp_listeners(0, host="127.0.0.1")
        listener = trio.SSLListener(plain, authority.server(name), https_compatible=True)
        nursery.start_soon(trio.serve_listeners, agent.converse, [listener])
        async with proxy_to(f"https://localhost:{plain.socket.getsockname()[1]}") as proxied:
            answer = await proxied.client.get("/tools")
            refused = await proxied.client.get("/events/ws", headers=HANDSHAKE)
        nursery.cancel_scope.cancel()
    assert (answer.status_code, refused.status_code) == (200 if why is None else 502, 502)
    said = [each.json().get("error", "") for each in (answer, refused)]
    assert [(why or "no such words") in each for each in said] == [why is not None] * 2
    assert (len(agent.asked) == 2) == (why is None)


# ----------------------------------------------------------------------- broken ends


async def test_disconnected_client_ends_the_agent_request(told: Told, proxied: Proxied) -> None:
    told.answer, told.stays = b"", True
    async with trio.open_nursery() as nursery:
        nursery.start_soon(proxied.client.post, "/conversations")
        await told.heard.wait()
        nursery.cancel_scope.cancel()
    await told.left.wait()


async def test_disconnected_client_ends_the_agent_stream(told: Told, proxied: Proxied) -> None:
    told.answer = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\nretry: 1\n\n"
    told.stays = True
    async with proxied.client.stream("GET", "/events") as stream:
        assert await anext(stream.aiter_bytes()) == b"retry: 1\n\n"
    await told.left.wait()


SSE = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
JSON = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
CHUNKED = JSON + b"Transfer-Encoding: chunked\r\n\r\n"


async def test_a_stream_that_breaks_off_ends(told: Told, proxied: Proxied) -> None:
    told.answer = SSE + b"a\r\nretry: 1\n\n\r\n"
    assert (await proxied.client.get("/events")).text == "retry: 1\n\n"


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(JSON + b'Content-Length: 99\r\n\r\n{"tools": [', id="a length"),
        pytest.param(CHUNKED + b'b\r\n{"tools": [\r\n', id="chunks"),
    ],
)
async def test_an_answer_that_breaks_off_is_cut_here_too(
    told: Told, proxied: Proxied, answer: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    told.answer = answer
    with pytest.raises(httpx2.RemoteProtocolError):
        await proxied.client.get("/tools")
    assert [record.levelname for record in caplog.records if record.exc_info] == []
    told.answer = Told().answer
    assert (await proxied.client.get("/tools")).json() == {}


@pytest.mark.parametrize(
    "answer",
    [b"", b"HTTP/1.1 2", b"SSH-2.0\r\n\r\n", JSON + b"Content-Length: 9\r\n\r\n", CHUNKED + b"zz\r\n{}"],
)
async def test_an_agent_that_breaks_off_before_it_answers(
    told: Told, proxied: Proxied, answer: bytes
) -> None:
    told.answer = answer
    refused = await proxied.client.post("/conversations", json={"message": "hi"})
    assert refused.status_code == 502
    answered = refused.json()
    assert answered.pop("error").startswith(f"no agent answers at {told.url}: ")
    assert answered == {
        "code": "agent_unreachable",
        "hint": "The outcome of the request is unknown. Check for it, or repeat it with the same "
        "Idempotency-Key.",
    }


async def test_an_agent_that_is_not_there() -> None:
    sock = trio.socket.socket()
    await sock.bind(("127.0.0.1", 0))  # nobody listens there
    port = sock.getsockname()[1]
    async with proxy_to(f"http://me:s3cret@127.0.0.1:{port}/desk/") as proxied:
        for path in ("/tools", "/events", "/api/conversation/x"):
            refused = await proxied.client.get(path)
            assert refused.status_code == 502
            assert refused.json() == {
                "error": f"no agent answers at http://127.0.0.1:{port}/desk: connection refused",
                "code": "agent_unreachable",
                "hint": "Start the agent, or correct `agent_url` in the web file.",
            }
        assert (await proxied.client.get("/")).status_code == 200
    sock.close()


async def test_a_stream_that_falls_silent_ends(told: Told, proxied: Proxied, mock_clock: MockClock) -> None:
    told.answer, told.stays = SSE + b"a\r\nretry: 1\n\n\r\n", True
    async with proxied.client.stream("GET", "/events") as stream:
        pieces = stream.aiter_bytes()
        assert await anext(pieces) == b"retry: 1\n\n"
        mock_clock.autojump_threshold = 0.0
        assert [piece async for piece in pieces] == []
    await told.left.wait()
    assert trio.current_time() >= upstream.SILENCE


async def test_streams_end_when_the_proxy_stops(told: Told, proxied: Proxied) -> None:
    told.answer, told.stays = SSE + b"a\r\nretry: 1\n\n\r\n", True
    async with proxied.client.stream("GET", "/events") as stream:
        pieces = stream.aiter_bytes()
        assert await anext(pieces) == b"retry: 1\n\n"
        proxied.upstream.event_streams.stop()
        assert [piece async for piece in pieces] == []
        await proxied.server.drain()


async def test_the_bytes_of_a_stream_are_those_of_the_agent(agent: Any, server: Any) -> None:
    async with proxy_to(server.url) as proxied:
        texts = []
        for url in (server.url, proxied.server.url):
            async with proxied.client.stream(
                "GET", f"{url}/conversations/{ex.CONVERSATION_ID}/events"
            ) as stream:
                text = ""
                async for piece in stream.aiter_text():
                    text += piece
                    if text.count("id: ") == 6 and text.endswith("\n\n"):
                        break
            texts.append(text)
    assert texts[0] == texts[1]
    assert json.loads(texts[0].split("data: ")[1].split("\n")[0])["seq"] == 1
