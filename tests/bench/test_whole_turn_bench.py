"""What a whole turn costs with a model of a provider: REST, gate, journal, two model calls, one stdio tool.

In CPU of the server's process, beside the goal for 16 turns at once and what it becomes at 200.
"""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from .served import cpu_of, new_conversations, post_all, report, serve_command, serving
from .test_turn_bench import BODY

MODEL_SERVER = str(Path(__file__).with_name("model_process.py"))
TURNS = {1: 24, 16: 96, 200: 200}
"""How many in a round, by how many at a time."""
ROUNDS = 2
GOAL_MS = 8.0
"""At 16 at a time, on a quiet machine."""
BOUND_MS = 40.0
"""What a busy one does not reach, though it is five times as slow."""

AGENT = """
models:
  bench:
    {{provider: openai_compatible, model: m, base_url: "http://{address}/turns/v1", max_concurrency: 256}}
llm: {{model: bench, stream: {stream}}}
mcp_servers:
  - {{name: resources, command: stopgo, args: [mcp-resources, --db, "{folder}/resources.db"]}}
"""


def is_done(answer: Any) -> bool:
    called = [message for message in answer["conversation"]["messages"] if message["role"] == "tool"]
    return bool(answer["result"]["state"] == "finished" and len(called) == 1)


@pytest.mark.bench
@pytest.mark.parametrize("stream", [True, False])
def test_a_whole_turn(tmp_path: Path, stream: bool) -> None:
    config = tmp_path / "agent.yaml"
    best: dict[int, float] = {}
    with serving([sys.executable, MODEL_SERVER]) as (model, _):
        config.write_text(AGENT.format(address=model, stream=str(stream).lower(), folder=tmp_path))
        with serving(serve_command(config, tmp_path / "data")) as (address, process):
            for _ in range(ROUNDS):
                for at_a_time, count in TURNS.items():
                    turns = [
                        (f"/conversations/{id}/messages", BODY) for id in new_conversations(address, count)
                    ]
                    work = partial(post_all, address, turns, is_done, at_a_time)
                    taken = cpu_of(process, work) / count * 1000
                    best[at_a_time] = min(best.get(at_a_time, taken), taken)
    report(
        bench="whole turn",
        stream=stream,
        **{f"ms_at_{at_a_time}": taken for at_a_time, taken in best.items()},
        goal_ms=GOAL_MS,
        bound_ms=BOUND_MS,
    )
    assert max(best.values()) <= BOUND_MS
