"""Sends a notification to a webhook."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Protocol, Self

import attrs

from ...config.sections.notify import ChannelConfig
from ...runtime.json_text import dump_wire
from ..common.bounded_post import NotDelivered, Post, ResolveHost, resolve
from ..common.post_address import BadAddress, target_of
from .webhook_signature import signed_headers

GONE = 410
"""The status by which a receiver says that it wants no more."""


class Channel(Protocol):
    """A receiver of notifications."""

    @property
    def config(self) -> ChannelConfig: ...

    async def send(self, id: str, kind: str, at: float, data: Mapping[str, Any], now: float) -> None:
        """Make one attempt. `at` is the time of the event. Raises `NotDelivered`."""
        ...

    async def aclose(self) -> None: ...


@attrs.frozen(eq=False)
class Webhook:
    """A channel. Its connections are its own, so that a slow one does not keep others waiting."""

    config: ChannelConfig
    _post: Post

    @classmethod
    def of(cls, config: ChannelConfig, resolve: ResolveHost = resolve) -> Self:
        return cls(config, Post(config.to_private, resolve, "to_private"))

    async def send(self, id: str, kind: str, at: float, data: Mapping[str, Any], now: float) -> None:
        body = dump_wire({"type": kind, "timestamp": timestamp(at), "data": data})
        try:
            target = target_of(self.config.webhook)
        except BadAddress as error:
            raise NotDelivered(f"its address {error}", again=False) from error
        await self._post.send(target, signed_headers(id, int(now), body, self.config.secrets), body)

    async def aclose(self) -> None:
        await self._post.aclose()


def timestamp(at: float) -> str:
    """ISO 8601, in UTC."""
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
