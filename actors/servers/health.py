"""The health of an agent's parts, as they last published it."""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from ...config.sections.agent_config import AgentConfig
from ..tools.known import change
from .server_directory import ServerDirectory

_AT_WORK = ("connected", "auth_required")
"""The healthy states of servers. A server that waits for a token is healthy, because the token comes with a
request, and no request would come if the agent were not ready."""


@attrs.frozen
class PartHealth:
    """The health of a server, a model, another agent or the journal."""

    name: str
    """The name in the agent file."""
    state: str
    """The state, for example `ready`, `connected` or `disconnected`."""
    error: str | None = None
    """The reason why it is unavailable."""
    held: tuple[str, ...] = ()
    """For a server: the tools whose weaker hints wait for acceptance, each with the change."""
    left_out: tuple[str, ...] = ()
    """For a server: the listed tools that are left out, each with the reason."""


@attrs.frozen
class Health:
    """The health of an agent, as its parts last published it."""

    ready: bool
    """Whether all parts can work now. Of the servers that are not required, one is enough if there are no
    others."""
    servers: tuple[PartHealth, ...]
    """The tool servers."""
    models: tuple[PartHealth, ...]
    """The started models."""
    store: PartHealth
    """The journal."""
    agents: tuple[PartHealth, ...] = ()
    """The other agents. They do not count for `ready`."""
    channels: tuple[PartHealth, ...] = ()
    """The channels of notifications. They do not count for `ready`."""
    need_newer: int = 0
    """Conversations that a newer version has written, and that no process can continue now. They do not count
    for `ready`."""

    def without_store(self, error: str) -> Health:
        """The health while the journal does not answer."""
        return attrs.evolve(self, ready=False, store=PartHealth(self.store.name, "unavailable", error))


def health_of(
    config: AgentConfig, directory: ServerDirectory, models: Sequence[str], *, stopping: bool
) -> Health:
    held = {
        group.server.name: tuple(f"{tool.own_name}: {change(tool)}" for tool in group.tools if tool.held)
        for group in directory.catalogue.groups
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
    away = {server.name for server in servers if server.state not in _AT_WORK}
    return Health(
        not stopping and away <= optional and (not servers or len(away) < len(servers)),
        servers,
        tuple(PartHealth(name, "ready") for name in models),
        PartHealth("journal", "stopping" if stopping else "ready"),
        tuple(PartHealth(name, status.state, status.error) for name, status in directory.agents.items()),
    )
