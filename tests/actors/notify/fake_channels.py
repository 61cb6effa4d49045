"""Channels of this process that note what they are told, and fail as a test wants."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import attrs
import trio

from stopgo.actors.common.bounded_post import NotDelivered
from stopgo.config.sections.notify import ChannelConfig

KEY = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="


def channel(**more: Any) -> dict[str, Any]:
    """An entry of the agent file."""
    return {"webhook": "https://hooks.example/in", "secrets": [KEY], **more}


@attrs.frozen
class Told:
    channel: str
    id: str
    kind: str
    data: Mapping[str, Any]


@attrs.define(eq=False)
class FakeChannels:
    told: list[Told] = attrs.field(factory=list)
    """What has arrived."""
    tried: list[tuple[str, str, str, float]] = attrs.field(factory=list)
    """All attempts: channel, id, kind and time."""
    fails: Callable[[str], NotDelivered | None] = lambda name: None
    """The failure of the next attempt to a channel."""
    takes: float = 0.0
    """Seconds until an attempt is answered."""

    def open(self, config: ChannelConfig) -> FakeChannel:
        return FakeChannel(config, self)

    def kinds(self, name: str = "ops") -> list[str]:
        return [each.kind for each in self.told if each.channel == name]


@attrs.frozen(eq=False)
class FakeChannel:
    config: ChannelConfig
    _all: FakeChannels

    async def send(self, id: str, kind: str, at: float, data: Mapping[str, Any], now: float) -> None:
        name = self.config.name
        self._all.tried.append((name, id, kind, trio.current_time()))
        await trio.sleep(self._all.takes)
        if (failure := self._all.fails(name)) is not None:
            raise failure
        self._all.told.append(Told(name, id, kind, data))

    async def aclose(self) -> None:
        await trio.lowlevel.checkpoint()
