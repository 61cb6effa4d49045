"""Ctrl-C while an agent is opened or closed: it counts at the next moment of waiting, not in between."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from stopgo.actors.agent import open_agent, supervisor
from stopgo.actors.workers import startup
from stopgo.runtime import supervision
from stopgo.runtime.journal.protocol import NewCommand
from stopgo.runtime.journal.sqlite import sqlite_journal as sqlite
from stopgo.runtime.journal.sqlite.sqlite_journal import open_sqlite
from tests.actors.world import World, wall

pytestmark = pytest.mark.usefixtures("ctrl_c")


@pytest.mark.parametrize(
    "function",
    [
        open_agent.open_agent,
        open_agent._run,
        open_agent._journal,
        supervisor.open_cast,
        supervision.open_supervisor,
        sqlite.open_sqlite,
        startup.resume_all,
        startup._resume,
    ],
)
def test_it_strikes_in_nothing_that_opens_or_closes(world: World, function: Callable[..., Any]) -> None:
    code = getattr(function, "__wrapped__", function).__code__
    struck: list[bool] = []

    def trace(frame: FrameType, event: str, _: object) -> Any:
        if (frame.f_code.co_filename, frame.f_code.co_name) != (code.co_filename, code.co_name):
            return None
        if event == "line" and not struck:
            try:
                signal.raise_signal(signal.SIGINT)
                struck.append(False)
            except KeyboardInterrupt:
                struck.append(True)
        return trace

    async def program() -> None:
        async with open_sqlite(world.folder, wall=wall, inline=True) as world.journal:
            body = {"message": None, "session_id": None, "token": False}
            await world.journal.deliver(NewCommand("x", "k", "create", body, new=True))
            async with world.agent():
                await trio.sleep(1)

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        with pytest.raises(KeyboardInterrupt):
            trio.run(program, clock=MockClock(autojump_threshold=0))
    finally:
        sys.settrace(before)
    assert struck == [False]
