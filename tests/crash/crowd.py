"""What those ask who look at a great many conversations at once."""

from __future__ import annotations

import gc

import psutil

from stopgo.actors.agent.agent import Agent


def resident() -> int:
    """Bytes of memory that this process has for itself now."""
    gc.collect()
    size: int = psutil.Process().memory_info().rss
    return size


async def all_pending(agent: Agent) -> list[str]:
    """The ids of all questions that wait for an answer."""
    found: list[str] = []
    cursor: str | None = None
    while True:
        page = await agent.approvals(limit=200, cursor=cursor)
        found += [question.id for question in page.approvals]
        cursor = page.next_cursor
        if cursor is None:
            return found
