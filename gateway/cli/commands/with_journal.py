"""An operation of a command on a journal in a database."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable
from typing import TypeVar

import trio

from ....runtime.journal.errors import JournalUnavailable
from ....runtime.journal.protocol import Journal
from ....runtime.stores.open_journal import open_journal

T = TypeVar("T")

PATIENCE = 15.0
"""Seconds to wait for a database."""


def with_journal(address: str, operation: Callable[[Journal], Awaitable[T]]) -> T:
    """Open a journal, run an operation and return its result. Raises `JournalError`, and what the operation
    raises."""

    async def run() -> T | Exception:
        with trio.move_on_after(PATIENCE) as opening:
            async with open_journal(address) as journal:
                opening.deadline = math.inf
                try:
                    return await operation(journal)
                except Exception as error:  # raised outside: the journal's nursery would put it into a group
                    return error
        return JournalUnavailable(f"the database could not be reached within {PATIENCE:g} s")

    result = trio.run(run)
    if isinstance(result, Exception):
        raise result
    return result
