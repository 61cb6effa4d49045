"""One life of a connection to a tool server, and how an attempt at one fails."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs
import trio

if TYPE_CHECKING:
    from mcp import Client


@attrs.define(eq=False)
class Link:
    """One life of the connection, between its owner and its callers."""

    client: Client = attrs.field(init=False)
    calls: int = 0
    """In flight."""
    loss: str | None = None
    """Why it is lost."""
    stale: bool = False
    """The server says that its tools have changed."""
    news: trio.Event = attrs.field(factory=trio.Event)
    """Something of the above has changed; the owner looks, and waits for the next."""

    def lose(self, why: str) -> None:
        if self.loss is None:
            self.loss = why
        self.news.set()

    async def wait_for_news(self) -> None:
        await self.news.wait()
        self.news = trio.Event()


class ConnectFailed(Exception):
    """An attempt to connect failed; the text is the reason."""

    def __init__(self, reason: str, *, retry: bool = False) -> None:
        super().__init__(reason)
        self.retry = retry
        """The server may merely not be up yet."""


class NoAnswer(ConnectFailed):
    """The time was up."""
