"""Runs the stages of a tier, and ends with a report that fits on a screen.

    python -m tests.tiers.run check           format, lint, types, and all tests outside of the families
    python -m tests.tiers.run gate            the same, and a slice of each family
    python -m tests.tiers.run all [STAGE]     everything; from that stage on

The commit decides the slice and the seed; the environment variables SLICE (`3/8`) and SEED repeat a run.
Stages that need one core run side by side. Each stage runs, whatever happened to the others, and no test is
repeated. The output of each stage is in `build/tiers`; that of those that failed is also printed.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from random import SystemRandom
from time import monotonic

import attrs

from tests.tiers.failures import last_lines
from tests.tiers.families import FIGURES, MARKED, PROGRAMS, SLICES
from tests.tiers.slices import Slice

ROOT = Path(__file__).parents[2]
BUILD = ROOT / "build" / "tiers"
CORES = 2
AGAIN = {"check": "./check", "gate": ".ci/run", "all": "make all"}
CASES = re.compile(r"\b(\d+) (?:passed|mutants|seeds)")
LONGEST_REPORT = 60
"""Lines."""
LONGEST_OUTPUT = 400
"""Lines of a stage that failed."""


@attrs.frozen
class Stage:
    name: str
    command: tuple[str, ...]

    @property
    def log(self) -> Path:
        return BUILD / f"{self.name}.log"

    @property
    def failures(self) -> Path:
        return BUILD / f"{self.name}.failures"


@attrs.frozen
class Result:
    name: str
    code: int
    seconds: float
    cpu: float
    """Seconds of all processes that the stage waited for."""
    cases: int
    """How many tests passed; 0 for a program that does not say it."""


@attrs.frozen
class Choice:
    """The slice and the seed: those of the commit, so a run can be repeated; `make all` draws a seed."""

    part: Slice
    seed: int

    @classmethod
    def of(cls, tier: str) -> Choice:
        command = ("git", "-C", str(ROOT), "rev-parse", "HEAD")
        commit = subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()
        drawn = SystemRandom().randrange(1 << 32) if tier == "all" else int(commit[:8] or "0", 16)
        seed = int(os.environ.get("SEED") or drawn)
        part = os.environ.get("SLICE")
        return cls(Slice.parse(part) if part else Slice(seed % SLICES + 1, SLICES), seed)

    def __str__(self) -> str:
        return f"SLICE={self.part} SEED={self.seed}"


def make(target: str, *arguments: str) -> tuple[str, ...]:
    return ("make", "--no-print-directory", target, f"ARGS={shlex.join(arguments)}")


def phases(tier: str, choice: Choice) -> Iterator[tuple[int, list[Stage]]]:
    """Stages that may run at the same time, with how many of them do."""
    part, seed = choice.part, f"--seed={choice.seed}"
    types = Stage("pyright", ("pyright",)), Stage("mypy", ("mypy",))
    yield 1, [Stage("format", ("ruff", "format", "--check", ".")), Stage("lint", ("ruff", "check", "."))]
    yield 2, [*types]
    yield 1, [Stage("tests", make("tests", "--tests=light", seed))]
    if tier == "gate":
        yield 1, [Stage("slices", make("tests", "--tests=slices", f"--slice={part}", seed))]
        parts = [(each.name, f"--slice={part.within(each.slices)}") for each in PROGRAMS]
        yield 2, [Stage(name, make(name, each, seed)) for name, each in parts]
    elif tier == "all":
        yield 1, [Stage(each.name, make(each.name, seed)) for each in MARKED if each.slices]
        yield 2, [Stage(each.name, make(each.name)) for each in PROGRAMS]
        yield 1, [Stage(name, make(name)) for name in FIGURES]


def run(stage: Stage, workers: int) -> Result:
    """`workers`: how many cores it may use."""
    began = monotonic()
    stage.failures.unlink(missing_ok=True)
    with stage.log.open("wb") as log:
        process = subprocess.Popen(
            stage.command,
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            env={**os.environ, "FAILURES": str(stage.failures), "AT_ONCE": str(workers)},
        )
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    cases = CASES.findall(stage.log.read_text(errors="replace"))
    result = Result(
        stage.name,
        process.returncode,
        monotonic() - began,
        usage.ru_utime + usage.ru_stime,
        int(cases[-1]) if cases else 0,
    )
    print(line_of(result), flush=True)
    return result


def line_of(result: Result) -> str:
    verdict = f"failed ({result.code})" if result.code else "passed"
    cases = f" {result.cases:6} cases" if result.cases else ""
    return f"{result.name:12} {verdict:12} {result.seconds:5.0f} s {result.cpu:6.0f} CPU s{cases}"


def reasons(stage: Stage, choice: Choice) -> Iterator[str]:
    """What failed in a stage, and the command that repeats it."""
    if not stage.failures.exists():
        yield from (f"  {line}" for line in last_lines(stage.log.read_text(errors="replace"), 6))
        yield f"  to repeat: {shlex.join(stage.command)}"
        return
    for line in stage.failures.read_text().splitlines():
        failure = json.loads(line)
        yield f"  {failure['test']}"
        yield f"    {failure['line']}"
        again = shlex.join((failure["test"], f"--seed={choice.seed}"))
        yield f"    to repeat: make test ARGS={shlex.quote(again)}"


def report(
    tier: str, stages: Sequence[Stage], results: Sequence[Result], choice: Choice, seconds: float
) -> list[str]:
    failed = [stage for stage, result in zip(stages, results, strict=True) if result.code]
    lines = [line_of(result) for result in results]
    cpu = sum(result.cpu for result in results)
    lines.append(f"{tier}: {choice}, {seconds:.0f} s, {cpu:.0f} CPU s")
    for stage in failed:
        lines += [f"{stage.name} failed:", *reasons(stage, choice)]
    if failed:
        lines = lines[: LONGEST_REPORT - 3]
        lines.append(f"the whole run again: {choice} {AGAIN[tier]}")
    return [*lines, f"{len(results) - len(failed)} passed, {len(failed)} failed"]


def remember(results: Sequence[Result]) -> None:
    """Keep the last result of each stage, and print them all: `make all` may be run in parts."""
    file = BUILD / "table.json"
    table = json.loads(file.read_text()) if file.exists() else {}
    table.update({result.name: line_of(result) for result in results})
    file.write_text(json.dumps(table, indent=0))
    print("=== the last result of each stage", *table.values(), sep="\n")


def main(arguments: Sequence[str]) -> int:
    tier, first = arguments[0], arguments[1] if len(arguments) > 1 else ""
    choice = Choice.of(tier)
    began = monotonic()
    BUILD.mkdir(parents=True, exist_ok=True)
    print(f"{tier}: {choice}", flush=True)
    stages: list[Stage] = []
    results: list[Result] = []
    known = [stage.name for _, phase in phases(tier, choice) for stage in phase]
    if first and first not in known:
        print(f"no stage {first}; there are: {', '.join(known)}", file=sys.stderr)
        return 2
    left_out = set(known[: known.index(first)] if first else ())
    for workers, phase in phases(tier, choice):
        phase = [stage for stage in phase if stage.name not in left_out]
        with ThreadPoolExecutor(workers) as pool:
            results += pool.map(partial(run, workers=CORES // workers), phase)
        stages += phase
    remember(results)
    for stage, result in zip(stages, results, strict=True):
        if result.code:
            lines = stage.log.read_text(errors="replace").splitlines()
            print(f"=== the end of the output of {stage.name}", *lines[-LONGEST_OUTPUT:], sep="\n")
    print("=== report", *report(tier, stages, results, choice, monotonic() - began), sep="\n")
    return int(any(result.code for result in results))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
