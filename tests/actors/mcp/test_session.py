from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, cast

import attrs
import mcp_types as types
import pytest
import trio
from mcp import MCPError
from mcp.client.subscriptions import SubscriptionLost
from trio.testing import MockClock, wait_all_tasks_blocked

from stopgo.actors.mcp.session import CurrentLink, Link
from stopgo.actors.mcp.tool_list import listen_for_changes
from stopgo.actors.mcp.transports.in_flight import InFlightCall, InFlightCalls
from stopgo.actors.mcp.wire.failures import REQUEST_REFUSED, UNREACHABLE
from stopgo.actors.mcp.wire.wire import MAX_QUESTIONS
from stopgo.actors.tools.tool import CallTool, Elicitation, ElicitationAnswer


async def lost_line() -> CurrentLink:
    line, link = CurrentLink(), Link(InFlightCalls(logging.getLogger("test")))
    line.open(link)
    await trio.sleep(100)
    line.close(link)
    return line


@attrs.define
class Waiting:
    """The outcomes of calls that became ready at different times, with two attempts and 60 s."""

    line: CurrentLink
    nursery: trio.Nursery
    found: list[Link | None] = attrs.field(factory=list)

    async def call(self, since: float) -> None:
        self.nursery.start_soon(self._wait, since)
        await wait_all_tasks_blocked()

    async def fail(self, began: float) -> None:
        self.line.fail(began)
        await wait_all_tasks_blocked()

    async def _wait(self, since: float) -> None:
        self.found.append(await self.line.wait(since, 60, 2))


@pytest.mark.parametrize(("since", "until"), [(50, 160), (120, 180), (10, 160)])
async def test_wait_counts_from_the_call_or_a_later_loss(
    autojump_clock: MockClock, since: float, until: float
) -> None:
    line = await lost_line()
    await trio.sleep(50)
    assert await line.wait(since, 60, 3) is None
    assert trio.current_time() == until


async def test_call_waits_for_regular_attempts_first(mock_clock: MockClock, nursery: trio.Nursery) -> None:
    line = CurrentLink()
    waiting = Waiting(line, nursery)
    await waiting.call(since=0)
    await waiting.fail(began=1)
    assert (waiting.found, line.wake.is_set()) == ([], False)
    await waiting.fail(began=2)
    assert waiting.found == [None]


async def test_later_call_triggers_an_attempt(mock_clock: MockClock, nursery: trio.Nursery) -> None:
    line = CurrentLink()
    line.fail(1)
    line.fail(2)
    waiting = Waiting(line, nursery)
    await waiting.call(since=10)
    assert line.wake.is_set()
    await waiting.fail(began=9)
    assert waiting.found == []
    await waiting.fail(began=11)
    assert waiting.found == [None]


async def test_earlier_calls_fail_with_the_same_attempt(mock_clock: MockClock, nursery: trio.Nursery) -> None:
    """The calls may have waited for a slot meanwhile."""
    line = CurrentLink()
    line.fail(1)
    line.fail(11)
    waiting = Waiting(line, nursery)
    await waiting.call(since=10)
    assert (waiting.found, line.wake.is_set()) == ([None], False)


@pytest.mark.parametrize(("may_be_starting", "end"), [(True, 10), (False, 2)])
async def test_call_waits_longer_for_a_server_that_may_be_starting(
    autojump_clock: MockClock, nursery: trio.Nursery, may_be_starting: bool, end: float
) -> None:
    line = CurrentLink()

    async def fail_each_second() -> None:
        while True:
            await trio.sleep(1)
            line.fail(trio.current_time() - 0.5, may_be_starting=may_be_starting)

    nursery.start_soon(fail_each_second)
    assert await line.wait(0, 60, 2, retry_for=10) is None
    assert trio.current_time() == end


async def test_new_link_resets_the_attempts(mock_clock: MockClock, nursery: trio.Nursery) -> None:
    line = CurrentLink()
    line.fail(1)
    waiting = Waiting(line, nursery)
    await waiting.call(since=2)
    line.open(link := Link(InFlightCalls(logging.getLogger("test"))))
    await wait_all_tasks_blocked()
    assert waiting.found == [link]
    line.close(link)
    await waiting.call(since=2)
    await waiting.fail(began=3)
    assert waiting.found == [link]


async def test_closing_an_older_link_keeps_the_current_one() -> None:
    line, old, new = (
        CurrentLink(),
        Link(InFlightCalls(logging.getLogger("test"))),
        Link(InFlightCalls(logging.getLogger("test"))),
    )
    line.open(old)
    line.close(old)
    line.open(new)
    line.close(old)
    assert line.link is new


async def test_wait_until_none_ends_with_the_last_call() -> None:
    flights = InFlightCalls(logging.getLogger("test"))
    await flights.wait_until_none()
    ends = [trio.Event(), trio.Event()]

    async def call(end: trio.Event) -> None:
        with flights.track(CallTool("t", {}), 60):
            await end.wait()

    async with trio.open_nursery() as nursery:
        for end in ends:
            nursery.start_soon(call, end)
        await wait_all_tasks_blocked()
        nursery.start_soon(flights.wait_until_none)
        for end in ends:
            assert len(nursery.child_tasks) > 1
            end.set()
            await wait_all_tasks_blocked()
        assert not nursery.child_tasks


async def test_open_questions_of_a_call_are_bounded(autojump_clock: MockClock, nursery: trio.Nursery) -> None:
    answer = ElicitationAnswer("accept", {})
    go, said = trio.Event(), list[ElicitationAnswer]()

    async def think(_: Elicitation) -> ElicitationAnswer:
        await go.wait()
        return answer

    async def ask(flight: InFlightCall) -> None:
        said.append(await flight.ask(Elicitation("?")))

    with InFlightCalls(logging.getLogger("test")).track(
        CallTool("t", {}, on_elicitation=think), 60
    ) as flight:
        for _ in range(MAX_QUESTIONS):
            nursery.start_soon(ask, flight)
        await wait_all_tasks_blocked()
        assert await flight.ask(Elicitation("One more?")) == ElicitationAnswer("decline")
        go.set()
        await wait_all_tasks_blocked()
        assert said == [answer] * MAX_QUESTIONS
        assert await flight.ask(Elicitation("And now?")) == answer


async def test_only_the_server_itself_ends_listening(autojump_clock: MockClock) -> None:
    """A proxy in front of the server may be busy for a while."""
    busy = MCPError(REQUEST_REFUSED, "HTTP 429 Too Many Requests", {"http_status": 429})
    answers = [busy, busy, MCPError(types.METHOD_NOT_FOUND, "no such method")]

    class Busy:
        @asynccontextmanager
        async def listen(self, *, tools_list_changed: bool) -> AsyncIterator[None]:
            raise answers.pop(0)
            yield

    link = Link(InFlightCalls(logging.getLogger("test")))
    link.client = cast(Any, Busy())
    await listen_for_changes(link)
    assert answers == []
    assert link.loss is None


@pytest.mark.parametrize(
    ("error", "ends"),
    [
        (MCPError(UNREACHABLE, "refused", {"sent": False}), True),
        (MCPError(-32000, "Connection closed"), True),
        (MCPError(UNREACHABLE, "reset", {"sent": True}), False),
        (SubscriptionLost("the stream ended"), False),
    ],
)
async def test_listening_reopens_streams_and_reports_a_loss(
    error: Exception, ends: bool, autojump_clock: MockClock
) -> None:
    answers = [error, MCPError(types.METHOD_NOT_FOUND, "no such method")]

    class Ending:
        @asynccontextmanager
        async def listen(self, *, tools_list_changed: bool) -> AsyncIterator[None]:
            raise answers.pop(0)
            yield

    link = Link(InFlightCalls(logging.getLogger("test")))
    link.client = cast(Any, Ending())
    await listen_for_changes(link)
    assert (link.loss is not None, len(answers)) == (ends, int(ends))


async def test_new_stream_refreshes_the_tools() -> None:
    link = Link(InFlightCalls(logging.getLogger("test")))
    link.stream_begins()
    assert not link.stale
    link.announces_changes = True
    link.stream_begins()
    assert link.stale
    await link.wait_for_change()


async def test_listening_begins_with_a_refresh() -> None:
    """Tools may change before the server knows that the client listens."""

    class Listened:
        @asynccontextmanager
        async def listen(self, *, tools_list_changed: bool) -> AsyncIterator[AsyncIterator[None]]:
            assert tools_list_changed
            yield self._changes()

        async def _changes(self) -> AsyncIterator[None]:
            await trio.sleep_forever()
            yield

    link = Link(InFlightCalls(logging.getLogger("test")))
    link.client = cast(Any, Listened())
    async with trio.open_nursery() as nursery:
        nursery.start_soon(listen_for_changes, link)
        await wait_all_tasks_blocked()
        assert link.stale
        nursery.cancel_scope.cancel()
