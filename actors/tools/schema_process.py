"""A program that applies a JSON Schema, however long it takes: [arguments, schema] on stdin, what is wrong on
stdout. A process of its own can be ended; nothing else ends Python's matcher of regular expressions.
"""

from __future__ import annotations

import json
import math
import signal
import sys

from ...runtime.json_text import load
from .json_schema import Checker, Uncheckable, Work

PATIENCE = 5.0
"""Seconds a check may take here, the start of the process included."""


def main() -> None:
    signal.alarm(int(2 * PATIENCE))  # should whoever started us be killed, nobody else would end us
    arguments, schema = load(sys.stdin.read())
    try:
        answer: dict[str, object] = {"mistakes": Checker(schema).mistakes(arguments, Work(math.inf, None))}
    except Uncheckable as error:
        answer = {"uncheckable": str(error)}
    json.dump(answer, sys.stdout)


if __name__ == "__main__":
    main()
