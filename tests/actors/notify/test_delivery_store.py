"""One member delivers at a time, and one that was paused overwrites nothing."""

from __future__ import annotations

from itertools import count
from typing import cast

import pytest
import trio

from stopgo.actors.common.stored_json import to_json
from stopgo.actors.notify import delivery_store
from stopgo.actors.notify.delivery import ChannelDelivery
from stopgo.actors.notify.delivery_store import KEPT, KIND, ClaimLost, DeliveryStore
from stopgo.runtime.journal.memory.memory_journal import MemoryJournal
from stopgo.runtime.journal.protocol import Journal


class Clock:
    now = 1_000.0

    def __call__(self) -> float:
        return self.now


def delivery(id: str, **more: object) -> ChannelDelivery:
    fields = {"channel": "ops", "kind": "run.failed", "subject": id, "at": 1.0, "next": 1.0, "ends": 9.0}
    return ChannelDelivery(id=id, **{**fields, **more})  # type: ignore[arg-type]


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def journals(clock: Clock) -> tuple[Journal, Journal]:
    first = MemoryJournal(clock, lease=10.0, member="a")
    return cast(Journal, first), cast(Journal, first.another("b"))


async def test_a_member_delivers_until_its_lease_ends(
    clock: Clock, journals: tuple[Journal, Journal]
) -> None:
    a, b = map(DeliveryStore, journals)
    await journals[0].renew()
    await journals[1].renew()
    assert await a.claim()
    await a.write([delivery("x")])
    assert not await b.claim()
    clock.now += 11
    await journals[1].renew()
    assert await b.claim()
    assert set(b.all) == {"x"}
    await b.write([delivery("x", state="arrived", settled=5.0)])
    with pytest.raises(ClaimLost):
        await a.write([delivery("x", attempts=3)])
    with pytest.raises(ClaimLost):
        await a.check()
    await b.check()
    assert (await journals[1].notes(KIND))["x"] == {
        "id": "x",
        "channel": "ops",
        "kind": "run.failed",
        "subject": "x",
        "at": 1.0,
        "next": 1.0,
        "ends": 9.0,
        "state": "arrived",
        "settled": 5.0,
    }


async def test_the_first_is_the_one_whose_time_comes_first(journals: tuple[Journal, Journal]) -> None:
    store = DeliveryStore(journals[0])
    assert await store.claim()
    await store.write(delivery(str(n), next=float(9 - n)) for n in range(3))
    assert (first := store.first("ops")) is not None
    assert first.id == "2"
    await store.write([delivery("2", next=50.0), delivery("1", state="overtaken")])
    assert (first := store.first("ops")) is not None
    assert first.id == "0"
    assert store.first("other") is None
    assert [each.id for each in store.waiting("ops", "0")] == ["0"]
    assert store.waiting("ops", "1") == []


async def test_what_is_old_or_too_much_is_deleted(
    journals: tuple[Journal, Journal], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delivery_store, "MOST_ENDED", 3)
    monkeypatch.setattr(delivery_store, "MOST_PENDING", 2)
    store, numbers = DeliveryStore(journals[0]), count()

    def some(settled: float, state: str) -> ChannelDelivery:
        return delivery(str(next(numbers)), state=state, settled=settled)

    assert await store.claim()
    await store.write([some(10.0, "arrived"), some(5.0, "given_up"), *(some(20.0, "arrived") for _ in "abc")])
    await store.purge(30.0)
    assert "0" not in store.all  # given up ones are kept longest
    assert "1" in store.all
    await store.purge(30.0 + KEPT)
    assert store.all == {}
    assert set(await journals[0].notes(KIND)) == {"notifier"}
    await store.write(delivery(str(next(numbers)), at=float(n)) for n in range(4))
    assert [each.id for each in await store.give_up_oldest(30.0)] == ["5", "6"]
    assert [each.state for each in store.all.values()] == ["given_up", "given_up", "pending", "pending"]
    await trio.lowlevel.checkpoint()


async def test_a_delivery_under_the_key_of_another_is_not_read(journals: tuple[Journal, Journal]) -> None:
    await journals[0].write_notes(KIND, {"x": to_json(delivery("y"))})
    store = DeliveryStore(journals[0])
    assert await store.claim()
    assert store.waiting("ops", "y") == []
    assert store.all == {}
