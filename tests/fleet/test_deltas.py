"""A reply at all members as it arrives: real processes, a real database, a model that streams over HTTP."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import attrs
import httpx2
import pytest

from tests.e2e.conftest import Server, Servers, free_port
from tests.gateway.slow_model import slow_model
from tests.postgres_server import PostgresServer
from tests.waiting import until_true

from .cluster import LEASE, url_of

pytestmark = pytest.mark.fleet

TEXT = "Every member shows the words of the model as they come, whichever member it works at."


@pytest.fixture
def members(server: PostgresServer, tmp_path: Path) -> Iterator[list[Server]]:
    with ExitStack() as stack:
        dsn = stack.enter_context(server.empty_schema())
        config, env = stack.enter_context(slow_model(TEXT, tmp_path))
        servers = Servers()
        stack.callback(servers.stop_all)
        ports = [free_port() for _ in range(3)]
        yield [
            servers(
                tmp_path / f"member{port}",
                config=config,
                env={**env, "STOPGO_JOURNAL": url_of(dsn)},
                port=port,
                options=["--lease", str(LEASE), "--advertise-url", f"http://127.0.0.1:{port}"],
            )
            for port in ports
        ]


@attrs.define(eq=False)
class Stream(threading.Thread):
    """What a stream of a member shows: for each run, the types and texts of its frames."""

    member: Server
    path: str
    runs: list[list[tuple[str, str]]] = attrs.field(factory=lambda: [[]])
    """The last one is not over."""

    def __attrs_pre_init__(self) -> None:
        super().__init__(daemon=True)

    def run(self) -> None:
        with suppress(httpx2.TransportError), self.member.client.stream("GET", self.path) as response:
            for line in response.iter_lines():
                name, _, value = line.partition(": ")
                if name == "event":
                    self.runs[-1].append((value, ""))
                elif name == "data" and self.runs[-1][-1][0] == "model.delta":
                    self.runs[-1][-1] = ("model.delta", json.loads(value)["text"])
                elif name == "data" and self.runs[-1][-1][0] == "run.finished":
                    self.runs.append([])


def test_every_member_streams_the_reply(members: list[Server]) -> None:
    id = members[0].new()
    paths = (f"/conversations/{id}/events?deltas=true&after=1", "/events?deltas=true")
    streams = [Stream(member, path) for path in paths for member in members]
    for each in streams:
        each.start()
    runs = 0

    def reply() -> list[list[tuple[str, str]]]:
        """The next reply, as each stream shows it."""
        nonlocal runs
        assert members[0].say(id, "go")["result"]["response"] == TEXT
        runs += 1
        until_true(lambda: all(len(each.runs) > runs for each in streams))
        return [each.runs[runs - 1] for each in streams]

    # A member that has just started is not connected with the others yet, and does not know what is watched
    # there, so deltas of the first replies may be missing. Frames before the first reply are not compared:
    # `conversation.created` may come to a watcher of another member after later events.
    until_true(lambda: all("model.delta" in dict(frames) for frames in reply()))
    expected, *others = reply()
    assert "".join(text for _, text in expected) == TEXT
    assert len(expected) > 20, "it came in pieces"
    assert others == 5 * [expected]
