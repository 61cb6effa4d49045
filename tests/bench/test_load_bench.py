"""Whether the server stays quick for others while a hundred conversations wait on a slow model (NFR-001,
NFR-003), and how long they wait for a slow tool. Latencies are of a real server; the best of a few rounds
counts, for the machine may be shared."""

from __future__ import annotations

import http.client
import json
import sys
import threading
import time
from itertools import cycle
from pathlib import Path

import pytest

from .served import cpu_seconds, new_conversations, post, post_all, report, serve_command, serving

CONVERSATIONS = 100
DELAY = 1.0
SECONDS = 4.0
PAUSE = 0.01
"""Seconds between two requests of the one who looks."""
ROUNDS = 3
P99_MS = 50.0
CORES = 0.5
CORES_BOUND = 0.75
"""What holds in bad hours of a shared machine, when everything takes several times as long."""

TOOL_SECONDS_BOUND = 15.0
"""For all of them, with a tool of `DELAY`: seven after one another with the default, a hundred one by one."""

BODY = json.dumps({"message": "hello"}).encode()
TOOL_AGENT = """
llm: {{model: "script:script.yaml"}}
mcp_servers:
  - {{name: echo, command: {python}, args: [-S, {server}]}}
"""
TOOL_SCRIPT = f"""
replies:
  - when: {{call: 1}}
    tool_calls: [{{name: slow, arguments: {{seconds: {DELAY}}}}}]
  - text: done
"""


class Crowd:
    """A client for every conversation, each with a turn that waits on the model, one after the other."""

    def __init__(self, address: str, ids: list[str]) -> None:
        self.turns = 0
        self.failures: list[object] = []
        self._address = address
        self._end = time.monotonic() + SECONDS
        # Their starts are spread over one delay, as those of real people are.
        self._threads = [
            threading.Thread(target=self._talk, args=(id, DELAY * n / len(ids))) for n, id in enumerate(ids)
        ]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def join(self) -> None:
        for thread in self._threads:
            thread.join()

    def _talk(self, id: str, wait: float) -> None:
        connection = http.client.HTTPConnection(self._address)
        threading.Event().wait(wait)  # not all at once
        while time.monotonic() < self._end:
            answer = post(connection, f"/conversations/{id}/messages", BODY)
            if answer["result"]["response"] != "done":
                self.failures.append(answer)
            self.turns += 1
        connection.close()


def latencies(address: str, id: str) -> dict[str, list[float]]:
    """Milliseconds of each kind of look, for as long as the crowd talks."""
    paths = {"health": "/health", "list": "/conversations", "one": f"/conversations/{id}"}
    taken: dict[str, list[float]] = {name: [] for name in paths}
    connection = http.client.HTTPConnection(address)
    end = time.monotonic() + SECONDS
    for name, path in cycle(paths.items()):
        if time.monotonic() > end:
            break
        began = time.perf_counter()
        connection.request("GET", path)
        response = connection.getresponse()
        response.read()
        taken[name].append((time.perf_counter() - began) * 1000)
        assert response.status == 200
        threading.Event().wait(PAUSE)
    connection.close()
    return taken


def p99(values: list[float]) -> float:
    return sorted(values)[int(len(values) * 0.99)]


@pytest.mark.bench
def test_a_hundred_slow_turns_slow_nobody_down(tmp_path: Path) -> None:
    config = tmp_path / "agent.yaml"
    config.write_text('llm: {model: "script:script.yaml"}\n')
    (tmp_path / "script.yaml").write_text(f"replies:\n  - {{text: done, delay: {DELAY}}}\n")
    slowest: list[dict[str, float]] = []
    cores: list[float] = []
    with serving(serve_command(config, tmp_path / "data")) as (address, process):
        for _ in range(ROUNDS):
            # New ones each time, so that no round has longer conversations than another.
            ids = new_conversations(address, CONVERSATIONS)
            crowd = Crowd(address, ids)
            before, began = cpu_seconds(process), time.perf_counter()
            crowd.start()
            taken = latencies(address, ids[0])
            crowd.join()
            cores.append((cpu_seconds(process) - before) / (time.perf_counter() - began))
            assert not crowd.failures, crowd.failures[0]
            assert crowd.turns >= CONVERSATIONS * (SECONDS - 2 * DELAY)
            slowest.append({name: p99(values) for name, values in taken.items()})
            if max(slowest[-1].values()) < P99_MS and cores[-1] < CORES:
                break
    best = min(slowest, key=lambda each: max(each.values()))
    report(
        bench="100 conversations wait on a model of 1 s",
        **{f"p99_ms_of_{name}": value for name, value in best.items()},
        p99_ms_bound=P99_MS,
        cores=min(cores),
        cores_target=CORES,
        cores_bound=CORES_BOUND,
    )
    assert max(best.values()) < P99_MS
    assert min(cores) < CORES_BOUND


@pytest.mark.bench
def test_a_hundred_conversations_share_a_slow_tool(tmp_path: Path) -> None:
    config, server = tmp_path / "agent.yaml", Path(__file__).parents[2] / "testdata/servers/echo_server.py"
    config.write_text(TOOL_AGENT.format(python=sys.executable, server=server))
    (tmp_path / "script.yaml").write_text(TOOL_SCRIPT)
    with serving(serve_command(config, tmp_path / "data")) as (address, _):
        ids = new_conversations(address, CONVERSATIONS)
        messages = [(f"/conversations/{id}/messages", BODY) for id in ids]
        began = time.perf_counter()
        post_all(address, messages, lambda answer: answer["result"]["response"] == "done", CONVERSATIONS)
        longest = time.perf_counter() - began
    report(
        bench="100 conversations call a tool of 1 s",
        configuration="default",
        longest_wait_seconds=longest,
        bound=TOOL_SECONDS_BOUND,
    )
    assert longest < TOOL_SECONDS_BOUND
