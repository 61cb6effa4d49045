"""Requests and output of `stopgo halt` and `stopgo unhalt`."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

from .agent_client import AgentClient, JsonObject, ServerError, open_client
from .deciding import tell_refusal
from .interrupt import run_until_interrupted
from .options import FAILED
from .terminal import Terminal, printable


def run_halt(url: str, bearer: str | None, action: str, reason: str | None, *, as_json: bool) -> int:
    """Carry out `action` (`halt`, `unhalt` or `status`) and return the exit code."""

    async def request() -> JsonObject:
        async with open_client(url, bearer) as client:
            if action == "status":
                return await client.get("/halt")
            return await client.post(f"/{action}", {} if reason is None else {"reason": reason}, wait=False)

    terminal = Terminal.of_this_process()
    try:
        state = run_until_interrupted(request)
    except ServerError as error:
        tell_refusal(terminal, error)
        return FAILED
    for line in [json.dumps(state)] if as_json else map(printable, lines_of(state)):
        print(line)
    return 0


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
