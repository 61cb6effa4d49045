"""The stderr of a child: any output, and any amount of it."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager

import pytest
import trio
from trio.testing import MockClock

from stopgo.actors.mcp.transports.stderr import (
    LINE_COST,
    MAX_LINE,
    MAX_LOGGED,
    MAX_TAIL,
    PERIOD,
    TAIL,
    Stderr,
)
from stopgo.actors.servers.server_status import ServerStartFailed
from stopgo.actors.tools.tool import ServerMessage
from stopgo.config.sections.mcp import McpServerConfig
from stopgo.runtime.ref import ActorRef

Open = Callable[[McpServerConfig], AbstractAsyncContextManager[ActorRef[ServerMessage]]]

LINE = b"x" * (999 - LINE_COST)
FIT = MAX_LOGGED // 999
"""Leaves room for a short line, which must not be logged as if no line before it were dropped."""


@pytest.fixture
def stderr(caplog: pytest.LogCaptureFixture) -> Stderr:
    caplog.set_level(logging.INFO, "server")
    return Stderr(logging.getLogger("server"))


async def test_flood_is_dropped_until_the_next_period(
    stderr: Stderr, caplog: pytest.LogCaptureFixture, autojump_clock: MockClock
) -> None:
    await trio.sleep(1)
    for _ in range(2):
        for _ in range(FIT):
            stderr.add(LINE)
        await trio.sleep(PERIOD / 2)
        for _ in range(50):
            stderr.add(LINE)
        stderr.add(b"short")
        await trio.sleep(PERIOD / 2)
    stderr.add(b"calm again")
    stderr.log_dropped()
    told = [record.getMessage() for record in caplog.records if record.getMessage() != LINE.decode()]
    assert len(caplog.records) - len(told) == 2 * FIT
    flood = [
        "the server writes too much to stderr; its lines are not logged for the next 30 s",
        "51 lines of stderr were dropped",
    ]
    assert told == [*flood, *flood, "calm again"]


async def test_short_lines_count_with_their_overhead(
    stderr: Stderr, caplog: pytest.LogCaptureFixture, autojump_clock: MockClock
) -> None:
    for _ in range(10 * MAX_LOGGED // LINE_COST):
        stderr.add(b".")
    assert sum(len(record.getMessage()) + LINE_COST for record in caplog.records) < MAX_LOGGED + 200


async def test_tail_is_the_last_lines(stderr: Stderr, autojump_clock: MockClock) -> None:
    for number in range(10_000):
        stderr.add(f"line {number}".encode())
    assert stderr.tail().splitlines() == [f"line {number}" for number in range(10_000 - TAIL, 10_000)]
    stderr.add(b"y" * 10 * MAX_TAIL)
    assert len(stderr.tail()) == MAX_TAIL


FLOOD = "import sys\nfor _ in range(9999): print('.', file=sys.stderr)"


async def test_dropped_lines_are_logged_at_the_end(serving: Open, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "stopgo.mcp.s")
    with pytest.raises(ServerStartFailed):
        async with serving(
            McpServerConfig(name="s", command=sys.executable, args=("-S", "-c", FLOOD), mode="legacy")
        ):
            pass
    said = [record.getMessage() for record in caplog.records]
    [left_out] = [text for text in said if text.endswith("were dropped")]
    assert said.count(".") + int(left_out.split()[0]) == 9999


ENDLESS = "import sys\nsys.stderr.write('x' * 200_000)"


async def test_endless_line_is_logged_in_pieces(serving: Open, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "stopgo.mcp.s")
    with pytest.raises(ServerStartFailed):
        async with serving(McpServerConfig(name="s", command=sys.executable, args=("-S", "-c", ENDLESS))):
            pass
    pieces = [text for record in caplog.records if set(text := record.getMessage()) == {"x"}]
    assert len(pieces) > 1
    assert max(map(len, pieces)) == MAX_LINE
