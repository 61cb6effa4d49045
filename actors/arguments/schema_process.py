"""A program that validates with JSON Schema without a limit of steps: it reads [arguments, schema] from stdin
and writes the mistakes to stdout. It is a process, because a regular expression in Python cannot be
interrupted.
"""

from __future__ import annotations

import json
import math
import signal
import sys

from ...runtime.json_text import load
from .json_schema import Checker, Uncheckable, Work

PATIENCE = 5.0
"""Seconds that a validation may take, including the start of the process."""


def main() -> None:
    signal.alarm(int(2 * PATIENCE))  # in case the parent is killed and cannot end this process
    arguments, schema = load(sys.stdin.read())
    try:
        reply: dict[str, object] = {"mistakes": Checker(schema).mistakes(arguments, Work(math.inf, None))}
    except Uncheckable as error:
        reply = {"uncheckable": str(error)}
    json.dump(reply, sys.stdout)


if __name__ == "__main__":
    main()
