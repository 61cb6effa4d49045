"""A lease as its member sees it, on a clock that counts the time in which the process is paused."""

from __future__ import annotations

import math
import sys
import time

import attrs
import pytest
import trio
from trio.testing import MockClock

from stopgo.runtime.journal.errors import Fenced, JournalUnavailable
from stopgo.runtime.journal.lease import Lease, boot_clock
from stopgo.runtime.journal.memory.memory_journal import MemoryJournal
from stopgo.runtime.journal.ownership import Renewed
from tests.runtime.journal.conftest import LEASE


@attrs.define(eq=False)
class Member:
    """A journal whose answers take time, and a boot clock that can run ahead of trio's."""

    suspended: float = 0.0
    away: bool = False
    delay: float = 0.0
    journal: MemoryJournal = attrs.field(factory=lambda: MemoryJournal(trio.current_time, lease=LEASE))
    lease: Lease = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        plain = self.journal.renew

        async def renew() -> Renewed:
            if self.away:
                raise JournalUnavailable("no connection")
            renewed = await plain()
            await trio.sleep(self.delay)
            return renewed

        self.journal.renew = renew  # type: ignore[method-assign]
        self.lease = Lease(self.journal, lambda: trio.current_time() + self.suspended)


async def test_lease_is_kept(autojump_clock: MockClock, nursery: trio.Nursery) -> None:
    member = Member()
    with pytest.raises(Fenced):
        member.lease.check()
    await member.lease.renew()
    nursery.start_soon(member.lease.keep)
    for _ in range(10):
        await trio.sleep(LEASE / 2)
        member.lease.check()
    nursery.cancel_scope.cancel()


@pytest.mark.parametrize(("suspended", "holds"), [(0.0, True), (0.8 * LEASE, True), (0.95 * LEASE, False)])
async def test_lease_runs_out_while_the_process_is_paused(
    autojump_clock: MockClock, suspended: float, holds: bool
) -> None:
    member = Member()
    await member.lease.renew()
    member.suspended = suspended
    assert member.lease.owns == holds


async def test_lease_is_reckoned_from_before_the_request(autojump_clock: MockClock) -> None:
    """The store renews it at some time between request and answer."""
    member = Member(delay=LEASE - 0.5)
    await member.lease.renew()
    assert not member.lease.owns


async def test_lease_ends_before_that_at_the_store(autojump_clock: MockClock) -> None:
    member = Member()
    await member.lease.renew()
    while member.lease.owns:
        assert member.journal.member in await member.journal.living()
        await trio.sleep(0.25)
    assert member.journal.member in await member.journal.living()


async def test_lease_returns_when_the_store_can_be_reached(
    autojump_clock: MockClock, nursery: trio.Nursery
) -> None:
    member = Member()
    await member.lease.renew()
    nursery.start_soon(member.lease.keep)
    member.away = True
    await trio.sleep(LEASE)
    assert not member.lease.owns
    member.away = False
    await trio.sleep(LEASE)
    assert member.lease.owns
    nursery.cancel_scope.cancel()


async def test_time_is_that_of_the_store(autojump_clock: MockClock) -> None:
    journal = MemoryJournal(lambda: 5_000.0 + trio.current_time(), lease=LEASE)
    lease = Lease(journal, lambda: trio.current_time() + 7)
    await lease.renew()
    await trio.sleep(3)
    assert lease.wall() == 5_003.0


async def test_lease_of_the_only_process_never_ends(autojump_clock: MockClock) -> None:
    now = 0.0
    lease = Lease(MemoryJournal(trio.current_time), lambda: now)
    await lease.renew()
    now = 1e9
    assert lease.owns
    assert not lease.can_be_lost
    assert math.isinf((await lease._journal.renew()).seconds)


def test_clock_counts_suspended_time() -> None:
    clock = time.CLOCK_BOOTTIME if sys.platform == "linux" else time.CLOCK_MONOTONIC
    before, now, after = time.clock_gettime(clock), boot_clock(), time.clock_gettime(clock)
    assert before <= now <= after
