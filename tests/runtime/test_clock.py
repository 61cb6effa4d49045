"""A process that was stopped gives nothing up that came meanwhile."""

from __future__ import annotations

import socket
from collections.abc import Callable

import attrs
import pytest
import trio

from stopgo.runtime.clock import MAX_LATENESS, MIN_ADVANCE, ProcessClock


@attrs.define
class Seconds:
    now: float = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def seconds() -> Seconds:
    return Seconds()


@pytest.fixture
def clock(seconds: Seconds) -> ProcessClock:
    clock = ProcessClock(seconds)
    clock.start_clock()
    return clock


def test_time_passes(clock: ProcessClock, seconds: Seconds) -> None:
    began = clock.current_time()
    for _ in range(10):
        seconds.now += MAX_LATENESS
        clock.current_time()
    assert clock.current_time() == began + 10 * MAX_LATENESS


@pytest.mark.parametrize(
    ("sleep", "woken"),
    [
        (20.0, 0.5),
        (20.0, 20.0),
        (20.0, 20.0 + MAX_LATENESS),
        (float("inf"), 1_000_000.0),
        (-50.0, MAX_LATENESS),  # a deadline that has passed lends no time
    ],
)
def test_intended_sleep_passes(clock: ProcessClock, seconds: Seconds, sleep: float, woken: float) -> None:
    began = clock.current_time()
    assert clock.deadline_to_sleep_time(began + sleep) == sleep
    seconds.now += woken
    assert clock.current_time() == began + woken


@pytest.mark.parametrize(
    ("sleep", "counts"), [(20.0, 10.0), (0.5, 0.25), (0.01, MIN_ADVANCE), (None, MIN_ADVANCE)]
)
def test_a_standstill_does_not_pass(
    clock: ProcessClock, seconds: Seconds, sleep: float | None, counts: float
) -> None:
    began = clock.current_time()
    if sleep is not None:
        clock.deadline_to_sleep_time(began + sleep)
    seconds.now += 3600
    assert clock.current_time() == pytest.approx(began + counts)
    seconds.now += MAX_LATENESS / 2
    assert clock.current_time() == pytest.approx(began + counts + MAX_LATENESS / 2)


def test_where_every_wake_comes_late_a_deadline_comes_at_last(clock: ProcessClock, seconds: Seconds) -> None:
    deadline = clock.current_time() + 60
    for _ in range(15):
        seconds.now += max(0.0, clock.deadline_to_sleep_time(deadline)) + 2 * MAX_LATENESS
    assert clock.current_time() >= deadline


def test_a_sleep_counts_once(clock: ProcessClock, seconds: Seconds) -> None:
    clock.deadline_to_sleep_time(clock.current_time() + 3600)
    seconds.now += 1
    woken = clock.current_time()
    seconds.now += 3000
    assert clock.current_time() == pytest.approx(woken + MIN_ADVANCE)


class Stopped(trio.abc.Instrument):
    """Stops the process as soon as it waits for something, while that arrives."""

    def __init__(self, seconds: Seconds, arrive: Callable[[], object]) -> None:
        self.seconds, self.arrive, self.stops = seconds, arrive, 1

    def before_io_wait(self, timeout: float) -> None:
        if timeout and self.stops:
            self.stops = 0
            self.seconds.now += timeout + 3600
            self.arrive()


def test_a_reply_that_came_meanwhile_is_read_and_its_time_limit_goes_on(seconds: Seconds) -> None:
    """Its reader is not who waits for it: by trio's own clock that one is cancelled first."""
    near, far = socket.socketpair()

    async def wait() -> tuple[bytes, float]:
        replies: list[bytes] = []
        read = trio.Event()

        async def reader(stream: trio.SocketStream) -> None:
            replies.append(await stream.receive_some())
            read.set()

        async with (
            trio.SocketStream(trio.socket.from_stdlib_socket(near)) as stream,
            trio.open_nursery() as nursery,
        ):
            with trio.move_on_after(10) as limit:
                nursery.start_soon(reader, stream)
                await read.wait()
            left = limit.deadline - trio.current_time()
            nursery.cancel_scope.cancel()
        assert not limit.cancelled_caught
        return replies[0], left

    with far:
        stopped = Stopped(seconds, lambda: far.send(b"here"))
        assert trio.run(wait, clock=ProcessClock(seconds), instruments=[stopped]) == (b"here", 5)
    assert not stopped.stops
