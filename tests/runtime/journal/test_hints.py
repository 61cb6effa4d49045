"""The hints of members on PostgreSQL, without a server: what is lost on the way is told."""

from __future__ import annotations

import socket
import threading
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Any, cast

import attrs
import psycopg
import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from stopgo.runtime.event_bus import EventBus
from stopgo.runtime.journal.errors import JournalError, JournalUnavailable
from stopgo.runtime.journal.ownership import HINTS_LOST, Hint
from stopgo.runtime.journal.postgres import hints as module
from stopgo.runtime.journal.postgres import pool as pool_module
from stopgo.runtime.journal.postgres.hints import GATHER, RETRY, TOPIC, HintChannel, parsed
from stopgo.runtime.journal.postgres.pool import Pool, connected
from stopgo.runtime.journal.postgres.tables import Connection

A, B, C = Hint("s", "a", 1), Hint("t", "a", 7), Hint("u", "a")


@attrs.define(eq=False)
class Line:
    """A pool whose only connection passes notifications on, or fails."""

    sent: list[list[Hint]] = attrs.field(factory=list)
    """The hints of each notification."""
    fails: deque[JournalError] = attrs.field(factory=deque)
    meanwhile: Callable[[], None] = lambda: None
    """Called while a notification is on its way."""

    async def run(self, operation: Callable[[Any], Any]) -> None:
        await trio.lowlevel.checkpoint()
        self.meanwhile()
        if self.fails:
            raise self.fails.popleft()
        operation(self)

    def execute(self, query: str, values: tuple[str, list[str]]) -> None:
        channel, texts = values
        assert "pg_notify" in query
        assert channel == "channel"
        self.sent.append([hint for text in texts for hint in parsed(text)])


def made(line: Line) -> HintChannel:
    return HintChannel(EventBus(), cast(Pool, line), "nowhere", "channel")


def tell(hints: HintChannel, *changes: Hint) -> None:
    for each in changes:
        hints.changed(each.member, each.stream, each.after)


@asynccontextmanager
async def sending(line: Line) -> AsyncIterator[HintChannel]:
    hints = made(line)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(hints.send)
        yield hints
        nursery.cancel_scope.cancel()


# ---------------------------------------------------------------------------- sending


async def test_changes_that_come_together_are_one_notification(autojump_clock: MockClock) -> None:
    line = Line()
    async with sending(line) as hints:
        tell(hints, A, B, attrs.evolve(A, after=5))
        await trio.sleep(GATHER / 2)
        tell(hints, C)
        await trio.sleep(2 * GATHER)
    assert line.sent == [[A, B], [C]]


async def test_failed_notification_is_told_without_a_further_change(autojump_clock: MockClock) -> None:
    failed = [JournalUnavailable("no connection"), JournalError("refused"), JournalUnavailable("still none")]
    line = Line(fails=deque(failed))
    async with sending(line) as hints:
        tell(hints, A)
        await trio.sleep(RETRY + GATHER)
        tell(hints, B)  # it may be lost, too
        await trio.sleep(RETRY)
        assert line.sent == []
        await trio.sleep(RETRY)
        assert line.sent == [[HINTS_LOST]]
        tell(hints, C)
        await trio.sleep(2 * GATHER)
    assert line.sent == [[HINTS_LOST], [C]]


async def test_too_many_changes_are_told(autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MOST", 2)
    line = Line()
    async with sending(line) as hints:
        tell(hints, A, B, A, C)
        await trio.sleep(2 * GATHER)
        tell(hints, C)
        await trio.sleep(2 * GATHER)
    assert line.sent == [[A, B, HINTS_LOST], [C]]


async def test_too_many_changes_during_a_notification_are_told(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_MOST", 2)
    line = Line()
    async with sending(line) as hints:

        def meanwhile() -> None:
            line.meanwhile = lambda: None
            tell(hints, A, B, C)

        line.meanwhile = meanwhile
        tell(hints, C)
        await trio.sleep(3 * GATHER)
    assert line.sent == [[C], [A, B, HINTS_LOST]]


# -------------------------------------------------------------------------- listening


class Notifications:
    """A connection that listens. Each item is a payload, or None: the connection breaks."""

    def __init__(self, *items: str | None) -> None:
        self._items = list(items)
        self._mine, self._its = socket.socketpair()
        self._its.send(b"x")
        self.closed = False

    def fileno(self) -> int:
        return self._mine.fileno()

    def notifies(self, *, timeout: float) -> Iterator[psycopg.Notify]:
        assert timeout == 0
        while self._items:
            item = self._items.pop(0)
            if item is None:
                raise psycopg.OperationalError("the connection is lost")
            yield psycopg.Notify("channel", item, 1)
        self._mine.recv(1)  # from now on there is nothing to read

    def close(self) -> None:
        self.closed = True
        self._mine.close()
        self._its.close()


class Listening(HintChannel):
    def _subscribe(self, db: Connection) -> None:
        """A `Notifications` listens from the beginning."""


async def test_each_connection_that_listens_begins_with_lost_hints(
    mock_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was sent before it listened is lost."""
    monkeypatch.setattr(module, "RETRY", 0.0)
    first, second = (
        Notifications('["s","a",1]', None),
        Notifications('["t","a",7]\n["u","a",null]', "no hint"),
    )
    hints = Listening(EventBus(), cast(Pool, Line()), "nowhere", "channel")
    found = deque([psycopg.OperationalError("away"), first, psycopg.Error("gone"), second])

    def connect(_: str) -> Any:
        if isinstance(each := found.popleft(), psycopg.Error):
            raise each
        return each

    monkeypatch.setattr(pool_module, "connect", connect)
    heard: list[object] = []
    with hints.bus.subscribe(TOPIC) as live:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(hints.listen)
            async for hint in live:
                heard.append(hint)
                if hint == C:
                    break
            nursery.cancel_scope.cancel()
    assert heard == [HINTS_LOST, A, HINTS_LOST, B, C]
    assert first.closed
    assert second.closed


@pytest.mark.parametrize("is_first", [True, False], ids=["before it is given up", "after it is given up"])
async def test_connection_that_comes_while_it_is_given_up_is_closed(
    monkeypatch: pytest.MonkeyPatch, is_first: bool
) -> None:
    """Its thread ends after the cancellation, before or after the task that waited for it hears of it."""
    closed, may_connect = threading.Event(), threading.Event()
    threads: list[threading.Thread] = []
    end, other_end = socket.socketpair()

    class Db:
        def fileno(self) -> int:
            return end.fileno()

        def close(self) -> None:
            closed.set()

    def connect(_: str) -> Any:
        may_connect.wait()
        return Db()

    async def run_abandoned(work: Callable[[], object], *, abandon_on_cancel: bool) -> None:
        threads.append(threading.Thread(target=work))
        threads[0].start()
        await trio.sleep_forever()

    monkeypatch.setattr(pool_module, "connect", connect)
    monkeypatch.setattr(trio.to_thread, "run_sync", run_abandoned)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(connected, "", lambda _: None)
        await wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
        if is_first:
            may_connect.set()
            threads[0].join()
    may_connect.set()
    threads[0].join()
    assert closed.is_set()
    end.close()
    other_end.close()
