"""How the parts of an agent are, as they last said themselves."""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from ...config.agent_config import AgentConfig
from .known import change
from .server_directory import ServerDirectory

_AT_WORK = ("connected", "auth_required")
"""States of servers that are as they should be: one that waits for a token gets it from a request, and none
would come if the agent said that it is not ready."""


@attrs.frozen
class PartHealth:
    """How a server, a model, another agent or the journal is."""

    name: str
    """Its name in the agent file."""
    state: str
    """A word such as `ready`, `connected` or `disconnected`."""
    error: str | None = None
    """What is wrong with it."""
    held: tuple[str, ...] = ()
    """Of a server, the tools of which it says less now than what counts, and what."""
    left_out: tuple[str, ...] = ()
    """Tools of a server that there are not, and why."""


@attrs.frozen
class Health:
    """How the parts of an agent are, as they last said themselves."""

    ready: bool
    """Every part can do its work now, but for servers that are not required."""
    servers: tuple[PartHealth, ...]
    """The tool servers."""
    models: tuple[PartHealth, ...]
    """The models that were started."""
    store: PartHealth
    """The journal."""
    agents: tuple[PartHealth, ...] = ()
    """Those that work may be delegated to. The agent is ready without them."""


def health_of(
    config: AgentConfig, directory: ServerDirectory, models: Sequence[str], *, stopping: bool
) -> Health:
    held = {
        shelf.server.name: tuple(f"{tool.own_name}: {change(tool)}" for tool in shelf.tools if tool.held)
        for shelf in directory.catalogue.shelves
    }
    servers = tuple(
        PartHealth(
            server.name,
            status.state,
            status.error or directory.refused.get(server.name),
            held.get(server.name, ()),
            status.left_out,
        )
        for server in config.enabled_servers
        if (status := directory.servers.get(server.name)) is not None
    )
    optional = {server.name for server in config.enabled_servers if not server.required}
    return Health(
        not stopping and all(server.state in _AT_WORK or server.name in optional for server in servers),
        servers,
        tuple(PartHealth(name, "ready") for name in models),
        PartHealth("journal", "stopping" if stopping else "ready"),
        tuple(PartHealth(name, status.state, status.error) for name, status in directory.agents.items()),
    )
