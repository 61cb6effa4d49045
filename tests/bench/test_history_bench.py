"""What the thousandth turn of a conversation costs, as a ratio to the first: CPU of the server, in one run.

The model is another process, and a turn is one call of it without a tool. `warm`: directly after the turn
before. `idle`: after the conversation was unloaded. `restarted`: its first turn in a new process, beside the
first turn of a short conversation there. Answers are short (`Prefer: return=minimal`); a turn with a whole
answer, which has all messages, is given beside them with its size.
"""

from __future__ import annotations

import http.client
import sys
import threading
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from statistics import median

import psutil
import pytest

from .served import cpu_of, new_conversations, post, report, serve_command, serving
from .test_turn_bench import BODY

MODEL_SERVER = str(Path(__file__).with_name("model_process.py"))
TURNS = 1000
FEW = 20
"""Turns, or conversations, of one measurement."""
UNLOADED = 2.0
"""Seconds after which an idle conversation is not in memory any more."""
TARGETS = {"warm": 1.5, "idle": 2.0, "restarted": 2.0}
BOUNDS = {"warm": 2.0}
MINIMAL = {"Prefer": "return=minimal"}

AGENT = """
models:
  bench: {{provider: openai_compatible, model: m, base_url: "http://{address}/words/v1"}}
llm: {{model: bench}}
"""


def turns(address: str, id: str, count: int = 1, headers: Mapping[str, str] = MINIMAL) -> int:
    """Send messages, one after the other. Returns the size of the last answer."""
    connection = http.client.HTTPConnection(address)
    size = 0
    for _ in range(count):
        answer = post(
            connection, f"/conversations/{id}/messages", BODY, http.client.HTTPResponse.read, headers
        )
        assert b'"state":"finished"' in answer[-1000:]
        size = len(answer)
    connection.close()
    return size


def send(address: str, id: str, count: int = 1, headers: Mapping[str, str] = MINIMAL) -> None:
    turns(address, id, count, headers)


def firsts(address: str, ids: list[str]) -> None:
    for id in ids:
        send(address, id)


def alone(process: psutil.Process, address: str, id: str) -> float:
    """CPU milliseconds of one turn."""
    return cpu_of(process, partial(send, address, id)) * 1000


@pytest.mark.bench
def test_a_thousand_turns(tmp_path: Path) -> None:
    config = tmp_path / "agent.yaml"
    found: dict[str, float] = {}
    with serving([sys.executable, MODEL_SERVER]) as (model, _):
        config.write_text(AGENT.format(address=model))
        serve = partial(serving, serve_command(config, tmp_path / "data"))
        with serve() as (address, process):
            firsts(address, new_conversations(address, FEW))  # caches fill
            ids = new_conversations(address, FEW)
            first = cpu_of(process, lambda: firsts(address, ids)) / FEW * 1000
            (long,) = new_conversations(address, 1)
            turns(address, long, TURNS - 2 * FEW)
            found["warm"] = cpu_of(process, partial(send, address, long, FEW)) / FEW * 1000
            turns(address, long, 1, {})
            whole = cpu_of(process, partial(send, address, long, FEW, {})) / FEW * 1000
            size = turns(address, long, 1, {})
            idle = []
            for _ in range(3):
                threading.Event().wait(UNLOADED)
                idle.append(alone(process, address, long))
            found["idle"] = median(idle)
        restarted, short = [], []
        for number in range(3):
            with serve() as (address, process):
                firsts(address, new_conversations(address, FEW))
                short.append(alone(process, address, ids[number]))
                restarted.append(alone(process, address, long))
        found["restarted"] = median(restarted)
    for name, taken in found.items():
        before = median(short) if name == "restarted" else first
        report(
            bench="long history",
            turn=TURNS,
            conversation=name,
            first_ms=before,
            turn_ms=taken,
            ratio=taken / before,
            target=TARGETS[name],
            bound=BOUNDS.get(name),
        )
        assert taken / before <= BOUNDS.get(name, taken)
    report(bench="long history, whole answer", bytes=size, turn_ms=whole, ratio=whole / first)
