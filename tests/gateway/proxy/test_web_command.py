"""`stopgo web`, as a process."""

import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest
import trio

from stopgo.gateway.cli.main import main
from stopgo.gateway.proxy import web_process
from tests.forks import forks
from tests.gateway.conftest import InProcess
from tests.gateway.proxy.conftest import Told
from tests.http_client import http_client
from tests.waiting import line_with

PROGRAM = """
import sys
from stopgo.gateway import signals
from stopgo.gateway.cli.main import main
signals.REPEAT = 0.0
sys.exit(main())
"""
"""A `stopgo` to which each signal is another one, however soon it comes."""


class Web:
    """A running `stopgo web`."""

    def __init__(self, folder: Path, agent_url: str, *more: str) -> None:
        (folder / "web.yaml").write_text(f"agent_url: {agent_url}\nport: 0\n")
        self.errors = (folder / "stderr").open("w+")
        self.process = forks().start(
            *("-c", PROGRAM, "web", "--config", "web.yaml", *more), cwd=folder, stderr=self.errors.fileno()
        )
        self.url = self.process.stdout.readline().removeprefix("listening on ").strip()
        self.agent = self.process.stdout.readline().removeprefix("agent at ").strip()

    def end(self) -> tuple[int, str, str]:
        out = self.process.end()
        self.errors.seek(0)
        return self.process.wait(), out, self.errors.read()


@pytest.fixture
def started() -> Iterator[list[Web]]:
    webs: list[Web] = []
    yield webs
    for web in webs:
        web.process.close()
        web.errors.close()


@pytest.fixture
async def web(tmp_path: Path, told: Told, started: list[Web]) -> Web:
    url = told.url.replace("://", "://me:s3cret@")
    started.append(await trio.to_thread.run_sync(Web, tmp_path, url))
    return started[-1]


async def test_web_serves_and_shuts_down_gracefully(told: Told, web: Web) -> None:
    assert web.agent == told.url
    async with http_client(base_url=web.url, verify=False) as client:
        assert (await client.get("/")).status_code == 200
        assert (await client.get("/tools")).json() == {}
    web.process.send_signal(signal.SIGTERM)
    code, out, err = await trio.to_thread.run_sync(web.end)
    assert (code, err) == (0, "")
    assert "GET /tools 200" in out
    assert "SIGTERM: stopping" in out
    assert "s3cret" not in out


async def test_open_streams_do_not_delay_shutdown(told: Told, web: Web) -> None:
    told.answer = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\nretry: 1\n\n"
    told.stays = True
    async with (
        http_client(base_url=web.url, verify=False) as client,
        client.stream("GET", "/events") as stream,
    ):
        pieces = stream.aiter_bytes()
        await anext(pieces)
        web.process.send_signal(signal.SIGTERM)
        assert [piece async for piece in pieces] == []
        code, _, _ = await trio.to_thread.run_sync(web.end)
    assert code == 0


@pytest.mark.parametrize(("signals", "code"), [(1, 0), (2, 128 + signal.SIGINT)])
async def test_open_turn_is_answered_at_shutdown(told: Told, web: Web, signals: int, code: int) -> None:
    told.answer, told.stays = b"", True
    answers: list[httpx2.Response] = []

    async def ask() -> None:
        async with http_client(base_url=web.url, verify=False) as client:
            answers.append(await client.post("/conversations", json={"message": "hi"}))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(ask)
        await told.heard.wait()
        for _ in range(signals):
            web.process.send_signal(signal.SIGINT)
            await trio.to_thread.run_sync(line_with, "SIGINT", web.process.stdout)
    ended, _, err = await trio.to_thread.run_sync(web.end)
    assert (ended, err) == (code, "")
    [answer] = answers
    assert (answer.status_code, answer.json()["code"]) == (503, "stopped")


def test_invalid_file_is_an_error(tmp_path: Path, in_process: InProcess) -> None:
    (tmp_path / "web.yaml").write_text("agent_ur: http://127.0.0.1:8080\noauth2: {client_id: a}\n")
    done = in_process("web", "--config", "web.yaml")
    assert done.returncode == 2
    assert done.stderr.splitlines() == [
        'web.yaml:1:1: agent_ur: unknown key "agent_ur" (did you mean "agent_url"?)',
        "web.yaml:1:1: agent_url is required",
        "web.yaml:2:1: oauth2: the page has no sign-in of its own; add `auth:` to the file of the agent, and "
        "remove the key",
    ]
    assert in_process("web", "--config", "none.yaml").returncode == 2


@pytest.mark.parametrize("args", [("--port", "x"), ("--host", ""), ("--config", ""), ("more",)])
def test_invalid_argument_is_usage(capsys: pytest.CaptureFixture[str], args: tuple[str, ...]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["web", *args])
    assert ended.value.code == 2
    err = capsys.readouterr().err
    assert "usage: stopgo web" in err or "stopgo web --help" in err


def test_port_in_use_is_an_error(tmp_path: Path, in_process: InProcess) -> None:
    (tmp_path / "web.yaml").write_text("agent_url: http://127.0.0.1:1\n")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        done = in_process("web", "--config", "web.yaml", "--port", port)
    assert done.returncode == 1
    assert done.stderr.startswith(f"stopgo web: cannot listen on 127.0.0.1:{port}: ")
    assert done.stderr.endswith("(another process has this port; `stopgo web --port 0` takes a free one)\n")


def test_open_address_is_warned_about(
    tmp_path: Path, in_process: InProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "web.yaml").write_text("agent_url: http://127.0.0.1:1\n")
    served: list[str] = []

    def run_web(_: object, host: str, port: int, *log: str) -> tuple[int, tuple[str, ...]]:
        served.append(host)
        return 0, ()

    monkeypatch.setattr(web_process, "run_web", run_web)
    done = in_process("web", "--config", "web.yaml", "--host", "0.0.0.0")
    assert (done.returncode, served) == (0, ["0.0.0.0"])
    assert done.stderr.startswith("stopgo web: warning: 0.0.0.0 can be reached from other machines")
