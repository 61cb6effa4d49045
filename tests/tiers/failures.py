"""What a failed stage says in a few lines: pure functions over its output."""

from __future__ import annotations

import re

MOST = 200
"""Characters of a line."""
DIFFERS = re.compile(r"E +(?:At index \d|Differing items|[-+] )")
RAISED = re.compile(r"E +\S|[\s|]+[\w.]*(?:Error|Exception|Warning|Interrupt)(?::|$)")
CRASHED = "crashed while running"
HANGS = "it hangs, or has ended its process: the output of the stage has all stacks"
"""pytest ends the process of a test that takes longer than `faulthandler_timeout`."""
MARGIN = re.compile(r"^(?:E\s+|[\s|]+)")


def first_difference(text: str) -> str:
    """The line of a failure that says most: the first that differs, else the first of the error."""
    if CRASHED in text:
        return HANGS
    lines = text.splitlines()
    for pattern in (DIFFERS, RAISED):
        for number, line in enumerate(lines):
            if pattern.match(line):
                error = next(each for each in lines[: number + 1] if RAISED.match(each))
                parts = dict.fromkeys(MARGIN.sub("", each).strip() for each in (error, line))
                return " | ".join(part[:MOST] for part in parts)
    return next((line.strip()[:MOST] for line in reversed(lines) if line.strip()), "")


def last_lines(text: str, number: int) -> list[str]:
    return [line[:MOST] for line in text.splitlines() if line.strip()][-number:]
