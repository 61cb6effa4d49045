"""Abbreviated ids in paths: the first characters of the id of a conversation or an approval.

1. An id that is whole, or has other characters than those of a UUID, is used as it is.
2. So is one that somebody has chosen, if a conversation with exactly this id may be seen.
3. Otherwise it stands for the one id that begins with it, among those that the principal may see.
4. If several begin with it, the error names them. If none does, the route answers as for each unknown id; so
   the answer tells nothing about hidden conversations.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from typing import Literal, TypeAlias, TypeVar

from ...actors.agent.agent import Agent
from ...actors.common.errors import AgentError
from ..http.request import HttpRequest
from ..http.web_socket import Socket

T = TypeVar("T")
R = TypeVar("R", HttpRequest, Socket)
Of: TypeAlias = Literal["conversation", "approval"]

MOST_NAMED = 10
"""Maximum number of ids that an error names."""
_SHORT = re.compile("[0-9a-f]{8}[0-9a-f-]{0,27}")
"""At least as long as the ids that `stopgo chat` and `stopgo approvals` show."""


def is_abbreviated(id: str) -> bool:
    """Whether the id may be the beginning of another one."""
    return _SHORT.fullmatch(id.lower()) is not None


def with_whole_ids(agent: Agent, view: Callable[..., Awaitable[T]]) -> Callable[..., Awaitable[T]]:
    """Wrap the view of a route: it gets whole ids in place of abbreviated ones."""

    async def wrapped(target: R, **variables: str) -> T:
        request = target.request if isinstance(target, Socket) else target
        own = agent.acting_as(request.principal)
        if "id" in variables:
            variables["id"] = await _whole(own, variables["id"], "conversation")
        if "uuid" in variables:
            variables["uuid"] = await _whole(own, variables["uuid"], "approval")
        return await view(target, **variables)

    return wrapped


async def _whole(agent: Agent, id: str, of: Of) -> str:
    """Raises `AgentError` ``ambiguous_id``."""
    if not is_abbreviated(id) or (of == "conversation" and await _exists(agent, id)):
        return id
    found = await agent.ids_beginning(id.lower(), of)
    if len(found) > 1:
        shown = sorted(found)[:MOST_NAMED]
        raise AgentError(
            "ambiguous_id",
            f"{len(found)} {of}s have an id that begins with {id}",
            hint=f"Give more characters: {', '.join(shown)}",
            details={"candidates": shown},
        )
    return found[0] if found else id


async def _exists(agent: Agent, id: str) -> bool:
    try:
        await agent.log_end(id)
    except AgentError as error:
        if error.code == "journal_unavailable":  # another question would wait as long as this one
            raise
        return False
    return True
