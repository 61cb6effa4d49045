from __future__ import annotations

import pytest
import trio
import trio.testing
from hypothesis import given
from hypothesis import strategies as st
from trio.testing import MockClock

from stopgo.runtime.event_bus import EventBus, Subscription


async def rest_of(subscription: Subscription) -> list[object]:
    return [event async for event in subscription]


async def test_an_event_reaches_every_subscriber_of_its_topic_and_of_all_topics() -> None:
    bus = EventBus()
    with bus.subscribe("a") as first, bus.subscribe("a") as second, bus.subscribe("b") as other:
        with bus.subscribe(None) as everything:
            bus.publish("a", 1)
            bus.publish("b", 2)
    assert await rest_of(first) == await rest_of(second) == [1]
    assert await rest_of(other) == [2]
    assert await rest_of(everything) == [1, 2]


async def test_a_slow_subscriber_keeps_the_newest_and_learns_how_many_it_missed() -> None:
    bus = EventBus()
    with bus.subscribe("a", buffer=2) as slow, bus.subscribe("a") as fast:
        for number in range(5):
            bus.publish("a", number)
        assert slow.missed == 3
        assert slow.take_missed() == 3
        assert slow.take_missed() == slow.missed == 0
        assert await anext(slow) == 3
        bus.publish("a", 5)
        assert slow.missed == 0
    assert await rest_of(slow) == [4, 5]
    assert fast.missed == 0
    assert await rest_of(fast) == [0, 1, 2, 3, 4, 5]


async def test_a_waiting_subscriber_is_woken(autojump_clock: MockClock) -> None:
    bus = EventBus()
    seen: list[object] = []

    async def follow(subscription: Subscription) -> None:
        async for event in subscription:
            seen.append((trio.current_time(), event))

    began = trio.current_time()
    async with trio.open_nursery() as nursery:
        with bus.subscribe("a") as subscription:
            nursery.start_soon(follow, subscription)
            await trio.sleep(1)
            bus.publish("a", "x")
            await trio.sleep(1)
    assert seen == [(began + 1, "x")]


def test_publishing_without_subscribers_is_nothing() -> None:
    EventBus().publish("a", 1)


def test_an_ended_subscription_leaves_nothing_behind() -> None:
    bus = EventBus()
    with bus.subscribe("a"), bus.subscribe(None):
        pass
    assert not bus._by_topic


def test_subscribers_of_other_topics_cost_nothing() -> None:
    class Counting(Subscription):
        offered = 0

        def _offer(self, event: object) -> None:
            Counting.offered += 1

    bus = EventBus()
    bus._by_topic = {str(number): {Counting(1, bool): None} for number in range(100)}
    bus.publish("7", 1)
    assert Counting.offered == 1


def test_a_buffer_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 1"):
        EventBus().subscribe("a", buffer=0).__enter__()


@given(st.integers(1, 5), st.lists(st.booleans(), max_size=40))
def test_read_and_missed_events_are_all_events(buffer: int, reads: list[bool]) -> None:
    async def main() -> None:
        bus = EventBus()
        published = read = missed = 0
        with bus.subscribe("a", buffer) as subscription:
            for is_read in reads:
                if is_read and published > read + missed:
                    missed += subscription.take_missed()
                    event = await anext(subscription)
                    assert event == read + missed  # what was missed lies before it
                    read += 1
                else:
                    bus.publish("a", published)
                    published += 1
            missed += subscription.take_missed()
            assert 0 <= published - read - missed <= buffer

    trio.run(main)


async def test_ended_subscription_yields_only_its_buffer() -> None:
    bus = EventBus()
    with bus.subscribe("a") as subscription:
        bus.publish("a", 1)
        subscription.end()
        bus.publish("a", 2)
        assert [event async for event in subscription] == [1]


async def test_end_wakes_a_waiting_subscriber(autojump_clock: MockClock) -> None:
    bus = EventBus()
    with bus.subscribe("a") as subscription:
        async with trio.open_nursery() as nursery:

            @nursery.start_soon
            async def read() -> None:
                assert [event async for event in subscription] == []

            await trio.testing.wait_all_tasks_blocked()
            subscription.end()


async def test_a_reader_that_is_cancelled_loses_nothing() -> None:
    bus = EventBus()
    with bus.subscribe("a") as subscription:
        bus.publish("a", 1)
        with trio.CancelScope() as scope:
            scope.cancel()
            await anext(subscription)
        assert await anext(subscription) == 1


async def test_a_closed_bus_ends_every_subscription_also_those_to_come() -> None:
    bus = EventBus()
    with bus.subscribe("a") as one, bus.subscribe(None) as all_of_them:
        bus.publish("a", 1)
        assert not one.ended
        bus.close()
        assert one.ended
        bus.publish("a", 2)
        assert await rest_of(one) == await rest_of(all_of_them) == [1]
    with bus.subscribe("a") as late:
        assert await rest_of(late) == []
