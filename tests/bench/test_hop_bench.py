"""What a call of another agent costs over a call of a tool, and a hundred chained turns at once.

Two agents with the same turn: a model, one call, the model again. The call of the one is a tool over stdio,
that of the other delegates to the first. They take turns in rounds; a ratio is that of one round, and the
median of the rounds counts.
"""

from __future__ import annotations

import time
from functools import partial
from pathlib import Path
from statistics import median

import pytest

from .served import CLIENTS, STOPGO, cpu_of, post_all, report, serve_command, serving
from .test_turn_bench import AGENT, BODY, SCRIPT, is_done

ROUNDS = 7
TURNS = 10 * CLIENTS
AT_ONCE = 100
BOUND = 4.0
"""What holds in bad hours, too."""

DELEGATES = """
llm: {{model: "script:delegates.yaml"}}
a2a:
  - {{name: b, url: "http://{address}/a2a", max_concurrency: 100}}
"""
DELEGATES_SCRIPT = SCRIPT.replace(
    "name: resources_list, arguments: {}", 'name: a2a_b, arguments: {message: "hello"}'
)


@pytest.mark.bench
def test_a_hop_over_a_local_call(tmp_path: Path) -> None:
    (tmp_path / "script.yaml").write_text(SCRIPT)
    (tmp_path / "delegates.yaml").write_text(DELEGATES_SCRIPT)
    local, remote = tmp_path / "b.yaml", tmp_path / "a.yaml"
    local.write_text(AGENT.format(clients=CLIENTS, stopgo=STOPGO, db=tmp_path / "resources.db"))
    with serving(serve_command(local, tmp_path / "data-b")) as (below, b):
        remote.write_text(DELEGATES.format(address=below))
        with serving(serve_command(remote, tmp_path / "data-a")) as (above, a):
            posts = [("/conversations", BODY)] * TURNS
            at_b, at_a = partial(post_all, below, posts, is_done), partial(post_all, above, posts, is_done)
            at_b()
            at_a()
            rounds = []
            for _ in range(ROUNDS):
                tool = cpu_of(b, at_b)
                served = [0.0]

                def chained(served: list[float] = served) -> None:
                    served[0] = cpu_of(a, at_a)

                below_it = cpu_of(b, chained)
                rounds.append((tool, served[0], below_it))
            began = time.monotonic()
            many = [("/conversations", BODY)] * (2 * AT_ONCE)
            cores = cpu_of(a, partial(post_all, above, many, is_done, AT_ONCE)) / (time.monotonic() - began)
            wall = (time.monotonic() - began) / 2
    ratio = median(delegated / tool for tool, delegated, _ in rounds)
    report(
        bench="hop over a local call",
        local_ms=median(tool for tool, _, _ in rounds) / TURNS * 1000,
        hop_ms=median(delegated for _, delegated, _ in rounds) / TURNS * 1000,
        called_ms=median(called for _, _, called in rounds) / TURNS * 1000,
        ratio=ratio,
        bound=BOUND,
        hundred_chained_turns_s=wall,
        cores_of_the_caller=cores,
    )
    assert ratio <= BOUND
