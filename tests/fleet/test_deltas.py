"""A reply at all nodes as it arrives: real processes, a real database, a model that streams over HTTP."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.e2e.conftest import Server, Servers, free_port
from tests.gateway.slow_model import slow_model
from tests.postgres_server import PostgresServer
from tests.waiting import pause

from .cluster import LEASE, url_of

pytestmark = pytest.mark.fleet

TEXT = "Every node shows the words of the model as they come, whichever node it works at."
CONNECTED = 2.5
"""Seconds until nodes that have just started are connected, with some in reserve."""


@pytest.fixture
def nodes(server: PostgresServer, tmp_path: Path) -> Iterator[list[Server]]:
    with ExitStack() as stack:
        dsn = stack.enter_context(server.empty_schema())
        config, env = stack.enter_context(slow_model(TEXT, tmp_path))
        servers = Servers()
        stack.callback(servers.stop_all)
        ports = [free_port() for _ in range(3)]
        yield [
            servers(
                tmp_path / f"node{port}",
                config=config,
                env={**env, "STOPGO_JOURNAL": url_of(dsn)},
                port=port,
                options=["--lease", str(LEASE), "--advertise-url", f"http://127.0.0.1:{port}"],
            )
            for port in ports
        ]


def frames(node: Server, path: str) -> list[tuple[str, str]]:
    """Type and text of the frames until a run has ended."""
    found = []
    with node.client.stream("GET", path) as response:
        for line in response.iter_lines():
            name, _, value = line.partition(": ")
            if name == "event":
                found.append((value, ""))
            elif name == "data" and found[-1][0] == "model.delta":
                found[-1] = ("model.delta", json.loads(value)["text"])
            if found and found[-1][0] == "run.finished":
                break
    return found


def test_every_node_streams_the_reply(nodes: list[Server]) -> None:
    pause(CONNECTED)
    id = nodes[0].new()
    with ThreadPoolExecutor(6) as pool:
        one = [pool.submit(frames, node, f"/conversations/{id}/events?deltas=true&after=1") for node in nodes]
        every = [pool.submit(frames, node, "/events?deltas=true") for node in nodes]
        pause(1)
        said = nodes[0].say(id, "go")
        assert said["result"]["response"] == TEXT
    expected = one[0].result()
    assert "".join(text for _, text in expected) == TEXT
    assert len(expected) > 20, "it came in pieces"
    assert [each.result() for each in (*one, *every)] == 6 * [expected]
