"""One life of a connection to a tool server, and where its callers find the present one."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import attrs
import trio

from stopgo.actors.mcp.flight import Flights
from stopgo.actors.tools.needs import Wanted
from stopgo.actors.tools.tool import Tool

if TYPE_CHECKING:
    from mcp import Client

    from stopgo.actors.mcp.tool_calls import ToolCalls


@attrs.define(eq=False)
class Link:
    """One life of the connection, between its owner and its callers."""

    flights: Flights
    """The calls under way, for questions that come up in them."""
    client: Client = attrs.field(init=False)
    tool_calls: ToolCalls = attrs.field(init=False)
    version: str | None = None
    """Of the protocol, once it is agreed upon."""
    loss: str | None = None
    """Why it is lost."""
    stale: bool = False
    """The server's tools may have changed."""
    announces: bool = False
    """The server says that it tells of such changes."""
    news: trio.Event = attrs.field(factory=trio.Event)
    """Something of the above has changed; the owner looks, and waits for the next."""

    def lose(self, why: str) -> None:
        if self.loss is None:
            self.loss = why
        self.news.set()

    def refresh(self) -> None:
        """Have the tools listed again."""
        self.stale = True
        self.news.set()

    def stream_begins(self) -> None:
        """From here on the server can tell of changes; before, it may have told nobody."""
        if self.announces:
            self.refresh()

    async def wait_for_news(self) -> None:
        await self.news.wait()
        self.news = trio.Event()


@attrs.define(eq=False)
class Line:
    """The link that takes calls at present; if there is none, since when, and how often one was tried."""

    link: Link | None = None
    tools: tuple[Tool, ...] = ()
    """What the server last listed."""
    wanted: Wanted | None = None
    """The server has nothing to do with us without another token."""
    down_since: float = -math.inf
    failures: int = 0
    """Attempts to connect that have failed since."""
    _news: trio.Event = attrs.field(factory=trio.Event)

    def open(self, link: Link) -> None:
        """Let calls over this link."""
        self.link, self.wanted = link, None
        self.failures = 0
        self._tell()

    def close(self, link: Link) -> None:
        """Let no further call over this link."""
        if self.link is link:
            self.link = None
            self.down_since = trio.current_time()

    def fail(self, wanted: Wanted | None = None) -> None:
        """Count an attempt to connect that failed, perhaps for want of a token."""
        self.failures += 1
        self.wanted = wanted
        self._tell()

    async def wait(self, patience: float, attempts: int) -> Link | None:
        """The link that takes calls; None when there was none for `patience` seconds or so many attempts,
        or when there is none without another token.

        Counted from the loss, not from the call: after a long absence, a queue of callers is
        refused at once and not one after the other.
        """
        with trio.CancelScope(deadline=self.down_since + patience):
            while self.link is None and self.wanted is None and self.failures < attempts:
                await self._news.wait()
        return self.link

    def _tell(self) -> None:
        self._news.set()
        self._news = trio.Event()
