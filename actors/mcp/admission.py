"""The bearer token that admits a connection to a tool server.

Some servers refuse even to connect without a token, and only runs bring tokens. The connection's owner and
the calls meet in `Admission`:

1. the server refuses the connection: the owner calls `judge(admitted=False)`, then waits in `take`;
2. a call brings a token: it calls `offer`, which wakes the owner, and waits;
3. the owner connects with the token, and calls `judge` with the result, which wakes the call.
"""

from __future__ import annotations

import attrs
import trio


@attrs.frozen(eq=False)
class _Offer:
    bearer: str = attrs.field(repr=False)
    judged: trio.Event = attrs.field(factory=trio.Event)


@attrs.define(eq=False)
class Admission:
    """The bearer token of a connection's own requests: connecting, listing, and the server's own stream.

    It is the token of the first run that brings one. It is kept in memory, so that a lost connection can be
    repaired, until the server wants another. Calls carry tokens of their own.
    """

    bearer: str | None = attrs.field(default=None, repr=False)
    _next: _Offer | None = None
    _tried: _Offer | None = None
    _offered: trio.Event = attrs.field(factory=trio.Event)
    turn: trio.Lock = attrs.field(factory=trio.Lock)
    """Held by the call that offers a token: one token is tried after the other."""
    _closed: bool = False

    async def offer(self, bearer: str) -> None:
        """Have a token tried; return when the attempt has ended. The caller holds `turn`."""
        if self._closed:
            return
        self._next = _Offer(bearer)
        self._offered.set()
        await self._next.judged.wait()

    async def take(self) -> None:
        """For the connection's owner: wait until a token is offered, or the admission is closed."""
        while self._next is None and not self._closed:
            self._offered = trio.Event()
            await self._offered.wait()
        if self._next is not None:
            self._tried, self._next = self._next, None
            self.bearer = self._tried.bearer

    def judge(self, *, admitted: bool) -> None:
        """Record how an attempt to connect ended, with the present token or without one.

        A token that was offered meanwhile is tried only if the server did not admit the connection.
        """
        if not admitted:
            self.bearer = None
        elif self._next is not None:
            self._next.judged.set()
            self._next = None
        if self._tried is not None:
            self._tried.judged.set()
            self._tried = None

    def close(self) -> None:
        """Release every waiting call; no further token is tried."""
        self._closed = True
        self._offered.set()
        for offer in (self._tried, self._next):
            if offer is not None:
                offer.judged.set()
