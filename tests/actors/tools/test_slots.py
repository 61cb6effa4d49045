"""Places of calls: never more than there are, none idle that somebody could take, oldest first."""

from __future__ import annotations

import random

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st
from trio.testing import MockClock, wait_all_tasks_blocked

from stopgo.actors.tools.slots import Slots, outside, place_in


async def test_slot_goes_to_the_longest_waiting_call(autojump_clock: MockClock) -> None:
    slots = Slots(1)
    order: list[int] = []

    async def call(number: int) -> None:
        with await place_in(slots):
            order.append(number)
            await trio.sleep(1)

    async with trio.open_nursery() as nursery:
        for number in range(9):
            nursery.start_soon(call, number)
            await wait_all_tasks_blocked()
    assert order == list(range(9))
    assert slots.free == 1


async def test_waiting_call_holds_no_slot_of_another_kind(autojump_clock: MockClock) -> None:
    reply, other_reply, busy, idle = Slots(2), Slots(1), Slots(1), Slots(1)
    async with trio.open_nursery() as nursery:

        async def call(*wanted: Slots) -> None:
            with await place_in(*wanted):
                await trio.sleep(60)

        nursery.start_soon(call, other_reply, busy)
        await wait_all_tasks_blocked()
        for _ in range(2):
            nursery.start_soon(call, reply, busy)
        nursery.start_soon(call, other_reply, idle)
        await wait_all_tasks_blocked()
        with trio.fail_after(0):
            with await place_in(reply, idle):
                pass
        nursery.cancel_scope.cancel()
    assert [slots.free for slots in (reply, other_reply, busy, idle)] == [2, 1, 1, 1]


async def test_places_that_are_given_back_early_are_given_back_once() -> None:
    slots = Slots(1)
    with await place_in(slots) as held:
        held.give_back()
        assert slots.free == 1
        with await place_in(slots):
            held.give_back()
            assert slots.free == 0
    assert slots.free == 1


async def test_cancelled_waiter_loses_no_slot() -> None:
    slots = Slots(1)

    async def call(scope: trio.CancelScope) -> None:
        with scope:
            with await place_in(slots):
                await trio.sleep_forever()

    first, second, third = (trio.CancelScope() for _ in range(3))
    async with trio.open_nursery() as nursery:
        for scope in (first, second, third):
            nursery.start_soon(call, scope)
            await wait_all_tasks_blocked()
        third.cancel()  # while it waits
        await wait_all_tasks_blocked()
        second.cancel()  # delivered at once, and before it runs the place becomes free
        first.cancel()
    assert slots.free == 1
    with await place_in(slots):
        assert slots.free == 0


async def test_caller_outside_releases_its_slot_for_a_while(autojump_clock: MockClock) -> None:
    slots = Slots(1)

    async def call() -> None:
        with await place_in(slots):
            await trio.sleep(5)

    async with trio.open_nursery() as nursery:
        with await place_in(slots):
            async with outside(slots):
                nursery.start_soon(call)
                await trio.sleep(1)
                assert slots.free == 0
            assert trio.current_time() == 5
            assert slots.free == 0
        assert slots.free == 1


@pytest.mark.parametrize("seconds", [9, 1], ids=["outside", "on its way back"])
async def test_caller_cancelled_outside_does_not_wait_for_its_slot(
    autojump_clock: MockClock, seconds: float
) -> None:
    slots = Slots(1)
    with await place_in(slots):
        with trio.move_on_after(2):
            async with outside(slots):
                other = await place_in(slots)
                await trio.sleep(seconds)
        assert trio.current_time() == 2
        assert slots.free == -1  # both have it until one has left
    assert slots.free == 0
    other.give_back()
    assert slots.free == 1


async def test_narrow_leaves_one_place_once_those_that_are_taken_are_given_back() -> None:
    slots = Slots(3)
    first, second = await place_in(slots), await place_in(slots)
    assert slots.narrow()
    second.give_back()
    with trio.move_on_after(0) as scope:
        await place_in(slots)
    assert scope.cancelled_caught
    first.give_back()
    assert slots.free == 1
    assert not slots.narrow()
    assert slots.free == 1


Plan = list[tuple[int, int, int]]


@given(
    plan=st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2), st.integers(0, 5)), max_size=30),
    sizes=st.lists(st.integers(1, 3), min_size=6, max_size=6),
    seed=st.integers(0, 2**32),
)
def test_all_get_their_turn_and_no_place_is_idle_that_somebody_wants(
    plan: Plan, sizes: list[int], seed: int
) -> None:
    trio.run(_story, plan, sizes, random.Random(seed), clock=MockClock(autojump_threshold=0))


async def _story(plan: Plan, sizes: list[int], chance: random.Random) -> None:
    replies, servers = [Slots(n) for n in sizes[:3]], [Slots(n) for n in sizes[3:]]
    waiting: dict[int, tuple[Slots, Slots]] = {}

    async def call(number: int, reply: Slots, server: Slots, seconds: int) -> None:
        waiting[number] = (reply, server)
        with trio.move_on_after(chance.choice([2.5, 1000])):
            with await place_in(reply, server):
                del waiting[number]
                assert min(slots.free for slots in (*replies, *servers)) >= 0
                await trio.sleep(seconds)
        waiting.pop(number, None)

    with trio.fail_after(1000):
        async with trio.open_nursery() as nursery:
            for number, (reply, server, seconds) in enumerate(plan):
                nursery.start_soon(call, number, replies[reply], servers[server], seconds)
                await trio.sleep(chance.choice([0, 1]))
                await wait_all_tasks_blocked()
                assert not any(reply.free and server.free for reply, server in waiting.values())
    assert [slots.free for slots in (*replies, *servers)] == sizes
