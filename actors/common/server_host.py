"""The event loop for tool servers that the embedding program passes as objects."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from contextvars import ContextVar
from typing import Any, TypeAlias

ServerHost: TypeAlias = Callable[[AbstractAsyncContextManager[Any]], AbstractAsyncContextManager[Any]]
"""Takes the transport of a server, which runs the server while it is entered, and returns one to enter in the
agent's loop. Both give a pair of streams, of which the first is read and the second is written."""


def own_loop(transport: AbstractAsyncContextManager[Any]) -> AbstractAsyncContextManager[Any]:
    """The agent's own trio loop."""
    return transport


server_host: ContextVar[ServerHost] = ContextVar("server_host", default=own_loop)
"""Set before the agent is opened."""
