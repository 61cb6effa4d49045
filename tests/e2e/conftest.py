"""Real `stopgo serve` processes, used over HTTP. The resources are read from their database file."""

from __future__ import annotations

import os
import re
import signal
import socket
import sqlite3
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs
import httpx2
import psutil
import pytest

from tests.contract import hold
from tests.forks import Fork, forks
from tests.gateway.conftest import in_process as in_process
from tests.http_client import blocking_client
from tests.waiting import until_true

BIN = Path(sys.executable).parent
TESTDATA = Path(__file__).parents[2] / "testdata"

Json = dict[str, Any]


def clean_environment() -> dict[str, str]:
    """The environment without the keys and settings of the user who runs the tests."""
    return {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("STOPGO_") and not name.endswith(("_API_KEY", "_TOKEN"))
    }


def wait_until_gone(processes: list[psutil.Process]) -> None:
    """Wait until the processes have ended. Orphans may stay zombies for seconds until they are reaped."""
    until_true(lambda: all(map(has_ended, processes)))


def has_ended(process: psutil.Process) -> bool:
    try:
        return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


@attrs.define(eq=False)
class StopgoProcess:
    """A server process that prints its address, with its recorded output."""

    process: Fork
    url: str = ""
    _lines: list[str] = attrs.field(factory=list)
    _listening: threading.Event = attrs.field(factory=threading.Event)
    _reader: threading.Thread = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self._reader = threading.Thread(target=self._read)
        self._reader.start()
        self._listening.wait()
        if not self.url:
            self.close()
            pytest.fail(f"it does not listen:\n{self.log}")

    def _read(self) -> None:
        with self.process.stdout as lines:
            for line in lines:
                self._lines.append(line)
                if found := re.search(r'listening on (http://[^\s"]+)', line):
                    self.url = found[1]
                    self._listening.set()
        self._listening.set()

    @property
    def log(self) -> str:
        return "".join(self._lines)

    def interrupt(self) -> None:
        """Ask it to stop, and see that it does so in good order, with all it started."""
        self._end(signal.SIGTERM)
        assert self.process.returncode == 0, self.log
        assert "Traceback" not in self.log, self.log

    def kill(self) -> None:
        """Kill the process with SIGKILL; its children end by themselves."""
        self._end(signal.SIGKILL)
        assert self.process.returncode == -signal.SIGKILL, self.log
        assert "Traceback" not in self.log, self.log

    def _end(self, number: signal.Signals) -> None:
        children = psutil.Process(self.process.pid).children(recursive=True)
        self.process.send_signal(number)
        self.process.wait()
        self._reader.join()
        wait_until_gone(children)

    def close(self) -> None:
        """After a failure: leave nothing running."""
        if self.process.poll() is None:
            self._end(signal.SIGKILL)
        self._reader.join()


@attrs.define(eq=False)
class Server:
    """One `stopgo serve` and a client of it."""

    run: StopgoProcess
    data_dir: Path
    client: httpx2.Client

    @property
    def log(self) -> str:
        return self.run.log

    def get(self, path: str, status: int = 200, **params: str) -> Json:
        return self._json(self.client.get(path, params=params), status)

    def post(self, path: str, body: object = None, status: int = 200, token: str | None = None) -> Json:
        headers = {"Authorization": f"Bearer {token}"} if token else None
        return self._json(self.client.post(path, json=body or {}, headers=headers), status)

    @staticmethod
    def _json(response: httpx2.Response, status: int) -> Json:
        assert response.status_code == status, response.text
        body: Json = response.json()
        return body

    def new(self) -> str:
        """The id of a new conversation."""
        id: str = self.post("/conversations", status=201)["conversation"]["id"]
        return id

    def say(self, id: str, message: str, token: str | None = None) -> Json:
        return self.post(f"/conversations/{id}/messages", {"message": message}, token=token)

    def ask_for(self, message: str) -> str:
        """Say something destructive in a new conversation; the UUID of the approval it waits for."""
        result = self.post("/conversations", {"message": message}, status=201)["result"]
        assert result["waiting_approval"] is True
        uuid: str = result["approval"]["uuid"]
        return uuid

    def conversation(self, id: str) -> Json:
        body: Json = self.get(f"/conversations/{id}")["conversation"]
        return body

    def resources(self) -> Counter[tuple[str, str]]:
        """Name and value of all resources in the database file, with their counts."""
        database = sqlite3.connect(self.data_dir / "resources.db")
        try:
            rows = database.execute("SELECT name, value FROM resources").fetchall()
        finally:
            database.close()
        return Counter((name, str(value)) for name, value in rows)


Serve = Callable[..., Server]


@attrs.define
class Servers:
    """Starts servers, and leaves none behind."""

    _started: list[Server] = attrs.field(factory=list)

    def __call__(
        self,
        data_dir: Path,
        *,
        config: Path | None = None,
        env: Mapping[str, str] | None = None,
        port: int = 0,
        options: Sequence[str] = (),
        program: str = "",
    ) -> Server:
        """`port`: where others look for it; 0: anywhere. `options` are further ones of `stopgo serve`;
        `program` is a program to be run in its place."""
        data_dir.mkdir(exist_ok=True)
        chosen = ["--config", str(config)] if config else []
        command = ["-c", program, "serve"] if program else ["serve"]
        arguments = [*command, "--port", str(port), "--data-dir", str(data_dir), *chosen, *options]
        environment = {**clean_environment(), **(env or {})}
        run = StopgoProcess(forks().start(*arguments, cwd=data_dir, env=environment))
        client = blocking_client(base_url=run.url, event_hooks={"response": [hold]})
        server = Server(run, data_dir, client)
        self._started.append(server)
        return server

    def stop_all(self) -> None:
        running = [server for server in self._started if server.run.process.poll() is None]
        try:
            for server in self._started:
                server.client.close()
            for server in running:
                server.run.interrupt()
        finally:
            for server in running:
                server.run.close()


def free_port() -> int:
    """A port for a server whose address others must know before it starts."""
    with socket.create_server(("127.0.0.1", 0)) as found:
        port: int = found.getsockname()[1]
        return port


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Start servers of one test's own; at its end they must stop in good order."""
    servers = Servers()
    yield servers
    servers.stop_all()


@pytest.fixture(scope="session")
def serve_once() -> Iterator[Serve]:
    """Start servers that many tests share."""
    servers = Servers()
    yield servers
    servers.stop_all()


@pytest.fixture(scope="session")
def shipped(serve_once: Serve, tmp_path_factory: pytest.TempPathFactory) -> Server:
    """The agent that comes with the package, without configuration."""
    return serve_once(tmp_path_factory.mktemp("shipped"))


@pytest.fixture(scope="session")
def sequential(serve_once: Serve, tmp_path_factory: pytest.TempPathFactory) -> Server:
    return serve_once(tmp_path_factory.mktemp("sequential"), config=TESTDATA / "e2e-sequential.yaml")


@pytest.fixture(scope="session")
def parallel(serve_once: Serve, tmp_path_factory: pytest.TempPathFactory) -> Server:
    return serve_once(tmp_path_factory.mktemp("parallel"), config=TESTDATA / "e2e-parallel.yaml")
