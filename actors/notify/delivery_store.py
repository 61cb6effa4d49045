"""The deliveries in the journal, as the one member that delivers keeps them.

They are notes of one kind. Each write demands the revision of the kind
that the member knows. A write by anybody else, such as another member's claim or a person's retry, gives the
kind a new revision: then nothing that this member has read counts any more, its next write raises
`ClaimLost`, and it begins anew. So a member that was paused overwrites nothing.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

import attrs
import trio

from ...runtime.journal.errors import JournalUnavailable
from ...runtime.journal.protocol import Journal, Json
from ..common.stored_json import readable, to_json
from .delivery import ChannelDelivery

KIND = "notification"
"""The kind of the notes."""
CLAIM = "notifier"
"""The kind, and the key, of the note that names the member that delivers; and the key of the note among the
deliveries that each claim writes, so that the writes of an earlier member are refused."""

MOST_PENDING = 10_000
"""Of more, the oldest are given up."""
MOST_ENDED = 2_000
KEPT = 30 * 86_400.0
"""Seconds that a settled delivery is kept, if there is room."""
MOST_DELETED = 50
"""Notes that are deleted at once, because each deletion is a commit."""


class ClaimLost(Exception):
    """Somebody else has written to the deliveries."""


async def revision_of(journal: Journal) -> int:
    return (await journal.note_revisions()).get(KIND, 0)


def read_deliveries(notes: Mapping[str, Json | None]) -> dict[str, ChannelDelivery]:
    """The deliveries by id. Those that cannot be read are left out."""
    read = {key: readable(note, ChannelDelivery) for key, note in notes.items() if key != CLAIM and note}
    return {key: each for key, each in read.items() if each is not None and each.id == key}


@attrs.define(eq=False)
class DeliveryStore:
    _journal: Journal
    all: dict[str, ChannelDelivery] = attrs.field(factory=dict)
    """By id."""
    is_claimed: bool = False
    revision: int = -1
    """The revision that the next write demands."""
    _writing: trio.Lock = attrs.field(factory=trio.Lock)
    _queues: defaultdict[str, list[tuple[float, str]]] = attrs.field(factory=lambda: defaultdict(list))
    """The pending ones by channel, as heaps of `next` and id. An entry whose `next` has changed is stale."""
    _waiting: defaultdict[tuple[str, str], set[str]] = attrs.field(factory=lambda: defaultdict(set))
    """The ids of the pending ones by channel and subject."""

    async def claim(self) -> bool:
        """Become the member that delivers, unless another living member is. Reads all deliveries."""
        claimed, me = (await self._journal.notes(CLAIM)).get(CLAIM), self._journal.member
        owner = None if claimed is None else claimed.get("member")
        if owner not in (None, me) and owner in await self._journal.living():
            return False
        revision = await revision_of(self._journal)
        notes = await self._journal.notes(KIND)
        claim = {CLAIM: {"member": me}}
        if not await self._journal.write_notes(KIND, claim, at=revision):
            return False
        if owner != me:
            await self._journal.write_notes(CLAIM, claim)
        self.is_claimed, self.revision, self.all = True, revision + 1, {}
        self._queues.clear()
        self._waiting.clear()
        self._set(read_deliveries(notes))
        return True

    def _set(self, deliveries: Mapping[str, ChannelDelivery]) -> None:
        self.all |= deliveries
        for each in deliveries.values():
            about = (each.channel, each.subject)
            if each.state == "pending":
                self._waiting[about].add(each.id)
                heapq.heappush(self._queues[each.channel], (each.next, each.id))
            elif about in self._waiting:
                self._waiting[about].discard(each.id)
                if not self._waiting[about]:
                    del self._waiting[about]

    async def check(self) -> None:
        """Raises `ClaimLost`."""
        async with self._writing:
            if await revision_of(self._journal) != self.revision:
                raise ClaimLost

    async def write(self, changed: Iterable[ChannelDelivery]) -> None:
        """Store deliveries in one commit. An iterator is read when nobody else writes, so that what it
        looks at does not change until its deliveries are stored. Raises `ClaimLost`."""
        async with self._writing:
            new = {each.id: each for each in changed}
            if not new:
                return
            bodies = {id: to_json(each) for id, each in new.items()}
            try:
                if not await self._journal.write_notes(KIND, bodies, at=self.revision):
                    raise ClaimLost
            except JournalUnavailable:
                raise ClaimLost from None  # the write may have been done
            self.revision += 1
            self._set(new)

    async def replace(self, old: ChannelDelivery, new: ChannelDelivery) -> bool:
        """Store a delivery, unless `old` is no longer its latest state. Raises `ClaimLost`."""
        await self.write(each for each in (new,) if self.all.get(old.id) is old)
        return self.all.get(old.id) is new

    def first(self, channel: str) -> ChannelDelivery | None:
        """The pending delivery to a channel whose next attempt comes first."""
        queue = self._queues[channel]
        while queue:
            next, id = queue[0]
            found = self.all.get(id)
            if found is not None and found.state == "pending" and found.next == next:
                return found
            heapq.heappop(queue)
        return None

    def waiting(self, channel: str, subject: str) -> Sequence[ChannelDelivery]:
        """The pending deliveries to a channel about a subject."""
        return [self.all[id] for id in self._waiting.get((channel, subject), ())]

    async def purge(self, now: float) -> bool:
        """Delete settled deliveries that are old or too many. Returns whether more have to be deleted."""
        if len(self.all) <= MOST_ENDED and not any(
            0 < each.settled < now - KEPT for each in self.all.values()
        ):
            return False
        settled = sorted((each for each in self.all.values() if each.state != "pending"), key=_settled)
        old = [each for each in settled if each.settled < now - KEPT]
        ended = old or settled[: max(0, len(settled) - MOST_ENDED)]
        for each in ended[:MOST_DELETED]:
            taken = await self._journal.take_note(KIND, each.id)
            if taken is not None and "settled" not in taken:  # a person wants it again, just now
                await self._journal.write_notes(KIND, {each.id: taken})
                raise ClaimLost
            del self.all[each.id]
        return len(ended) > MOST_DELETED

    async def give_up_oldest(self, now: float) -> Sequence[ChannelDelivery]:
        """Give up pending deliveries that are too many. Returns them."""
        lost: list[ChannelDelivery] = []

        def chosen() -> Iterator[ChannelDelivery]:
            pending = sorted((each for each in self.all.values() if each.state == "pending"), key=_at)
            for each in pending[: max(0, len(pending) - MOST_PENDING)]:
                lost.append(each.ended("given_up", "too many were waiting", now))
                yield lost[-1]

        await self.write(chosen())
        return lost


def _settled(delivery: ChannelDelivery) -> tuple[bool, float]:
    """Those that were given up are kept longest."""
    return delivery.state == "given_up", delivery.settled


def _at(delivery: ChannelDelivery) -> float:
    return delivery.at
