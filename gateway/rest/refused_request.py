"""Sets the conversation and session of a failed request for the access log."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TypeVar

from ...actors.agent.agent import Agent
from ...actors.common.errors import AgentError
from ...runtime.journal.errors import JournalError, JournalUnavailable
from ..http.request import HttpRequest
from ..http.web_socket import Socket

T = TypeVar("T")
R = TypeVar("R", HttpRequest, Socket)


def named_on_error(agent: Agent, view: Callable[..., Awaitable[T]]) -> Callable[..., Awaitable[T]]:
    """Wrap the view of a route: when it raises, the log and the reply name the conversation, found by the
    `id` or the approval's `uuid` in the path. A view that returns a reply names the conversation itself."""

    async def wrapped(target: R, **variables: str) -> T:
        try:
            return await view(target, **variables)
        except Exception as error:
            if _is_away(error):
                raise
            request = target.request if isinstance(target, Socket) else target
            own, id = agent.acting_as(request.principal), variables.get("id")
            with suppress(AgentError, JournalError):
                if "uuid" in variables:
                    id = (await own.approval(variables["uuid"])).stream
                if id is not None:
                    await name_conversation(own, request, id)
            raise

    return wrapped


async def name_conversation(agent: Agent, request: HttpRequest, id: str) -> None:
    """Set the conversation of a request for the access log, if one with this id exists. Raises `AgentError`
    ``journal_unavailable``."""
    try:
        request.set_conversation(id, (await agent.log_end(id)).session_id)
    except (AgentError, JournalError) as error:
        if _is_away(error):
            raise


def _is_away(error: Exception) -> bool:
    """Whether the journal cannot be reached: another question would wait as long as the one before."""
    return isinstance(error, JournalUnavailable) or (
        isinstance(error, AgentError) and error.code == "journal_unavailable"
    )
