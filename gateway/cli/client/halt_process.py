"""The emergency stop of a running agent, for a person."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

from .agent_client import AgentClient, ServerError


def lines_of(state: Mapping[str, Any]) -> Iterator[str]:
    """The emergency stop in words."""
    yield halt_line(state) or "The agent is not halted."
    if (calls := state["in_flight"]) and state["halted"]:
        yield f"{calls} {'call was' if calls == 1 else 'calls were'} sent before and may still act."


def halt_line(state: Mapping[str, Any]) -> str | None:
    """A line about a halt; None without one."""
    if not state["halted"]:
        return None
    by = f" by {state['by']}" if "by" in state else ""
    return f"The agent is halted since {state['at']}{by}" + (
        f": {state['reason']}" if "reason" in state else "."
    )


async def halt_of(client: AgentClient) -> str | None:
    """The line about the halt of an agent; None if there is none, or the agent does not say."""
    with suppress(ServerError):  # an older agent, or a role that may not read it
        return halt_line(await client.get("/halt"))
    return None
