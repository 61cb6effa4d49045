"""Checking edited arguments without being held up by the schema.

A regular expression in a schema can take longer than anybody lives, nothing interrupts Python's matcher, and
it lets no other thread run meanwhile. So a schema with patterns is applied by a process of its own, which can
be ended.
"""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import trio

from stopgo.actors.approvals import AS_IT_IS, check_arguments
from stopgo.actors.errors import AgentError

PATIENCE = 5.0
"""Seconds a check may take in a process of its own, its start included."""


async def check_edit(arguments: Mapping[str, Any], schema: Mapping[str, Any]) -> None:
    """`check_arguments`, within a bounded time. Raises `AgentError` ``invalid_arguments``."""
    if not _has_patterns(schema):
        check_arguments(arguments, schema)
        return
    # -P: the working directory is nobody's place to bring modules from.
    command = [sys.executable, "-P", "-m", __name__]
    request = json.dumps([arguments, schema]).encode()
    with trio.move_on_after(PATIENCE):
        done = await trio.run_process(command, stdin=request, capture_stdout=True)
        if refusal := json.loads(done.stdout):
            raise AgentError(
                "invalid_arguments", refusal["message"], hint=refusal["hint"], details=refusal["details"]
            )
        return
    raise AgentError(
        "invalid_arguments",
        f"checking the edited arguments against the tool's schema took longer than {PATIENCE:g} s",
        hint=AS_IT_IS,
    )


def _has_patterns(schema: object) -> bool:
    match schema:
        case Mapping():
            return (
                "pattern" in schema
                or "patternProperties" in schema
                or any(_has_patterns(each) for each in schema.values())
            )
        case str():
            return False
        case Sequence():
            return any(_has_patterns(each) for each in schema)
        case _:
            return False


def main() -> None:
    """Arguments and schema on stdin; null on stdout, or what `check_arguments` has against them."""
    signal.alarm(int(2 * PATIENCE))  # should whoever started us be killed, nobody else would end us
    arguments, schema = json.load(sys.stdin)
    refusal = None
    try:
        check_arguments(arguments, schema)
    except AgentError as error:
        refusal = {"message": error.message, "hint": error.hint, "details": error.details}
    json.dump(refusal, sys.stdout)


if __name__ == "__main__":
    main()
