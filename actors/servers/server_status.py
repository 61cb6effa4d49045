"""The published status of a tool server."""

from __future__ import annotations

from typing import ClassVar, Literal, TypeAlias

import attrs

from ..tools.needs import Wanted
from ..tools.tool import Tool

ServerState: TypeAlias = Literal["connecting", "connected", "disconnected", "auth_required"]


@attrs.frozen
class ServerStatus:
    """The status of a server, published at each change."""

    name: str
    state: ServerState
    error: str | None = None
    """The reason why it is not connected; None if it is, or has not failed yet."""
    tools: tuple[Tool, ...] = ()
    """The tools that it last listed, also while it reconnects."""
    protocol: str | None = None
    """The protocol revision of the last connection."""
    wanted: Wanted | None = None
    """In state `auth_required`: the credential that it wants."""
    left_out: tuple[str, ...] = ()
    """The listed tools that are left out, each with the reason: malformed, too long or too many."""


class ServerStartFailed(Exception):
    """A server failed to connect when the agent started."""

    code: ClassVar[str] = "mcp_server_failed"

    def __init__(self, name: str, reason: str, *, mistake: bool = False) -> None:
        super().__init__(name, reason)
        self.name = name
        self.reason = reason
        self.mistake = mistake
        """Whether the cause is a mistake in the agent file, or in a file that it names."""

    def __str__(self) -> str:
        return f'MCP server "{self.name}" failed to start: {self.reason}'
