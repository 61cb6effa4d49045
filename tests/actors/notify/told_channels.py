"""Channels that outlive the agent: what they were told, and whether that is what had happened."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any

import attrs
import trio

from stopgo.actors.common.bounded_post import NotDelivered
from stopgo.actors.notify.delivery import ChannelDelivery
from stopgo.actors.notify.notice_rows import kind_of_event
from stopgo.actors.notify.notifier import OpenChannel
from stopgo.config.sections.notify import ChannelConfig, NotifyConfig
from stopgo.runtime.journal.protocol import Event, NewEvent

from .fake_channels import KEY

SECONDS = 0.2
"""How long an attempt takes."""


@attrs.define(eq=False)
class ToldChannels:
    """Each of them fails every other time, and half of the failures come after it has taken the notification:
    only the answer is lost."""

    told: dict[str, tuple[str, str, Mapping[str, Any]]] = attrs.field(factory=dict)
    """Channel, kind and data, by id."""
    wrongs: list[str] = attrs.field(factory=list)
    _tried: int = 0

    def opened_by(self, is_alive: Callable[[], bool]) -> OpenChannel:
        """For a process. After its end, its tasks still unwind, and must have no effect."""
        return lambda config: ToldChannel(config, self, is_alive)

    def take(self, name: str, id: str, kind: str, data: Mapping[str, Any]) -> None:
        self._tried += 1
        if self._tried % 4 == 1:
            raise NotDelivered("it answered 503", again=True, status=503)
        before = self.told.setdefault(id, (name, kind, data))
        if before[:2] != (name, kind):
            self.wrongs.append(f"{id} was {before} and then {(name, kind)}")
        if self._tried % 4 == 3:
            raise NotDelivered("no answer", again=True)

    def check(
        self,
        config: NotifyConfig,
        events: Iterable[Event],
        deliveries: Mapping[str, ChannelDelivery],
        deleted: Collection[str] = (),
    ) -> Iterator[str]:
        """A sentence for each violation, when nothing waits any more. `deleted` are conversations."""
        yield from self.wrongs
        happened: Counter[tuple[str, str]] = Counter()
        for event in events:
            kind = kind_of_event(NewEvent(event.type, event.body))
            happened[kind, str(event.body.get("id") or f"{event.stream}/{event.seq}")] += 1
        made: Counter[tuple[str, str, str]] = Counter()
        for each in deliveries.values():
            made[each.channel, each.kind, each.subject] += 1
            if each.state == "pending":
                yield f"{each} still waits"
            if each.state == "arrived" and each.id not in self.told:
                yield f"{each} has not arrived"
        for id, (name, kind, _) in self.told.items():
            delivery = deliveries.get(id)
            if delivery is None:
                yield f"{name} was told {kind}, and {id} is not stored"
            elif delivery.seq and delivery.stream not in deleted and not happened[kind, delivery.subject]:
                yield f"{name} was told of {kind}, which was undone: {delivery}"
        for (kind, subject), times in happened.items():
            for channel in config.channels:
                if channel.wants(kind) and made[channel.name, kind, subject] != times:
                    found = made[channel.name, kind, subject]
                    yield f"{channel.name} has {found} notifications of {kind} {subject}, not {times}"


@attrs.frozen(eq=False)
class ToldChannel:
    config: ChannelConfig
    _all: ToldChannels
    _is_alive: Callable[[], bool]

    async def send(self, id: str, kind: str, at: float, data: Mapping[str, Any], now: float) -> None:
        await trio.sleep(SECONDS)
        if self._is_alive():
            self._all.take(self.config.name, id, kind, data)

    async def aclose(self) -> None:
        await trio.lowlevel.checkpoint()


NOTIFY = NotifyConfig(
    channels=tuple(
        ChannelConfig(name=name, webhook="https://hooks.example", secrets=(KEY,), events=events)  # type: ignore[arg-type]
        for name, events in (
            ("people", ("approval.requested", "approval.resolved", "approval.expired", "approval.void")),
            ("ops", ("run.failed", "agent.halted", "agent.unhalted", "conversation.deleted")),
        )
    )
)
