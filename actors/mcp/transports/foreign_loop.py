"""Tells the sender of a call that its function needs the other event loop.

The SDK answers for a function that failed without the exception, which it logs only. A filter of that logger
looks for the exceptions of asyncio outside its loop, and of trio outside of its own; the call that is being
answered is found by its context.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

_ON_TRIO = (
    "no running event loop",
    "there is no current event loop",
    "trio.run received unrecognized yield message",
    "should be used inside a task",  # aiohttp
    "attached to a different loop",
    "bound to a different event loop",
)
_ON_ASYNCIO = ("must be called from async context",)
USES_ASYNCIO = (
    "The function uses asyncio, and runs on the agent's own loop, trio. Open the agent with for_asyncio, or "
    "make it a plain function, which runs in a thread."
)
USES_TRIO = "The function uses trio, and runs on the asyncio loop of the program, where only asyncio works."
_MOST_CAUSES = 10

_reasons: ContextVar[list[str] | None] = ContextVar("reasons", default=None)


def reason_of(error: BaseException | None) -> str | None:
    """The sentence for an exception, which may be a cause of others; None: it has another reason. Pure."""
    for _ in range(_MOST_CAUSES):
        if error is None:
            break
        if isinstance(error, RuntimeError | TypeError):
            text = str(error).lower()
            if any(words in text for words in _ON_TRIO):
                return USES_ASYNCIO
            if any(words in text for words in _ON_ASYNCIO):
                return USES_TRIO
        error = error.__cause__ or error.__context__
    return None


class _Listener(logging.Filter):
    def filter(self, record: logging.LogRecord) -> bool:
        found = _reasons.get()
        if found is not None and record.exc_info and (reason := reason_of(record.exc_info[1])) is not None:
            found.append(reason)
        return True


_listener = _Listener()


@contextmanager
def listening() -> Iterator[list[str]]:
    """Collect the reasons for which a call that is sent in the block fails."""
    logging.getLogger("mcp.server.mcpserver.server").addFilter(_listener)  # no effect if it is there
    found: list[str] = []
    token = _reasons.set(found)
    try:
        yield found
    finally:
        _reasons.reset(token)


def with_reason(result: dict[str, Any], reasons: list[str]) -> dict[str, Any]:
    """The result of a call with the reason for which it failed."""
    content = result.get("content")
    if not reasons or not isinstance(content, list):
        return result
    return {**result, "content": [*content, {"type": "text", "text": reasons[0]}]}
