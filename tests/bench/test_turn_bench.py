"""What a turn costs through REST, as a ratio to what no server could do without.

The floor is a Quart-Trio POST whose handler makes one bare SDK call of the same stdio tool. Each of the two
servers starts its own tool server: the resource server that comes with the product. It is a child of theirs,
and what a call makes it do is part of what the call costs; the figures are given with it and without. The
configuration is the default one, with which as many calls may be under way as there are clients, and so many
may be for the floor. The load is that of 16 turns at once, as for the other figures of whole turns. That of a
single client is given beside it: then each flush of the disk is one save's, and every wait finds a cold
processor afterwards.

A shared machine is twice as fast in one second as in the next. So turns and floor alternate, a ratio is that
of one round, and the median of the rounds counts: the best of each may come from different seconds.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import psutil
import pytest

from .served import CLIENTS, STOPGO, cpu_of, new_conversations, post_all, report, serve_command, serving

ROUNDS = 11
TIMES = {CLIENTS: 20 * CLIENTS, 1: 80}
"""Of a round: so many that its beginning and its end, when there are fewer at once, count for little."""
TARGETS = {(CLIENTS, "all"): 2.0, (CLIENTS, "own"): 2.0}
"""By clients, and with the tool server or without."""
BOUNDS = {(CLIENTS, "all"): 2.4, (CLIENTS, "own"): 2.6, (1, "all"): 3.4, (1, "own"): 4.2}
"""What holds in bad hours, too, when a turn suffers more from shared caches than its floor."""

FLOOR_APP = """
import sys, trio, hypercorn.trio
from hypercorn.config import Config
from mcp import Client, StdioServerParameters, stdio_client
from quart import request
from quart_trio import QuartTrio

app = QuartTrio("floor")

@app.post("/list")
async def list_resources():
    body = await request.get_json(force=True)
    result = await client.call_tool("resources_list", {})
    return {"got": body, "result": result.content[0].text}

async def main():
    global client
    config = Config()
    config.bind = ["127.0.0.1:0"]
    config.accesslog = None
    server = StdioServerParameters(command=sys.argv[1], args=sys.argv[2:])
    async with Client(stdio_client(server), read_timeout_seconds=60) as client:
        await client.list_tools()
        async with trio.open_nursery() as nursery:
            binds = await nursery.start(hypercorn.trio.serve, app, config)
            print("listening on", binds[0], flush=True)

trio.run(main)
"""

AGENT = """
llm: {{model: "script:script.yaml"}}
mcp_servers:
  - {{name: resources, command: {stopgo}, args: [mcp-resources, --db, "{db}"]}}
"""

SCRIPT = """
replies:
  - when: {call: 1}
    tool_calls: [{name: resources_list, arguments: {}}]
  - text: done
"""

BODY = json.dumps({"message": "hello"}).encode()


def has_result(answer: Any) -> bool:
    return "result" in answer


def is_done(answer: Any) -> bool:
    return bool(answer["result"]["response"] == "done")


def spent(process: psutil.Process, work: Callable[[], None], times: int) -> dict[str, float]:
    """CPU milliseconds of each of the things done, by the process alone and with its tool server."""
    (tool_server,) = process.children()
    own = 0.0

    def measured() -> None:
        nonlocal own
        own = cpu_of(process, work)

    tools = cpu_of(tool_server, measured)
    return {"own": own / times * 1000, "all": (own + tools) / times * 1000}


@pytest.mark.bench
def test_a_turn_over_its_floor(tmp_path: Path) -> None:
    config, floor_app = tmp_path / "agent.yaml", tmp_path / "floor.py"
    config.write_text(AGENT.format(stopgo=STOPGO, db=tmp_path / "turn.db"))
    (tmp_path / "script.yaml").write_text(SCRIPT)
    floor_app.write_text(FLOOR_APP)
    floor_command = [
        sys.executable,
        str(floor_app),
        STOPGO,
        "mcp-resources",
        "--db",
        str(tmp_path / "floor.db"),
    ]
    turns: dict[tuple[int, str], list[float]] = {of: [] for of in BOUNDS}
    floors: dict[tuple[int, str], list[float]] = {of: [] for of in BOUNDS}
    with (
        serving(floor_command) as (floor, floor_process),
        serving(serve_command(config, tmp_path / "data")) as (address, process),
    ):
        for _ in range(ROUNDS):
            for clients, times in TIMES.items():
                posts = [("/list", BODY)] * times
                bare = spent(floor_process, partial(post_all, floor, posts, has_result, clients), times)
                ids = new_conversations(address, times)
                messages = [(f"/conversations/{id}/messages", BODY) for id in ids]
                whole = spent(process, partial(post_all, address, messages, is_done, clients), times)
                for whose in ("all", "own"):
                    floors[clients, whose].append(bare[whose])
                    turns[clients, whose].append(whole[whose])
    for (clients, whose), bound in BOUNDS.items():
        each, least = turns[clients, whose], floors[clients, whose]
        ratio = median(turn / bare for turn, bare in zip(each, least, strict=True))
        report(
            bench="turn through REST",
            configuration="default",
            clients=clients,
            cpu="of the server and its tool server" if whose == "all" else "of the server alone",
            turn_ms=median(each),
            floor_ms=median(least),
            ratio=ratio,
            target=TARGETS.get((clients, whose)),
            bound=bound,
        )
        assert ratio <= bound
