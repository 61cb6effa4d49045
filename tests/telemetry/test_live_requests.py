"""The spans of requests that last: one each, from the request to the end of its stream."""

from __future__ import annotations

import secrets
import socket
import time
from collections.abc import Callable, Iterator
from urllib.parse import urlsplit

import pytest

from tests.contract import HANDSHAKE
from tests.e2e.chains import SCRIPTED, eventually, written
from tests.e2e.conftest import Server, Servers
from tests.telemetry.exported import tree
from tests.telemetry.receiver import QUICK, Receiver

CLIENT = "b7ad6b7169203331"


@pytest.fixture(scope="module")
def server(
    serve_module: Servers, receiver: Receiver, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("live")
    config = written(folder, {"name": "solo", "llm": SCRIPTED}, [{"text": "done"}])
    server = serve_module(folder / "data", config=config, env=QUICK, options=["--traces", receiver.url])
    yield server
    server.run.interrupt()
    assert receiver.violations == []


def events(server: Server, id: str, trace: str) -> None:
    with server.client.stream("GET", f"/conversations/{id}/events", headers=headers(trace)) as response:
        assert "event: run.finished" in response.iter_lines()


def websocket(server: Server, id: str, trace: str) -> None:
    with socket.create_connection(
        (urlsplit(server.run.url).hostname, urlsplit(server.run.url).port)
    ) as client:
        lines = {"Host": "localhost", **HANDSHAKE, **headers(trace)}
        head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
        client.sendall(f"GET /conversations/{id}/ws HTTP/1.1\r\n{head}\r\n".encode())
        read = client.recv(65536)
        while b"run.finished" not in read:
            read += client.recv(65536)


def agui(server: Server, id: str, trace: str) -> None:
    body = {
        "threadId": secrets.token_hex(4),
        "runId": "r",
        "messages": [{"id": "m", "role": "user", "content": "hello"}],
        **{name: [] for name in ("tools", "context")},
        "state": {},
        "forwardedProps": {},
    }
    with server.client.stream("POST", "/agui", json=body, headers=headers(trace)) as response:
        assert "RUN_FINISHED" in "".join(response.iter_lines())


def headers(trace: str) -> dict[str, str]:
    return {"traceparent": f"00-{trace}-{CLIENT}-01"}


RUN = "  invoke_agent solo\n    llm solo\n      chat replies.yaml\n"
STREAMS: dict[str, tuple[Callable[[Server, str, str], None], str]] = {
    "events": (events, "GET /conversations/{id}/events\n"),
    "websocket": (websocket, "GET /conversations/{id}/ws\n"),
    "agui": (agui, f"POST /agui\n{RUN}"),
}


@pytest.mark.parametrize("kind", STREAMS)
def test_a_stream_has_one_span(server: Server, receiver: Receiver, kind: str) -> None:
    watch, expected = STREAMS[kind]
    id = server.post("/conversations", {"message": "hello"}, status=201)["conversation"]["id"]
    trace, began = secrets.token_hex(16), time.time_ns()
    watch(server, id, trace)
    ended = time.time_ns()
    spans = receiver.when(trace, lambda spans: any(each.kind == "server" for each in spans), known=[CLIENT])
    assert tree(spans, CLIENT) == expected
    [request] = [each for each in spans if each.kind == "server"]
    assert began <= request.start <= ended
    assert not request.failed


@pytest.mark.parametrize(("path", "status"), [("/nothing", 404), ("/conversations/x/ws", 426)])
def test_refused_requests_have_spans(server: Server, receiver: Receiver, path: str, status: int) -> None:
    trace = secrets.token_hex(16)
    assert server.client.get(path, headers=headers(trace)).status_code == status
    [span] = receiver.when(trace, len, known=[CLIENT])
    assert (span["http.response.status_code"], span.failed) == (status, False)


@pytest.mark.parametrize("path", ["/health", "/health/ready"])
def test_probes_have_no_spans(server: Server, receiver: Receiver, path: str) -> None:
    probed, after = secrets.token_hex(16), secrets.token_hex(16)
    server.client.get(path, headers=headers(probed))
    server.client.get("/conversations", headers=headers(after))
    eventually(lambda: receiver.trace(after))
    assert receiver.trace(probed) == []
