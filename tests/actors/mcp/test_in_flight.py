"""In-flight calls: timeouts, ends and questions."""

from __future__ import annotations

import logging
from contextvars import Context

import pytest
import trio
from trio.testing import MockClock

from stopgo.actors.mcp.transports.in_flight import InFlightCall, InFlightCalls, note_withdrawal
from stopgo.actors.tools.tool import CallTool, Elicitation, ElicitationAnswer, Progress


async def test_timeout_is_suspended_during_questions(autojump_clock: MockClock) -> None:
    async def think(elicitation: Elicitation) -> ElicitationAnswer:
        await trio.sleep(float(elicitation.message))
        return ElicitationAnswer("decline")

    async def ask(flight: InFlightCall, seconds: str) -> None:
        await flight.ask(Elicitation(seconds))

    flights = InFlightCalls(logging.getLogger("test"))
    with trio.fail_after(1000), flights.track(CallTool("t", {}, on_elicitation=think), 10) as flight:
        for _ in range(2):
            await trio.sleep(4)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(ask, flight, "100")
                nursery.start_soon(ask, flight, "200")
        await trio.sleep_forever()
    assert trio.current_time() == 4 + 200 + 4 + 200 + 2


async def test_cancelled_call_stops() -> None:
    flights, went_on = InFlightCalls(logging.getLogger("test")), False
    with trio.CancelScope() as scope:
        with flights.track(CallTool("t", {}), 60):
            scope.cancel()
            await trio.lowlevel.checkpoint()
        went_on = True
    assert not went_on


async def test_nested_call_restores_the_outer_one() -> None:
    flights = InFlightCalls(logging.getLogger("test"))
    with flights.track(CallTool("outer", {}), 60) as outer:
        with flights.track(CallTool("inner", {}), 60) as inner:
            assert flights._asking() is inner
        assert flights._asking() is outer


async def test_only_sent_calls_make_questions_ambiguous() -> None:
    flights = InFlightCalls(logging.getLogger("test"))
    for left in (False, True):
        with trio.CancelScope() as scope, flights.track(CallTool("given up", {}), 60):
            if not left:
                note_withdrawal()
            scope.cancel()
            await trio.lowlevel.checkpoint()
        with flights.track(CallTool("t", {}), 60) as flight:
            assert Context().run(flights._asking) is (None if left else flight)


async def test_declined_questions_are_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    """Otherwise a server that keeps asking would fill the log."""
    flights = InFlightCalls(logging.getLogger("test"))
    assert [flights._asking() for _ in range(3)] == [None] * 3
    assert [record.levelname for record in caplog.records] == ["WARNING"]


@pytest.mark.parametrize(
    ("reports", "longest", "end", "why"),
    [
        ((), 40, 10, "10 s"),
        ((6, 6), 40, 22, "10 s without progress"),
        ((6, 6, 6, 6, 6, 6, 6), 40, 40, "40 s, its max_timeout"),
        ((), 5, 5, "5 s, its max_timeout"),
    ],
)
async def test_progress_begins_the_timeout_anew(
    autojump_clock: MockClock, reports: tuple[float, ...], longest: float, end: float, why: str
) -> None:
    """MCP 2025-11-25, "Timeouts": with a longest time, whatever is reported."""
    with InFlightCalls(logging.getLogger("test")).track(CallTool("t", {}), 10, longest) as flight:
        for pause in reports:
            await trio.sleep(pause)
            flight.on_progress(Progress(1))
        await trio.sleep_forever()
    assert (trio.current_time(), flight.timed_out_after) == (end, why)
