"""The agents that a message has passed through. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from ...actors.a2a.wire.a2a_errors import A2AError, invalid
from ...actors.a2a.wire.a2a_headers import PATH
from ...actors.a2a.wire.task import Message
from ...actors.log.words.events import Origin

MOST_HOPS = 16
"""Maximum number of agents that a message may pass through."""
LONGEST_ID = 128


def origin_of(message: Message, traceparent: str | None, own_id: str) -> Origin | None:
    """The origin that calls of further agents pass on; None: there is none.

    Raises `A2AError` UNSUPPORTED_OPERATION for a message that has passed through this agent before, or
    through too many, because agents that call each other in a circle would never end.
    """
    path = (message.metadata or {}).get(PATH)
    visited = path.get("agents") if isinstance(path, Mapping) else ()
    if not isinstance(visited, list | tuple) or not all(isinstance(each, str) for each in visited):
        raise invalid("message.metadata", "must name the agents as a list of strings")
    if own_id in visited:
        raise A2AError(
            "UNSUPPORTED_OPERATION", "the message has come through this agent: agents call in a circle"
        )
    if len(visited) >= MOST_HOPS or any(len(each) > LONGEST_ID for each in visited):
        raise A2AError(
            "UNSUPPORTED_OPERATION", f"the message has come through {len(visited)} agents, too many"
        )
    return Origin(tuple(visited), traceparent) if visited or traceparent else None
