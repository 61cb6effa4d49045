"""What a turn costs through A2A, whole and streamed, over the same turn through REST.

All three are asked of one server, in rounds that take turns; a ratio is that of one round, and the median of
the rounds counts.
"""

from __future__ import annotations

import http.client
import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import pytest

from .served import CLIENTS, STOPGO, cpu_of, post_all, report, serve_command, serving
from .test_turn_bench import AGENT, BODY, SCRIPT

ROUNDS = 9
TURNS = 10 * CLIENTS
TARGET = 1.5
BOUND = 3.0
"""What holds in bad hours, too."""


def call(method: str) -> bytes:
    message = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "hello"}]}
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {"message": message}}
    return json.dumps(body).encode()


def rest_is_done(answer: Any) -> bool:
    return bool(answer["result"]["state"] == "finished")


def a2a_is_done(answer: Any) -> bool:
    return bool(answer["result"]["task"]["status"]["state"] == "TASK_STATE_COMPLETED")


def last_event(response: http.client.HTTPResponse) -> Any:
    events = [line for line in response.read().splitlines() if line.startswith(b"data: ")]
    return json.loads(events[-1].removeprefix(b"data: "))


def stream_is_done(answer: Any) -> bool:
    return bool(answer["result"]["statusUpdate"]["status"]["state"] == "TASK_STATE_COMPLETED")


@pytest.mark.bench
def test_a_turn_through_a2a(tmp_path: Path) -> None:
    (tmp_path / "script.yaml").write_text(SCRIPT)
    config = tmp_path / "agent.yaml"
    config.write_text(AGENT.format(clients=CLIENTS, stopgo=STOPGO, db=tmp_path / "resources.db"))
    with serving(serve_command(config, tmp_path / "data")) as (address, process):
        ways: dict[str, Callable[[], None]] = {
            "rest": partial(post_all, address, [("/conversations", BODY)] * TURNS, rest_is_done),
            "whole": partial(post_all, address, [("/a2a", call("SendMessage"))] * TURNS, a2a_is_done),
            "streamed": partial(
                post_all,
                address,
                [("/a2a", call("SendStreamingMessage"))] * TURNS,
                stream_is_done,
                read=last_event,
            ),
        }
        for work in ways.values():
            work()
        rounds = [{name: cpu_of(process, work) for name, work in ways.items()} for _ in range(ROUNDS)]
    ratios = {name: median(each[name] / each["rest"] for each in rounds) for name in ("whole", "streamed")}
    rest = median(each["rest"] for each in rounds) / TURNS * 1000
    report(bench="a2a turn", rest_ms=rest, **ratios, target=TARGET, bound=BOUND)
    assert max(ratios.values()) <= BOUND
