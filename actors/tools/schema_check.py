"""Checking values against a schema that somebody else wrote, in a bounded time.

Here as long as it takes little, which is nearly always; else in a process of its own, which can be ended.
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
"""They take the whole of a processor each; whoever comes then waits."""


class TooSlow(Uncheckable):
    """The time was up."""


async def find_mistakes(arguments: Mapping[str, Any], checker: Checker) -> list[str]:
    """What is wrong with the arguments, and where; empty when they fit.

    Raises:
        Uncheckable
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
    # -P: the working directory is nobody's place to bring modules from.
    command = [sys.executable, "-P", "-m", schema_process.__name__]
    with trio.move_on_after(schema_process.PATIENCE):
        try:
            done = await trio.run_process(command, stdin=request, capture_stdout=True)
        except OSError as error:
            raise Uncheckable(f"the process for it does not start: {error.strerror}") from error
        except subprocess.CalledProcessError as error:  # for want of memory, most likely
            raise Uncheckable(f"the process for it ended with code {error.returncode}") from error
        answer = load(done.stdout.decode())
        if "uncheckable" in answer:
            raise Uncheckable(answer["uncheckable"])
        return list(answer["mistakes"])
    raise TooSlow(f"applying it took longer than {schema_process.PATIENCE:g} s")
