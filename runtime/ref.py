"""An actor as others see it."""

from __future__ import annotations

from typing import Generic

import attrs

from .errors import ActorUnavailable
from .mailbox import Mailbox
from .message import A, R, Request


@attrs.define(eq=False)
class Address:
    """Where an actor is reached: the same one through all its lives."""

    name: str
    mailbox: Mailbox | None = None
    """None while no life accepts messages."""
    absence: str = "is starting"
    """Why, in words that follow the name."""


@attrs.frozen
class ActorRef(Generic[A]):
    """A handle on an actor of protocol `A`: survives restarts, safe to keep and to share."""

    _address: Address

    @property
    def name(self) -> str:
        return self._address.name

    async def ask(self, request: Request[A, R]) -> R:
        """Send a request and wait for its reply, as if calling a function.

        Cancelling the wait withdraws the request: queued, it is never handled; running, its
        handler is cancelled, and unwinds without being waited for.

        Raises Refused, ActorUnavailable, ActorCrashed or AskCycle.
        """
        return await self._mailbox().ask(request)

    def _mailbox(self) -> Mailbox:
        mailbox = self._address.mailbox
        if mailbox is None:
            raise ActorUnavailable(f"{self._address.name} {self._address.absence}")
        return mailbox
