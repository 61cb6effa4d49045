"""The tools of the release manager in the pictures, which do nothing.

python release_tools.py github|deploy|tickets
"""

from __future__ import annotations

import sys
from typing import Any, Literal

import anyio
from mcp.server import MCPServer
from mcp_types import ToolAnnotations
from pydantic import BaseModel

READ = ToolAnnotations(read_only_hint=True)
ACT = ToolAnnotations(read_only_hint=False, destructive_hint=True, idempotent_hint=False)
CHANGE = ToolAnnotations(read_only_hint=False, destructive_hint=True, idempotent_hint=True)


class Strategy(BaseModel):
    kind: Literal["canary", "all at once"]
    steps: list[int]
    pause_minutes: float


class Notify(BaseModel):
    channel: str
    on_failure_only: bool = False


def github(server: MCPServer) -> None:
    @server.tool(annotations=READ)
    async def list_issues(milestone: str) -> dict[str, Any]:
        """The issues of a milestone."""
        await anyio.sleep(0.5)
        return {"milestone": milestone, "open": 0, "closed": 14}

    @server.tool(annotations=READ)
    async def compare_commits(base: str, head: str) -> dict[str, Any]:
        """What has changed between two commits."""
        await anyio.sleep(0.8)
        authors = ["okafor", "lindt", "sato"]
        return {"ahead_by": 37, "behind_by": 0, "files_changed": 112, "authors": authors}

    @server.tool(annotations=READ)
    async def read_log(build: str) -> dict[str, Any]:
        """The log of a build."""
        await anyio.sleep(1.1)
        return {"build": build, "passed": 2481, "failed": 0, "minutes": 9.2}


def deploy(server: MCPServer) -> None:
    @server.tool(annotations=READ)
    async def rollout_status(service: str) -> dict[str, Any]:
        """What runs where."""
        await anyio.sleep(0.4)
        return {"service": service, "running": "2.13.4", "share": 100}

    @server.tool(annotations=ACT)
    async def start_rollout(
        service: str,
        version: str,
        environment: Literal["staging", "production", "demo"],
        change_id: int,
        strategy: Strategy,
        notify: Notify,
    ) -> dict[str, Any]:
        """Replace the running version of a service."""
        return {"rollout": 311, "service": service, "version": version, "state": "started"}


def tickets(server: MCPServer) -> None:
    @server.tool(annotations=CHANGE)
    async def close_ticket(
        ticket: str, resolution: Literal["fixed", "duplicate", "declined"], comment: str
    ) -> dict[str, Any]:
        """Close a ticket and tell the customer."""
        return {"ticket": ticket, "state": "closed", "resolution": resolution}


if __name__ == "__main__":
    name = sys.argv[1]
    server = MCPServer(name)
    {"github": github, "deploy": deploy, "tickets": tickets}[name](server)
    server.run()
