"""What the page shows of the agent itself."""

from __future__ import annotations

from typing import Any

from ...actors.agent import Agent


def agent_view(agent: Agent) -> dict[str, Any]:
    return {"name": agent.config.name, "description": agent.config.description}
