"""What a tool server is up to, as others are told."""

from __future__ import annotations

from typing import ClassVar, Literal, TypeAlias

import attrs

from .needs import Wanted
from .tool import Tool

ServerState: TypeAlias = Literal["connecting", "connected", "disconnected", "auth_required"]


@attrs.frozen
class ServerStatus:
    """One change of a server's state."""

    name: str
    state: ServerState
    error: str | None = None
    """Why it is not connected; None when it is, or when nothing went wrong yet."""
    tools: tuple[Tool, ...] = ()
    """What it last listed; kept while the connection is being repaired."""
    protocol: str | None = None
    """The revision of the protocol that was last spoken with it."""
    wanted: Wanted | None = None
    """During `auth_required`: what its refusal said."""
    left_out: tuple[str, ...] = ()
    """Which of the tools it listed there are not, and why: malformed, too long, too many."""


class ServerStartFailed(Exception):
    """A server could not be connected when the agent started."""

    code: ClassVar[str] = "mcp_server_failed"

    def __init__(self, name: str, reason: str, *, mistake: bool = False) -> None:
        super().__init__(name, reason)
        self.name = name
        self.reason = reason
        self.mistake = mistake
        """The agent file is wrong, or a file that it names."""

    def __str__(self) -> str:
        return f'MCP server "{self.name}" failed to start: {self.reason}'
