"""Approvals expire when they are due."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import cast

import attrs
import trio
import trio.testing
from trio.testing import MockClock

from stopgo.actors.log.writer.topics import EXPIRIES
from stopgo.actors.workers.timers import LONGEST_SLEEP, timers
from stopgo.runtime.event_bus import EventBus
from stopgo.runtime.journal.protocol import Accepted, Journal, NewCommand
from stopgo.runtime.journal.question import MOST_DUE, Due, DuePage, Question
from stopgo.runtime.supervision import open_supervisor


@attrs.define
class Asked:
    """A journal of questions, whose conversations expire due approvals at once."""

    asked: list[Question] = attrs.field(factory=list)
    expired: list[tuple[str, float]] = attrs.field(factory=list)
    """The question, and the time."""
    settles: Callable[[str], bool] = lambda id: True
    """Whether the conversation can expire the approval; otherwise it refuses the command."""
    ahead: float = 0.0
    """Seconds by which the wall clock was set."""
    looks: int = 0
    """The number of readings."""
    made: int = 1
    """The number of the next question, which `created` has."""

    def ask(self, id: str, expires: float) -> None:
        question = Question(id, f"stream-{id}", "tool", "pending", {}, None, self.made, expires, None)
        self.asked.append(question)
        self.made += 1

    def wall(self) -> float:
        return trio.current_time() + self.ahead

    async def due(self, after: Due | None = None) -> DuePage:
        await trio.lowlevel.checkpoint()
        self.looks += after is None
        asked = sorted((each.expires or 0.0, int(each.created), each) for each in self.asked)
        now, start = self.wall(), (-math.inf, 0) if after is None else (after.expires, after.number)
        late = [
            Due(each.id, each.stream, expires, number)
            for expires, number, each in asked
            if start < (expires, number) <= (now, math.inf)
        ]
        next_in = min((expires - now for expires, *_ in asked if expires > now), default=math.inf)
        return DuePage(tuple(late[:MOST_DUE]), next_in)

    async def deliver(self, expire: NewCommand) -> Accepted:
        await trio.lowlevel.checkpoint()
        [question] = [each for each in self.asked if each.id == expire.body["question"]]
        assert (expire.stream, expire.kind) == (question.stream, "expire")
        if self.settles(question.id):
            self.asked.remove(question)
        return Accepted()

    def wake(self, stream: str) -> None:
        self.expired.append((stream.removeprefix("stream-"), trio.current_time()))

    @asynccontextmanager
    async def watched(self) -> AsyncIterator[EventBus]:
        bus = EventBus()
        async with open_supervisor(bus) as supervisor:
            await supervisor.start("timers", timers(cast(Journal, self), bus, self.wake))
            yield bus


async def test_each_approval_expires_when_due(autojump_clock: MockClock) -> None:
    asked = Asked()
    for id, expires in (("a", 0.5), ("b", 1.25), ("c", 2.5 * LONGEST_SLEEP)):
        asked.ask(id, expires)
    async with asked.watched():
        await trio.sleep(3 * LONGEST_SLEEP)
    assert asked.expired == [("a", 0.5), ("b", 1.25), ("c", 2.5 * LONGEST_SLEEP)]


async def test_long_list_of_due_approvals_is_expired_completely(autojump_clock: MockClock) -> None:
    asked = Asked()
    for number in range(2 * MOST_DUE):
        asked.ask(str(number), 0)
    async with asked.watched():
        await trio.sleep(1)
    assert len(asked.expired) == 2 * MOST_DUE


async def test_new_earlier_deadline_shortens_the_sleep(autojump_clock: MockClock) -> None:
    asked = Asked()
    async with asked.watched() as bus:
        await trio.sleep(100)
        asked.ask("new", expires=110)
        bus.publish(EXPIRIES, 10.0)
        await trio.sleep(20)
    assert asked.expired == [("new", 110)]


async def test_later_deadline_causes_no_reading(
    autojump_clock: MockClock,
) -> None:
    asked = Asked()
    asked.ask("first", expires=10)
    async with asked.watched() as bus:
        await trio.testing.wait_all_tasks_blocked()
        for number in range(5):
            asked.ask(str(number), expires=11.0 + number)
            bus.publish(EXPIRIES, 11.0 + number)
            await trio.testing.wait_all_tasks_blocked()
        assert asked.looks == 1
        await trio.sleep(20)
    assert asked.expired == [("first", 10), *((str(number), 11 + number) for number in range(5))]


async def test_earliest_of_many_new_deadlines_is_not_missed(autojump_clock: MockClock) -> None:
    asked = Asked()
    async with asked.watched() as bus:
        await trio.testing.wait_all_tasks_blocked()
        asked.ask("soon", expires=5)
        bus.publish(EXPIRIES, 5.0)
        for _ in range(1000):
            bus.publish(EXPIRIES, 2000.0)
        await trio.sleep(20)
    assert asked.expired == [("soon", 5)]


async def test_a_clock_that_is_set_forward_is_noticed(autojump_clock: MockClock) -> None:
    """This also covers a suspended machine: its wall clock continues, and trio's clock stops."""
    asked = Asked()
    asked.ask("a", expires=5 * 3600)
    async with asked.watched():
        await trio.sleep(100)
        asked.ahead = 5 * 3600
        await trio.sleep(3600)
    assert asked.expired == [("a", 120)]


async def test_clock_set_back_expires_nothing_early(autojump_clock: MockClock) -> None:
    asked = Asked()
    asked.ask("a", expires=50)
    async with asked.watched() as bus:
        await trio.sleep(20)
        asked.ahead = -3600
        asked.ask("new", expires=-3570)
        bus.publish(EXPIRIES, 10.0)
        await trio.sleep(3600 + 50)
    assert asked.expired == [("new", 30), ("a", 3650)]


async def test_unsettled_page_does_not_hide_later_questions(autojump_clock: MockClock) -> None:
    """Conversations of a newer version cannot expire their approvals."""
    asked = Asked(settles=lambda id: not id.startswith("stuck"))
    for number in range(3 * MOST_DUE):
        asked.ask(f"stuck-{number}", expires=number / 1000)
    asked.ask("late", expires=10)
    asked.ask("later", expires=1000)
    async with asked.watched() as bus:
        await trio.sleep(100)
        asked.ask("new", expires=500)
        bus.publish(EXPIRIES, 400.0)
        await trio.sleep(1000)
    others = [(id, int(when)) for id, when in asked.expired if not id.startswith("stuck")]
    assert others == [("late", 10), ("new", 500), ("later", 1000)]
    assert len(asked.expired) == 3 * MOST_DUE + len(others)  # each is delivered once
