"""The audit of a watcher of all conversations against the journal: each event once, or a gap after it."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator

import attrs
import trio

from stopgo.actors.agent.agent import Agent
from stopgo.actors.agent.watch import Announced, Gap, Watched
from stopgo.runtime.clock import WallClock
from stopgo.runtime.journal.protocol import Event


@attrs.define(eq=False)
class Watcher:
    """The items that a watcher got, each with its time."""

    clock: WallClock
    late: float = 0.0
    """Seconds until it hears at the latest that events are missing."""
    since: float = math.inf
    """When it began to watch."""
    until: float = math.inf
    got: list[tuple[float, Watched]] = attrs.field(factory=list)

    @property
    def gaps(self) -> list[float]:
        return [at for at, each in self.got if isinstance(each, Gap)]

    @property
    def seen(self) -> set[str]:
        """The conversations of which an event came."""
        return {each.event.stream for _, each in self.got if isinstance(each, Announced)}

    async def watch(self, agent: Agent, *, task_status: trio.TaskStatus[None]) -> None:
        with agent.all_events() as watched:
            self.since = self.clock()
            task_status.started()
            async for each in watched:
                self.got.append((self.clock(), each))

    def mistakes(self, committed: dict[str, list[Event]]) -> Iterator[str]:
        """`committed`: the events of the conversations that exist, or have existed."""
        seen: dict[str, list[int]] = defaultdict(list)
        deleted: set[str] = set()
        for _, each in self.got:
            if isinstance(each, Announced):
                seen[each.event.stream].append(each.event.seq)
                if each.event.type == "conversation.deleted":  # the events before it cannot be read any more
                    deleted.add(each.event.stream)
        for id, seqs in seen.items():
            if seqs != sorted(set(seqs)):
                yield f"{id} came as {seqs}"
        for id, events in ((id, events) for id, events in committed.items() if id not in deleted):
            for event in events:
                is_due = self.since < event.at < self.until - self.late
                if is_due and event.seq not in seen[id] and not any(at >= event.at for at in self.gaps):
                    yield f"{id}: event {event.seq} ({event.type}) did not come"
