"""The cost of a setting of a server: the CPU of a turn with it, as a ratio to one without.

The turn is that of `test_turn_bench`: a script as the model, one call of a stdio tool. Rounds of the two
servers alternate, a ratio is that of one round, and the median counts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from statistics import median

import attrs

from .served import CLIENTS, STOPGO, cpu_of, new_conversations, post_all, report, serve_command, serving
from .test_turn_bench import AGENT, BODY, SCRIPT, is_done

ROUNDS = 31
TURNS = 3 * CLIENTS
"""In a round."""


@attrs.frozen
class Setting:
    section: str = ""
    """Of the agent file."""
    options: Sequence[str] = ()
    """Of `stopgo serve`."""
    headers: Mapping[str, str] = attrs.field(factory=dict)
    """Of the requests."""


def compare(bench: str, folder: Path, setting: Setting, *, target: float, bound: float) -> None:
    """Report the ratio, and assert that it is at most `bound`.

    The server with the setting has the data directory `on`.
    """
    (folder / "script.yaml").write_text(SCRIPT)
    settings = {"off": Setting(), "on": setting}
    taken: dict[str, list[float]] = {name: [] for name in settings}
    with ExitStack() as stack:
        servers = {}
        for name, each in settings.items():
            config = folder / f"{name}.yaml"
            config.write_text(AGENT.format(stopgo=STOPGO, db=folder / f"{name}.db") + each.section)
            command = serve_command(config, folder / name, *each.options)
            servers[name] = stack.enter_context(serving(command))
        for number in range(ROUNDS):
            for name in sorted(
                servers, reverse=number % 2 == 0
            ):  # the second of a round may find warmer caches
                address, process = servers[name]
                headers = settings[name].headers
                ids = new_conversations(address, TURNS, headers)
                turns = [(f"/conversations/{id}/messages", BODY) for id in ids]
                work = partial(post_all, address, turns, is_done, headers=headers)
                taken[name].append(cpu_of(process, work) / TURNS * 1000)
    ratio = median(on / off for off, on in zip(taken["off"], taken["on"], strict=True))
    report(
        bench=bench,
        off_ms=median(taken["off"]),
        on_ms=median(taken["on"]),
        ratio=ratio,
        target=target,
        bound=bound,
    )
    assert ratio <= bound
