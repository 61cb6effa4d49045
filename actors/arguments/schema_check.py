"""Validation of values against untrusted schemas in a bounded time.

A validation first runs in this process with a limited number of steps, which is nearly always enough. If it
exceeds them, it is repeated in a process of its own, which can be killed.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from typing import Any

import trio

from ...runtime.json_text import load
from . import schema_process
from .json_schema import Checker, TooMuchWork, Uncheckable, Work

_processes = trio.CapacityLimiter(2)
"""Limits the processes, because each uses a whole processor."""


class Unfinished(Uncheckable):
    """The validation exceeded its time, or its process failed."""


async def find_mistakes(arguments: Mapping[str, Any], checker: Checker) -> list[str]:
    """Return the mistakes of the arguments, each with its position; empty if they are valid.

    Raises:
        Unfinished
        Uncheckable: the schema cannot be applied, to these arguments or to any.
    """
    try:
        return checker.mistakes(arguments, Work())
    except TooMuchWork:
        pass
    try:
        request = json.dumps([arguments, checker.schema]).encode()
    except RecursionError as error:
        raise Uncheckable("the arguments are nested too deep") from error
    async with _processes:
        return await _in_process(request)


async def _in_process(request: bytes) -> list[str]:
    # -P, so that no module is imported from the working directory.
    command = [sys.executable, "-P", "-m", schema_process.__name__]
    with trio.move_on_after(schema_process.PATIENCE):
        try:
            done = await trio.run_process(command, stdin=request, capture_stdout=True)
        except OSError as error:
            raise Unfinished(f"the process that checks it did not start: {error.strerror}") from error
        except subprocess.CalledProcessError as error:  # most likely for lack of memory
            raise Unfinished(f"the process that checks it ended with code {error.returncode}") from error
        reply = load(done.stdout.decode())
        if "uncheckable" in reply:
            raise Uncheckable(reply["uncheckable"])
        return list(reply["mistakes"])
    raise Unfinished(f"applying it took longer than {schema_process.PATIENCE:g} s")
