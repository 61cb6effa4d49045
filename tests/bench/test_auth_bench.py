"""The cost of authentication by API key: the CPU of a turn with `auth:`, as a ratio to one without.

The turn is that of `test_turn_bench`: a script as the model, one call of a stdio tool. Rounds of the two
servers alternate, a ratio is that of one round, and the median counts.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from statistics import median

import pytest

from stopgo.gateway.auth.key_changes import new_key
from stopgo.gateway.auth.key_file import KeyFile

from .served import CLIENTS, STOPGO, cpu_of, new_conversations, post_all, report, serve_command, serving
from .test_turn_bench import AGENT, BODY, SCRIPT, is_done

ROUNDS = 31
TURNS = 3 * CLIENTS
"""In a round."""
TARGET = 1.03
BOUND = 1.10
"""What a busy machine does not reach: there, the ratios of single rounds differ by more than a tenth."""


@pytest.mark.bench
def test_authentication_by_key(tmp_path: Path) -> None:
    (tmp_path / "script.yaml").write_text(SCRIPT)
    with KeyFile.in_directory(tmp_path / "keys").changing() as stored:
        key, text = new_key(stored, "bench", ("operator",), "someone", now=0.0)
        stored.append(key)
    taken: dict[str, list[float]] = {"off": [], "keys": []}
    headers: Mapping[str, Mapping[str, str]] = {"off": {}, "keys": {"X-API-Key": text}}
    with ExitStack() as stack:
        servers = {}
        for name, section in (("off", ""), ("keys", "auth: {api_keys: true}\n")):
            config = tmp_path / f"{name}.yaml"
            config.write_text(AGENT.format(stopgo=STOPGO, db=tmp_path / f"{name}.db") + section)
            servers[name] = stack.enter_context(serving(serve_command(config, tmp_path / name)))
        for _ in range(ROUNDS):
            for name, (address, process) in servers.items():
                ids = new_conversations(address, TURNS, headers[name])
                turns = [(f"/conversations/{id}/messages", BODY) for id in ids]
                work = partial(post_all, address, turns, is_done, headers=headers[name])
                taken[name].append(cpu_of(process, work) / TURNS * 1000)
    ratio = median(keys / off for off, keys in zip(taken["off"], taken["keys"], strict=True))
    report(
        bench="authentication by key",
        off_ms=median(taken["off"]),
        keys_ms=median(taken["keys"]),
        ratio=ratio,
        target=TARGET,
        bound=BOUND,
    )
    assert ratio <= BOUND
