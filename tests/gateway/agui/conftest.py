from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from stopgo.actors.tools.tool import ToolAuthRequired
from tests.actors.world import DESTRUCTIVE, READ_ONLY, World

from .ui import UI, shown

SCHEMA = {"type": "object", "properties": {"name": {"type": "string"}}, "additionalProperties": False}


@pytest.fixture
def world(tmp_path: Path) -> World:
    """With a tool that asks, one that runs, a slow one, and one that wants the token `good`."""

    async def slow(_: Mapping[str, Any]) -> str:
        await trio.sleep(30)
        return "slept"

    async def locked(_: Mapping[str, Any]) -> str:
        if found.bearers[-1] != "good":
            raise ToolAuthRequired("no", status=401)
        return "open"

    found = World(tmp_path)
    found.settings["mcp_servers"] = [
        {"name": "tools", "command": "none"},
        {"name": "remote", "url": "http://127.0.0.1:1/mcp"},
    ]
    found.tool("wipe", DESTRUCTIVE, schema=SCHEMA)
    found.tool("look", READ_ONLY, "seen")
    found.tool("slow", READ_ONLY, slow)
    found.tool("locked", READ_ONLY, locked, server="remote")
    return found


@pytest.fixture
async def ui(world: World, autojump_clock: MockClock) -> AsyncIterator[UI]:
    """Whatever asks for it asks for `autojump_clock` too."""
    async with shown(world) as ui:
        yield ui
