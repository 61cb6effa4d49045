"""Commands that end when they are asked which protocol they speak (Python SDK 1.2 to 1.8)."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import attrs
import pytest

from stopgo.actors.mcp.modes import Modes
from stopgo.actors.servers.server_status import ServerStartFailed, ServerStatus
from stopgo.actors.tools.tool import CallTool, ServerMessage
from stopgo.config.sections.mcp import McpServerConfig
from stopgo.runtime.journal.sqlite.sqlite_journal import open_sqlite
from stopgo.runtime.ref import ActorRef

Open = Callable[..., AbstractAsyncContextManager[ActorRef[ServerMessage]]]
Config = Callable[..., McpServerConfig]


@pytest.fixture
def starts(tmp_path: Path) -> Path:
    """A line for each start of the server."""
    path = tmp_path / "starts"
    path.touch()
    return path


def count(starts: Path) -> int:
    return len(starts.read_text().splitlines())


async def test_command_that_ends_when_asked_is_started_once_more_and_remembered(
    unruly: Config, serving: Open, statuses: list[ServerStatus], tmp_path: Path, starts: Path
) -> None:
    config = unruly("fragile", {"STARTS": str(starts)})
    for expected in (2, 3):
        async with open_sqlite(tmp_path) as journal, serving(config, modes=Modes(journal)) as server:
            assert (await server.ask(CallTool("fails", {}))).content == "the disk is full"
        assert count(starts) == expected
    assert [each.state for each in statuses] == ["connecting", "connected"] * 2
    changed = attrs.evolve(config, args=(*config.args, "--new"))
    async with open_sqlite(tmp_path) as journal, serving(changed, modes=Modes(journal)):
        pass
    assert count(starts) == 5


async def test_command_that_answers_is_asked_at_each_start(
    unruly: Config, serving: Open, tmp_path: Path, starts: Path
) -> None:
    config = unruly("", {"STARTS": str(starts)})
    async with open_sqlite(tmp_path) as journal:
        async with serving(config, modes=Modes(journal)):
            pass
        assert not await Modes(journal).is_legacy(config)
    assert count(starts) == 1


@pytest.mark.parametrize(("mode", "expected"), [("auto", 2), ("legacy", 1), ("modern", 1)])
async def test_command_that_always_ends_is_started_twice_at_most(
    unruly: Config, serving: Open, tmp_path: Path, starts: Path, mode: Any, expected: int
) -> None:
    config = unruly("exit", {"STARTS": str(starts)}, mode=mode)
    async with open_sqlite(tmp_path) as journal:
        with pytest.raises(ServerStartFailed, match="exited with code 3: fatal: no database"):
            async with serving(config, modes=Modes(journal)):
                pass
        assert not await Modes(journal).is_legacy(config)
    assert count(starts) == expected
