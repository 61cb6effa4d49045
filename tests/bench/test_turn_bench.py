"""What a turn costs through REST, as a ratio to what no server could do without.

The floor is one Quart-Trio POST plus one bare SDK call of the same stdio tool, measured in the same run.
"""

from __future__ import annotations

import json
import subprocess
import sys
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import pytest

from .served import cpu_of, new_conversations, post_all, report, serve_command, serving

ECHO = Path(__file__).parents[2] / "testdata" / "servers" / "echo_server.py"
ROUNDS = 6
TURNS = 96
POSTS = 4 * TURNS
"""More than turns: the system counts CPU in steps of 10 ms, and a POST takes half a millisecond."""
TARGET = 2.0
"""What we would like to reach."""
BOUND = 10.0
"""What holds on a busy machine with two cores; the measured ratio is about 5.3 to 6.6."""

FLOOR_APP = """
import trio, hypercorn.trio
from hypercorn.config import Config
from quart import request
from quart_trio import QuartTrio

app = QuartTrio("floor")

@app.post("/echo")
async def echo():
    return {"got": await request.get_json(force=True)}

async def main():
    config = Config()
    config.bind = ["127.0.0.1:0"]
    config.accesslog = None
    async with trio.open_nursery() as nursery:
        binds = await nursery.start(hypercorn.trio.serve, app, config)
        print("listening on", binds[0], flush=True)

trio.run(main)
"""

CALLS = """
import sys, time, trio
from mcp import Client, StdioServerParameters, stdio_client

async def main():
    server = StdioServerParameters(command=sys.executable, args=[sys.argv[1]], env={"LEDGER": sys.argv[2]})
    async with Client(stdio_client(server), mode="legacy", read_timeout_seconds=60) as client:
        await client.list_tools()
        best = float("inf")
        for _ in range(3):
            before = time.process_time()
            for _ in range(100):
                await client.call_tool("echo", {"text": "hi"})
            best = min(best, (time.process_time() - before) / 100)
        print(best)

trio.run(main)
"""

AGENT = """
llm: {{model: "script:script.yaml"}}
mcp_servers:
  - {{name: echo, command: {python}, args: ["{echo}"], env: {{LEDGER: "{ledger}"}}}}
"""

SCRIPT = """
replies:
  - when: {call: 1}
    tool_calls: [{name: echo, arguments: {text: hi}}]
  - text: done
"""

BODY = json.dumps({"message": "hello"}).encode()


def bare_call(ledger: Path) -> float:
    """CPU seconds of one call of the tool over the bare SDK."""
    command = [sys.executable, "-c", CALLS, str(ECHO), str(ledger)]
    return float(subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout)


def is_echo(answer: Any) -> bool:
    return "got" in answer


def is_done(answer: Any) -> bool:
    return bool(answer["result"]["response"] == "done")


@pytest.mark.bench
def test_a_turn_over_its_floor(tmp_path: Path) -> None:
    ledger, config, floor_app = tmp_path / "ledger", tmp_path / "agent.yaml", tmp_path / "floor.py"
    config.write_text(AGENT.format(python=sys.executable, echo=ECHO, ledger=ledger))
    (tmp_path / "script.yaml").write_text(SCRIPT)
    floor_app.write_text(FLOOR_APP)
    turns, posts, calls = [], [], []
    with (
        serving([sys.executable, str(floor_app)]) as (floor, floor_process),
        serving(serve_command(config, tmp_path / "data")) as (address, process),
    ):
        for _ in range(ROUNDS):
            echoes = [("/echo", BODY)] * POSTS
            posts.append(cpu_of(floor_process, partial(post_all, floor, echoes, is_echo)) / POSTS)
            messages = [(f"/conversations/{id}/messages", BODY) for id in new_conversations(address, TURNS)]
            turns.append(cpu_of(process, partial(post_all, address, messages, is_done)) / TURNS)
            calls.append(bare_call(ledger))
    # Round by round: what else the machine does slows down both sides of a ratio.
    ratio = median(turn / (post + call) for turn, post, call in zip(turns, posts, calls, strict=True))
    report(
        bench="turn through REST",
        turn_ms=median(turns) * 1000,
        bare_post_ms=median(posts) * 1000,
        bare_call_ms=median(calls) * 1000,
        ratio=ratio,
        target=TARGET,
        bound=BOUND,
    )
    assert ratio <= BOUND
