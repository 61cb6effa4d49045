"""The client side of the official MCP conformance suite, one scenario after the other: `make conformance`.

What a revision of the protocol requires of a client is the suite's own list. Side by side its scenarios
starve each other, and a probe that comes late looks like an older server.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from time import monotonic

from tests.tiers.slices import chosen

ROOT = Path(__file__).parents[2]
MODULES = ROOT / "build" / "npm-conformance" / "node_modules"
SUITE = (
    str(MODULES / ".bin" / "node"),
    str(MODULES / "@modelcontextprotocol" / "conformance" / "dist" / "index.js"),
)
RESULTS = ROOT / "build" / "conformance"
REVISIONS = ("2025-11-25", "2026-07-28")
CLIENT = f"{shlex.quote(sys.executable)} -m tests.conformance.client"
TIMEOUT = 300
"""Seconds for one scenario."""
SHOWN_LINES = 40
"""Of the output of a scenario that fails."""


def required(revision: str) -> list[str]:
    """The client scenarios that count for that revision."""
    listing = subprocess.run(
        [*SUITE, "list", "--requirements", revision], capture_output=True, text=True, check=True
    ).stdout
    section = listing.partition("Client scenarios")[2].partition("\n\n")[0]
    scenarios = [line.split("- ", 1)[1] for line in section.splitlines() if line.startswith("  - ")]
    if not scenarios:
        sys.exit(f"the suite names no client scenarios for {revision}")
    return scenarios


def run(revision: str, scenario: str) -> tuple[bool, str]:
    """Whether the scenario passes, and what was said about it."""
    command = [*SUITE, "client", "--command", CLIENT, "--scenario", scenario, "--spec-version", revision]
    options = ["--timeout", str(TIMEOUT * 1000), "--output-dir", str(RESULTS)]
    done = subprocess.run(
        [*command, *options],
        cwd=ROOT,
        env={**os.environ, "NO_COLOR": "1"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=2 * TIMEOUT,
        check=False,
    )
    return done.returncode == 0, done.stdout


def passes(revision: str, scenario: str) -> bool:
    """Run a scenario, and tell of it."""
    began = monotonic()
    passed, output = run(revision, scenario)
    verdict = "passed" if passed else "failed"
    print(f"{revision} {scenario}: {verdict} ({monotonic() - began:.0f} s)", flush=True)
    if not passed:
        print("\n".join(output.splitlines()[-SHOWN_LINES:]), flush=True)
    return passed


def main(arguments: Sequence[str]) -> int:
    """`arguments`: names of scenarios, or a slice."""
    scenarios = [f"{revision} {scenario}" for revision in REVISIONS for scenario in required(revision)]
    part, wanted = chosen(scenarios, arguments)
    named = [each for each in part if not wanted or each.split()[1] in wanted]
    failed = [each for each in named if not passes(*each.split())]
    if failed:
        print("failed:", *failed, sep="\n  ", file=sys.stderr)
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
