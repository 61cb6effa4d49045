"""Live through many seeds, in two processes; a seed that goes wrong is told with its story.

    python -m tests.simulation.simulate               the first 700 seeds, 250 with another agent, 100 with
                                                      halts, too, and 500 on several members
    python -m tests.simulation.simulate 17            seed 17, with its story
    python -m tests.simulation.simulate 2000-9999     more of them
    python -m tests.simulation.simulate --slice=3/8 --seed=5      a part of the seeds

Exit code 1 when anything happened that may not.
"""

from __future__ import annotations

import faulthandler
import multiprocessing
import os
import signal
import sys
import tempfile
import time
import warnings
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from tests.tiers.slices import chosen

from .fleet import simulate_fleet
from .lives import Simulation, Wrong, simulate
from .plan import FIRST_WITH_HALTS, FIRST_WITH_MEMBERS, FIRST_WITH_PEER

SEEDS = [
    *range(700),
    *range(FIRST_WITH_PEER, FIRST_WITH_PEER + 250),
    *range(FIRST_WITH_HALTS, FIRST_WITH_HALTS + 100),
    *range(FIRST_WITH_MEMBERS, FIRST_WITH_MEMBERS + 500),
]
AT_ONCE = int(os.environ.get("AT_ONCE", "2"))
LONGEST = 120.0
"""Seconds of CPU time after which a story counts as endless."""
TOLD = 5
"""The number of failing stories that are printed in full."""


def live_through(seed: int) -> Simulation:
    """Every 20th seed over a file. Raises `Wrong`."""
    tell = simulate_fleet if seed >= FIRST_WITH_MEMBERS else simulate
    if seed % 20:
        return tell(seed)
    with tempfile.TemporaryDirectory(prefix="simulation-") as folder:
        return tell(seed, Path(folder))


def how_to_repeat(seed: int) -> str:
    return f"make simulate ARGS={seed}"


def _failure(seed: int) -> tuple[int, str]:
    warnings.simplefilter("error")
    signal.signal(signal.SIGVTALRM, lambda *_: _give_up(seed))
    signal.setitimer(signal.ITIMER_VIRTUAL, LONGEST)
    try:
        live_through(seed)
    except Wrong as wrong:
        return seed, str(wrong)
    return seed, ""


def _give_up(seed: int) -> None:
    """End the process, because an exception in the middle of a story could be taken for a part of it."""
    print(f"seed {seed} does not end", file=sys.stderr)
    faulthandler.dump_traceback()
    os._exit(1)


def _seeds(words: Sequence[str]) -> Sequence[int]:
    part, others = chosen([str(seed) for seed in SEEDS], words)
    if not others:
        return [int(seed) for seed in part]
    first, _, last = others[0].partition("-")
    return range(int(first), int(last or first) + 1)


def main(words: Sequence[str]) -> int:
    seeds = _seeds(words)
    if len(seeds) == 1:
        wrong = _failure(seeds[0])[1]
        print(wrong or live_through(seeds[0]).story())
        return 1 if wrong else 0
    began = time.monotonic()
    failed = []
    with ProcessPoolExecutor(AT_ONCE, mp_context=multiprocessing.get_context("spawn")) as pool:
        for seed, wrong in pool.map(_failure, seeds, chunksize=10):
            if wrong:
                failed.append(seed)
                told = wrong if len(failed) <= TOLD else wrong.splitlines()[0]
                print(f"seed {seed} went wrong: {told}\nTo repeat it: {how_to_repeat(seed)}\n", flush=True)
    took = time.monotonic() - began
    print(f"{len(seeds)} seeds in {took:.0f} s, {len(failed)} went wrong: {failed}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
