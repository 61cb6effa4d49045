"""The bearer token with which a connection to a tool server is admitted."""

from __future__ import annotations

import attrs
import trio


@attrs.frozen(eq=False)
class _Offer:
    bearer: str = attrs.field(repr=False)
    judged: trio.Event = attrs.field(factory=trio.Event)


@attrs.define(eq=False)
class Admission:
    """The bearer token of a connection's own requests: connecting, listing, and the server's stream to us.

    A server that admits no connection without a token gets that of the first run which has one. The token is
    kept in memory, so that a lost connection can be repaired, until the server wants another. Calls have
    tokens of their own.
    """

    bearer: str | None = attrs.field(default=None, repr=False)
    _next: _Offer | None = None
    _tried: _Offer | None = None
    _offered: trio.Event = attrs.field(factory=trio.Event)
    turn: trio.Lock = attrs.field(factory=trio.Lock)
    """One bearer is offered after the other."""
    _closed: bool = False

    async def offer(self, bearer: str) -> None:
        """Have a bearer tried, and return when it was. The caller holds `turn`."""
        if self._closed:
            return
        self._next = _Offer(bearer)
        self._offered.set()
        await self._next.judged.wait()

    async def take(self) -> None:
        """For the connection's owner: return when there is another bearer to try, or there will be none."""
        while self._next is None and not self._closed:
            self._offered = trio.Event()
            await self._offered.wait()
        if self._next is not None:
            self._tried, self._next = self._next, None
            self.bearer = self._tried.bearer

    def judge(self, *, admitted: bool) -> None:
        """Take note of how an attempt to connect ended, with the present bearer or without any. A bearer that
        was offered meanwhile is only tried at a server that did not admit us."""
        if not admitted:
            self.bearer = None
        elif self._next is not None:
            self._next.judged.set()
            self._next = None
        if self._tried is not None:
            self._tried.judged.set()
            self._tried = None

    def close(self) -> None:
        """Nothing will be tried any more."""
        self._closed = True
        self._offered.set()
        for offer in (self._tried, self._next):
            if offer is not None:
                offer.judged.set()
