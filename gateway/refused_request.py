"""Names the conversation of a refused request, and its session, in the access log."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TypeVar

from ..actors.agent import Agent
from ..actors.common.errors import AgentError
from ..runtime.journal.errors import JournalError
from .http.request import Request
from .http.web_socket import Socket

T = TypeVar("T")
R = TypeVar("R", Request, Socket)


def naming(agent: Agent, view: Callable[..., Awaitable[T]]) -> Callable[..., Awaitable[T]]:
    """The view of a route. When it raises, the log and the reply name the conversation with the `id` in the
    path, or that of the approval with the `uuid`. A view that returns a reply names it itself."""

    async def named(to: R, **variables: str) -> T:
        try:
            return await view(to, **variables)
        except Exception:
            id = variables.get("id")
            with suppress(AgentError, JournalError):
                if "uuid" in variables:
                    id = (await agent.approval(variables["uuid"])).stream
            if id is not None:
                await name_conversation(agent, to.request if isinstance(to, Socket) else to, id)
            raise

    return named


async def name_conversation(agent: Agent, request: Request, id: str) -> None:
    """Tell the access log which conversation a request is about, if there is one of this id."""
    with suppress(AgentError, JournalError):
        request.concerns(id, (await agent.log_end(id)).session_id)
